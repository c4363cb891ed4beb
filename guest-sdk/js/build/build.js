#!/usr/bin/env node
// guesthouse-build ENTRY OUT.wasm: bundles a plugin, JavaScript or TypeScript, and makes a WebAssembly component of it. The
// same sources and the same lock file give the same bytes, in whatever folder.

import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { runtime } from "./runtime.js";
import { project, yamlModule } from "./sources.js";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

const yaml = {
  name: "yaml",
  setup: ({ onLoad }) => onLoad({ filter: /\.ya?ml$/ }, ({ path }) => ({ contents: yamlModule(path) })),
};

/** One module in the language of the engine. Names stay, for the traces of errors; comments and white space go. */
async function bundle(entry) {
  const { build } = project("esbuild");
  const { outputFiles } = await build({
    entryPoints: [here("guest.js")],
    alias: { "guesthouse:plugin": resolve(entry), "@guesthouse/sdk": here("../src/index.js") },
    external: ["guesthouse:reconciler/*"],
    bundle: true,
    format: "esm",
    target: "es2023",
    minifySyntax: true,
    minifyWhitespace: true,
    charset: "utf8",
    legalComments: "none",
    plugins: [yaml],
    write: false,
  });
  return outputFiles[0].text;
}

async function build(entry, out) {
  const { componentize } = project("componentize-qjs");
  const { component } = await componentize({
    jsSource: await bundle(entry),
    witPath: here("../wit"),
    world: "reconciler",
    runtimeBytes: runtime(project),
  });
  await writeFile(out, component);
  console.error(`${out}: ${component.length.toLocaleString("en")} bytes`);
}

const [entry, out] = process.argv.slice(2);
if (out === undefined) {
  console.error("usage: guesthouse-build ENTRY OUT.wasm");
  process.exitCode = 2;
} else {
  await build(entry, out).catch((error) => {
    // esbuild has told its errors itself, with the place in the source; the componentizer's may begin with an empty output.
    if (error.errors === undefined)
      console.error(`guesthouse-build: ${entry}: ${error.message.replace(/^[:\s]+/, "")}`);
    process.exitCode = 1;
  });
}

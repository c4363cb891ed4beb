// What a plugin may be written in beside JavaScript, the same for the bundler and for tests: TypeScript, whose types are taken
// off, and YAML, which becomes a value. The tools for it are the project's own, as its lock file pins them.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stringify } from "../src/json.js";

/** Loads what is installed in the project that is built, wherever this SDK lies. */
export const project = createRequire(join(process.cwd(), "package.json"));

/** A module whose default export is the value of that YAML file, integers exact. */
export function yamlModule(file) {
  const text = stringify(project("yaml").parse(readFileSync(file, "utf8"), { intAsBigInt: true }));
  return `import { parse } from "@guesthouse/sdk";\nexport default parse(${JSON.stringify(text)});\n`;
}

function typescriptModule(file) {
  const options = { loader: "ts", format: "esm", sourcefile: file, sourcemap: "inline" };
  return project("esbuild").transformSync(readFileSync(file, "utf8"), options).code;
}

const MODULES = [
  [/\.ya?ml$/, yamlModule],
  [/\.ts$/, typescriptModule],
];

/** The `load` hook of node's modules. */
export function load(url, context, next) {
  const [, made] = MODULES.find(([name]) => url.startsWith("file:") && name.test(url)) ?? [];
  return made ? { format: "module", shortCircuit: true, source: made(fileURLToPath(url)) } : next(url, context);
}

// What is built and how. Tests that make WebAssembly are skipped where the tools for it are not installed.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const sdk = fileURLToPath(new URL("..", import.meta.url));
const temporary = mkdtempSync(join(tmpdir(), "guesthouse-js-"));
after(() => rmSync(temporary, { recursive: true }));

/** This SDK in a folder of another name and depth, with the same tools. */
function copied(to) {
  mkdirSync(to, { recursive: true });
  for (const part of ["package.json", "src", "build", "wit", "conformance"])
    cpSync(join(sdk, part), join(to, part), { recursive: true });
  symlinkSync(join(sdk, "node_modules"), join(to, "node_modules"));
  return to;
}

/** What `npm install` makes, with that folder as the SDK. */
function installed(folder, linked) {
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "@guesthouse"), { recursive: true });
  symlinkSync(linked, join(modules, "@guesthouse/sdk"));
  for (const tool of ["componentize-qjs", "@andreiltd", "esbuild", "@esbuild", "yaml"]) {
    symlinkSync(join(sdk, "node_modules", tool), join(modules, tool));
  }
}

function run(cwd, ...args) {
  // Without what tells a test runner that it runs inside another one, and then reports no failure.
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  return execFileSync(process.execPath, args, { cwd, env, stdio: "pipe", encoding: "utf8" });
}

function built(folder, entry) {
  run(folder, "build/build.js", entry, "out.wasm");
  return readFileSync(join(folder, "out.wasm"));
}

const skip = existsSync(join(sdk, "node_modules/componentize-qjs")) ? false : "componentize-qjs is not installed";

test(
  "the same sources give the same bytes in another folder, also with what is made when they are loaded",
  { skip },
  () => {
    const [one, two] = [copied(join(temporary, "one")), copied(join(temporary, "a/longer/way/to/two"))];
    for (const folder of [one, two]) {
      // All that could carry the builder's clock, seeds and order of hashing into the image.
      const made =
        "globalThis.made = [new Map([[1, 2], ['a', {}]]), new Set(['b']), new Date(), Math.random(), performance.now()];";
      writeFileSync(join(folder, "plugin.js"), `${made}\nexport { default } from "./conformance/plugin.js";\n`);
    }
    assert.ok(built(one, "plugin.js").equals(built(two, "plugin.js")));
  },
);

test("a YAML file is a value with exact integers, and TypeScript goes without its types", () => {
  writeFileSync(join(temporary, "package.json"), '{"type":"module"}');
  writeFileSync(join(temporary, "crd.yaml"), "maximum: 9223372036854775807\nwhen: 2026-01-01\n");
  const lines = [
    'import crd from "./crd.yaml";',
    'const told: string = crd.maximum === 9223372036854775807n && crd.when === "2026-01-01" ? "exact" : "lost";',
    "console.log(told);",
  ];
  writeFileSync(join(temporary, "plugin.ts"), lines.join("\n"));
  installed(temporary, sdk);
  const told = run(sdk, "--import", "@guesthouse/sdk/register", join(temporary, "plugin.ts"));
  assert.equal(told, "exact\n");
});

test("what `guesthouse new` writes passes its own test and builds", { skip }, () => {
  const folder = join(temporary, "hello-world");
  const names = {
    name: "hello-world",
    kind: "HelloWorld",
    plural: "helloworlds",
    group: "example.com",
    snake: "hello",
    deploy: "",
    file: "",
    again: "",
    time: "",
  };
  // What is the same in every language, then this one's own.
  cpSync(join(sdk, "../template"), folder, { recursive: true });
  cpSync(join(sdk, "template"), folder, { recursive: true });
  const files = readdirSync(folder, { recursive: true })
    .map((name) => join(folder, name))
    .filter((file) => statSync(file).isFile());
  assert.ok(files.length <= 13, `${files.length} files, one of them a part of the README`);
  for (const file of files) {
    const named = (_, part) => names[part] ?? assert.fail(`${file}: {{${part}}}`);
    writeFileSync(file, readFileSync(file, "utf8").replaceAll(/\{\{(\w+)\}\}/g, named));
  }
  for (const part of ["package.json", "src", "build", "wit"]) {
    cpSync(join(sdk, part), join(folder, "sdk", part), { recursive: true });
  }
  installed(folder, join(folder, "sdk"));
  run(folder, "--import", "@guesthouse/sdk/register", "--test");
  run(folder, "sdk/build/build.js", "src/plugin.ts", "hello-world.wasm");
  assert.ok(existsSync(join(folder, "hello-world.wasm")));
});

test("the README's plugin passes the README's test", () => {
  const folder = join(temporary, "readme");
  const readme = readFileSync(join(sdk, "README.md"), "utf8");
  const block = (language) => readme.match(new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``))[1];
  mkdirSync(join(folder, "src"), { recursive: true });
  mkdirSync(join(folder, "test"));
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  writeFileSync(join(folder, "crd.yaml"), "{}");
  writeFileSync(join(folder, "src/plugin.ts"), block("ts"));
  writeFileSync(join(folder, "test/plugin.test.js"), block("js"));
  writeFileSync(join(folder, "test/greets.json"), block("json"));
  installed(folder, sdk);
  const said = run(folder, "--import", "@guesthouse/sdk/register", "--test", "--test-reporter", "tap");
  assert.match(said, /^# pass 2$/m);
});

test("a source with an error is told by its place, and nothing is written", { skip }, () => {
  const folder = copied(join(temporary, "broken"));
  writeFileSync(join(folder, "plugin.js"), "export default {\n  name: ?,\n};\n");
  assert.throws(
    () => built(folder, "plugin.js"),
    ({ status, stderr }) => status === 1 && /plugin\.js:2:8/.test(stderr),
  );
  assert.equal(existsSync(join(folder, "out.wasm")), false);
});

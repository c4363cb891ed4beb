import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as sdk from "@guesthouse/sdk";
import { SDK } from "../src/door.js";

const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const manifest = JSON.parse(read("../package.json"));

test("the copy of the contract is the original", () => {
  assert.equal(read("../wit/reconciler.wit"), read("../../../wit/reconciler.wit"));
});

test("the SDK reports its own version", () => {
  assert.equal(SDK, `js/${manifest.version}`);
});

test("the package has no dependency at run time", () => {
  assert.equal(manifest.dependencies, undefined);
});

test("every export has its type, and no type is without export", () => {
  const typed = [...read("../src/index.d.ts").matchAll(/^export (?:declare )?function (\w+)/gm)].map(
    ([, name]) => name,
  );
  assert.deepEqual(Object.keys(sdk).sort(), [...new Set(typed)].sort());
});

test("what is published is the sources, the build and the contract", () => {
  const [{ files }] = JSON.parse(
    execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: new URL("..", import.meta.url), encoding: "utf8" }),
  );
  assert.deepEqual(files.map(({ path }) => path).sort(), [
    "README.md",
    "build/build.js",
    "build/guest.js",
    "build/register.js",
    "build/runtime.js",
    "build/sources.js",
    "package.json",
    "src/contract.js",
    "src/decision.js",
    "src/door.js",
    "src/fingerprint.js",
    "src/index.d.ts",
    "src/index.js",
    "src/json.js",
    "src/observation.js",
    "src/testing.d.ts",
    "src/testing.js",
    "src/world.js",
    "src/yaml.d.ts",
    "wit/reconciler.wit",
  ]);
});

test("lock files hold no address to download from", () => {
  for (const lock of ["../package-lock.json", "../template/package-lock.json"]) {
    assert.deepEqual(read(lock).match(/"resolved": "(?!sdk")[^"]*"/), null, lock);
  }
});

test("the template pins the tools that the SDK is tested with, and its lock file knows this SDK", () => {
  const template = JSON.parse(read("../template/package.json"));
  for (const [tool, version] of Object.entries(template.devDependencies)) {
    assert.equal(version, tool === manifest.name ? "file:./sdk" : manifest.devDependencies[tool], tool);
  }
  const { sdk: locked } = JSON.parse(read("../template/package-lock.json")).packages;
  const members = [
    "version",
    "license",
    "bin",
    "devDependencies",
    "engines",
    "peerDependencies",
    "peerDependenciesMeta",
  ];
  for (const member of members) assert.deepEqual(locked[member], manifest[member], member);
});

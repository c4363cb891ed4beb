import assert from "node:assert/strict";
import { test } from "node:test";
import plugin from "../conformance/plugin.js";
import { descriptor } from "../src/contract.js";
import { SDK } from "../src/door.js";
import { answer, check, describe, readCase } from "../src/testing.js";

const suite = readCase(new URL("../../../tests/conformance/cases.json", import.meta.url));

for (const one of suite.cases) {
  test(`case ${one.name}`, () => (one.expect.refused ? refused(one) : check(plugin, one)));
}

/** It is the host that refuses. Natively, what no host would take cannot be printed. */
function refused({ observation }) {
  assert.throws(() => answer(plugin, observation), /^TypeError: decision\.status\.replace is not JSON: /);
}

test("describe", () => {
  const wanted = { ...suite.describe, sdk: SDK };
  assert.deepEqual(describe(plugin), descriptor.print(descriptor.read(wanted, "describe"), "describe"));
});

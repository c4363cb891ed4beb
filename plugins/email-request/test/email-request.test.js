import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { check, describe, readCase } from "@guesthouse/sdk/testing";
import crd from "../crd.yaml";
import emailRequest from "../src/plugin.ts";

const cases = new URL("cases/", import.meta.url);

for (const file of readdirSync(cases)) {
  const one = readCase(new URL(file, cases));
  test(`${file}: ${one.about}`, () => check(emailRequest, one));
}

test("the plugin brings the kind that it serves", () => {
  const [served] = describe(emailRequest).kinds;
  assert.deepEqual(served.kind, {
    apiVersion: `${crd.spec.group}/${crd.spec.versions[0].name}`,
    kind: crd.spec.names.kind,
  });
  assert.deepEqual(served.crd, crd);
});

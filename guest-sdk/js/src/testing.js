// Plugins under `node --test`: what a plugin answers, and whether that is what a case file expects. No WebAssembly, no host.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { decision, descriptor, exactly, failure, observation } from "./contract.js";
import { door } from "./door.js";
import { stringify } from "./json.js";

/** Lines that no test looks at are for whoever runs it. */
const print = (level, text) => process.stderr.write(`${level} ${text}\n`);

export function describe(plugin) {
  return descriptor.print(door(plugin).describe(), "descriptor");
}

export function answer(plugin, seen, verb = "reconcile", write = print) {
  const record = observation.read(seen, "observation");
  let said;
  try {
    said = door(plugin, write)[verb](record);
  } catch (thrown) {
    return { failure: failure.print(thrown, "failure") };
  }
  return { decision: decision.print(said, "decision") };
}

export function readCase(file) {
  return exactly(readFileSync(file, "utf8"));
}

export function check(plugin, { verb = "reconcile", observation: seen, expect }) {
  const lines = [];
  const said = answer(plugin, seen, verb, (level, text) => lines.push([level, text]));
  const again = answer(plugin, seen, verb, () => {});
  assert.deepEqual(again, said, "two equal observations gave two answers");

  const wanted = repeated(expect);
  if (wanted.decision) {
    assert.deepEqual(said, { decision: normal(decision, wanted.decision, "expect.decision") });
  } else if (wanted.failure) {
    assert.deepEqual(said, { failure: normal(failure, wanted.failure, "expect.failure") });
  } else if (wanted.broken) {
    assert.ok(said.failure?.cause.message.includes(wanted.broken), `it answers ${stringify(said)}`);
  } else if (!wanted.same) {
    throw new Error(`${Object.keys(wanted)}: natively a case expects decision, failure, broken or same`);
  }
  if (wanted.logs) assert.deepEqual(lines, wanted.logs);
}

/** Without what need not be said, as an answer is printed. */
const normal = (form, value, path) => form.print(form.read(value, path), path);

/** A text `{"repeat": [TEXT, N]}` stands for TEXT repeated N times. */
function repeated(value) {
  if (Array.isArray(value)) return value.map(repeated);
  if (value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  if (Object.keys(value).join() === "repeat") return value.repeat[0].repeat(value.repeat[1]);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, repeated(member)]));
}

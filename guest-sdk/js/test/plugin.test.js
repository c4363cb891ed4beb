import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, fingerprint, reconciler, retry, stall } from "@guesthouse/sdk";
import { answer, check, describe } from "@guesthouse/sdk/testing";

const object = { apiVersion: "example.com/v1", kind: "Greeting", metadata: { name: "g", namespace: "ns" }, spec: {} };
const plugin = (reconcile, rest) => reconciler({ name: "p", version: "1.0.0", reconcile, ...rest });
const silent = () => {};
const said = (reconcile, seen = {}) => answer(plugin(reconcile), { object, ...seen }, "reconcile", silent);
/** What the function makes of the observation; an error in it is one of the plugin's, so it is looked at from outside. */
const see = (look, seen) => {
  let looked;
  assert.deepEqual(
    said((observation) => ((looked = look(observation)), decide()), seen),
    { decision: {} },
  );
  return looked;
};
const response = (code, body) => ({ code, headers: [["etag", "e"]], body, at: "2026-01-01T00:00:00Z" });

test("an error that nobody caught is a retry with its text, and its trace is logged", () => {
  const lines = [];
  const failing = plugin((seen) => seen.spec.list.length);
  const { failure } = answer(failing, { object }, "reconcile", (...line) => lines.push(line));
  assert.equal(failure.kind, "retry");
  assert.equal(failure.cause.reason, "Error");
  assert.match(failure.cause.message, /^TypeError: Cannot read properties of undefined/);
  assert.deepEqual(
    lines.map(([level]) => level),
    ["error"],
  );
  assert.match(lines[0][1], /plugin.test.js/);
});

test("a failure may be thrown from deep inside", () => {
  const thrown = said(() => {
    throw stall("Wrong", "no size");
  });
  assert.deepEqual(thrown, { failure: { kind: "terminal", cause: { reason: "Wrong", message: "no size" } } });
});

test("what is neither a decision nor a failure is told by its type", () => {
  for (const [value, type] of [
    [undefined, "undefined"],
    [{}, "Object"],
    [Promise.resolve(decide()), "Promise"],
  ]) {
    assert.match(said(() => value).failure.cause.message, new RegExp(`^the plugin returned ${type}, not what decide`));
  }
});

test("a status that JSON cannot say is a retry that names the place", () => {
  const { failure } = said(() => decide().status({ ratio: 0 / 0 }));
  assert.equal(failure.cause.message, "TypeError: status.ratio is NaN, and JSON has no such value");
});

test("without finalize, deletion does not wait", () => {
  assert.equal(describe(plugin(() => decide())).finalizes, undefined);
  assert.deepEqual(
    answer(
      plugin(() => decide()),
      { object },
      "finalize",
    ),
    { decision: { finalized: true } },
  );
});

test("the clock is the observation's, random numbers are one stream, and both are put back", () => {
  const { Date: before } = globalThis;
  const seen = { now: "2026-03-04T05:06:07Z" };
  const status = () => ({
    at: new Date().toISOString(),
    ms: Date.now(),
    text: Date().slice(0, 15),
    day: new Date(0).getTime(),
    any: Math.random(),
  });
  const first = said(() => decide().status(status()), seen);
  const { any, ...rest } = first.decision.status.replace;
  const now = Date.parse(seen.now);
  assert.deepEqual(rest, {
    at: "2026-03-04T05:06:07.000Z",
    ms: now,
    text: new Date(now).toString().slice(0, 15),
    day: 0,
  });
  assert.ok(any >= 0 && any < 1);
  assert.deepEqual(
    said(() => decide().status(status()), seen),
    first,
  );
  assert.equal(globalThis.Date, before);
});

test("a wake may be a date; it is told in whole seconds", () => {
  const at = new Date("2026-01-01T00:00:00.900Z");
  assert.deepEqual(
    said(() => decide().wakeAt(at)),
    { decision: { wake: { at: "2026-01-01T00:00:00Z" } } },
  );
});

test("a JSON body has its content type before the other headers, and large integers are exact", () => {
  const { decision } = said(() =>
    decide().http({ id: "x", method: "PUT", url: "u", json: { n: 2n ** 60n }, headers: { "x-a": "1" } }),
  );
  assert.deepEqual(decision.effects[0].action.http.request, {
    method: "PUT",
    url: "u",
    headers: [
      ["content-type", "application/json"],
      ["x-a", "1"],
    ],
    body: { text: '{"n":1152921504606846976}' },
  });
});

test("a receipt is found by id and key, or by id alone", () => {
  const receipts = [
    { effect: "a", key: "1", state: { answered: response(201, { text: '{"id":9007199254740993}' }) } },
    { effect: "b", state: { failed: { attempts: 3, error: { reason: "Timeout", message: "m" }, nextAt: "t" } } },
  ];
  const { response: made } = see((seen) => seen.receipt("a", "1"), { receipts });
  assert.deepEqual([made.code, made.ok, made.header("etag"), made.json().id], [201, true, "e", 9007199254740993n]);
  assert.equal(see((seen) => seen.receipt("b"), { receipts }).attempts, 3);
  assert.equal(see((seen) => seen.lastReceipt("a"), { receipts }).key, "1");
  assert.equal(
    see((seen) => seen.receipt("a") ?? seen.receipt("a", "2"), { receipts }),
    undefined,
  );
});

test("a body that is no JSON reads as none", () => {
  const bodies = ["empty", { text: "<html>" }, { bytes: "AP8=" }];
  const receipts = bodies.map((body, n) => ({ effect: `${n}`, state: { answered: response(502, body) } }));
  const read = see((seen) => seen.receipts.map(({ response }) => response.json()), { receipts });
  assert.deepEqual(read, [undefined, undefined, undefined]);
});

test("objects of a need: none when not asked for, a retry without an answer, a stall for a fetch", () => {
  const related = [
    { name: "two", answer: { objects: { items: [{ n: 1 }, { n: 2 }] } } },
    { name: "denied", answer: { unavailable: { reason: "Denied", message: "not granted" } } },
    { name: "page", answer: { response: response(200, "empty") } },
  ];
  const read = (name) => said((seen) => decide().status({ all: seen.all(name), one: seen.one(name) }), { related });
  assert.deepEqual(read("unasked").decision.status.replace, { all: [] });
  assert.deepEqual(read("two").decision.status.replace, { all: [{ n: 1 }, { n: 2 }], one: { n: 1 } });
  assert.deepEqual(read("denied").failure, { kind: "retry", cause: { reason: "Denied", message: "not granted" } });
  assert.equal(read("page").failure.cause.reason, "BadRelated");
});

test("an object without spec, status, labels and generation reads as an empty one", () => {
  const all = ({ spec, status, labels, annotations, generation }) => [spec, status, labels, annotations, generation];
  assert.deepEqual(see(all, { object: { metadata: { name: "g" } } }), [{}, undefined, {}, {}, 0]);
});

test("a fingerprint is that of the other SDKs", () => {
  assert.equal(fingerprint([]), "cbf29ce484222325");
  assert.equal(fingerprint(["a"]), "089bc907b544c769");
  const all = [[], ["a", "b"], ["b", "a"], ["ab"], ["ab", ""], ["", "ab"], ["ä€😀"]].map(fingerprint);
  assert.equal(new Set(all).size, all.length);
});

test("a case file with a member that no contract knows is refused by its path", () => {
  const one = { observation: { object, recipts: [] }, expect: { decision: {} } };
  assert.throws(
    () =>
      check(
        plugin(() => decide()),
        one,
      ),
    /observation has no member recipts; there are object, related/,
  );
});

test("a decision without what the contract asks for is refused by its path", () => {
  assert.throws(
    () => said(() => decide().http({ method: "PUT", url: "u" })),
    /decision.effects\[0\].id is null, not a string/,
  );
});

test("a case tells 1 from 1.0, and what is said from what is meant by default", () => {
  const one = (status, effects = []) => ({
    observation: { object },
    expect: { decision: { complete: false, status, effects } },
  });
  check(
    plugin(() => decide().status({ n: 1 })),
    one({ replace: { n: 1 } }),
  );
  assert.throws(() =>
    check(
      plugin(() => decide().status({ n: 1 })),
      one({ replace: { n: 2 } }),
    ),
  );
});

test("a plugin that answers twice differently fails its case", () => {
  let calls = 0;
  const counting = plugin(() => decide().status({ calls: calls++ }));
  assert.throws(
    () => check(counting, { observation: { object }, expect: { same: true } }),
    /two equal observations gave two answers/,
  );
});

test("retry and stall are failures with when, status and conditions", () => {
  const { failure } = said(() =>
    retry("Later", "m").after(5).status({ phase: "Waiting" }).condition("Ready", "Unknown", "Later"),
  );
  assert.deepEqual(failure, {
    kind: "retry",
    cause: { reason: "Later", message: "m" },
    after: 5,
    status: { replace: { phase: "Waiting" } },
    conditions: [{ type: "Ready", status: "Unknown", reason: "Later" }],
  });
});

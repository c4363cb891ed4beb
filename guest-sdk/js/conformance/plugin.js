// The conformance guest: a branch for each case of tests/conformance/cases.json, by the SDK's own words.

import { decide, raw, reconciler, retry, stall } from "@guesthouse/sdk";

const configMap = (name, rest) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, ...rest },
  data: { k: "v" },
});
const CONFIG_MAP = { apiVersion: "v1", kind: "ConfigMap" };
const BYTES = new Uint8Array([0x00, 0xff, 0xfe, 0x80]);

const cases = {
  empty: () => decide(),
  "status-replace": () =>
    decide().status({ phase: "Done", count: 3, ok: false, ratio: 0.5, list: ["a", ""], nested: { none: null } }),
  "status-merge": () => decide().mergeStatus({ kept: "x", gone: null }),
  values: (seen) => decide().status({ values: seen.raw("spec", "values") }),
  arithmetic: (seen) => decide().status({ next: BigInt(seen.spec.number) + 1n }),
  absent: ({ spec }) => decide().status({ a: told(spec.a), b: told(spec.b), c: told(spec.c), d: told(spec.d) }),
  conditions: () =>
    decide()
      .condition("Synced", true, "Done", "all of it")
      .condition("Healthy", false, "Broken", "m")
      .condition("Ready", "Unknown", "Waiting"),
  labels: () =>
    decide().label("team", "a").label("old", null).annotation("acme.io/note", "n").annotation("acme.io/old", null),
  events: () => decide().event("Told", "so").warning("Warned", "beware"),
  "wake-at": () => decide().wakeAt("2026-02-01T00:00:00Z"),
  "wake-after": () => decide().wakeAfter(90),
  children: () =>
    decide().children([
      { id: "plain", object: configMap("plain") },
      {
        id: "job",
        after: ["plain"],
        object: { apiVersion: "batch/v1", kind: "Job", metadata: { name: "job" }, spec: { backoffLimit: 0 } },
        mode: "once",
        ownership: "adopt",
        onImmutable: "recreate",
        onDelete: "orphan",
      },
      {
        id: "secret",
        object: { apiVersion: "v1", kind: "Secret", metadata: { name: "secret" } },
        generate: [
          { key: "password", length: 24 },
          { key: "pin", length: 4, alphabet: "0123456789" },
        ],
      },
      { id: "part", after: ["plain", "job"], object: configMap("shared", { namespace: "other" }), ownership: "fields" },
    ]),
  delete: () =>
    decide()
      .delete({ id: "one", object: { ...CONFIG_MAP, name: "gone" } })
      .delete({ id: "two", object: { ...CONFIG_MAP, namespace: "other", name: "gone" }, uid: "u-9" }),
  http: () =>
    decide()
      .http({ id: "least", method: "PUT", url: "https://example.test/a" })
      .http({
        id: "all",
        after: ["least"],
        method: "POST",
        url: "https://example.test/b?x=1",
        headers: [
          ["accept", "text/plain"],
          ["accept", "*/*"],
          ["x-a", "1"],
        ],
        body: '{"a":1}',
        credential: "token",
        timeout: 7,
        atMostOnce: true,
        key: "generation-3",
      })
      .http({ id: "bytes", method: "PUT", url: "https://example.test/c", body: BYTES, literalKey: "c" }),
  needs: () =>
    decide()
      .need({ name: "by-name", object: { apiVersion: "v1", kind: "Secret", namespace: "other", name: "s" } })
      .need({ name: "own-namespace", object: { ...CONFIG_MAP, name: "cm" }, view: "metadata" })
      .need({
        name: "by-label",
        selected: { apiVersion: "v1", kind: "Pod", namespace: "*", labels: "app in (a, b)" },
        limit: 10,
      })
      .need({ name: "mine", owned: { apiVersion: "batch/v1", kind: "Job" } })
      .need({ name: "outside", fetch: "https://example.test/r", headers: { accept: "application/json" }, fresh: 60 }),
  extension: () =>
    decide()
      .extension("example.test/more", { n: 1 })
      .other({ id: "x", name: "example.test/do", value: { deep: [1, null] } }),
  retry: () =>
    retry("NotYet", "the other side sleeps")
      .after(30)
      .mergeStatus({ phase: "Waiting" })
      .condition("Synced", false, "NotYet", "m"),
  stall: () => stall("Wrong", "the size is negative"),
  throw: () => {
    throw new Error("conformance throws");
  },
  malformed: () => decide().status(raw('{"a":')),
  logs: () => {
    console.debug("d 1");
    console.info("i 2");
    console.warn("w 3");
    console.error("e 4");
    // The engine has no streams of its own: the console is the language's means to print.
    console.log("printed to stderr");
    return decide();
  },
  clock: () => decide().status({ now: new Date().toISOString().replace(".000", "") }),
  random: () => decide().status({ random: Math.random() }),
  large: () => decide().status({ text: "x".repeat(100_000) }),
  observed: (seen) => decide().status(observed(seen)),
  finalized: () => decide().finalized().mergeStatus({ phase: "Gone" }),
  "finalize-waits": () => decide().http({ id: "undo", method: "DELETE", url: "https://example.test/a" }),
};

const told = (value) => (value === undefined ? "absent" : value === null ? "null" : value === "" ? "empty" : "value");

function observed(seen) {
  return {
    name: seen.name,
    namespace: seen.namespace,
    uid: seen.uid,
    generation: seen.generation,
    label: seen.labels.a,
    old: seen.status.old,
    mapping: seen.mapping,
    now: seen.now,
    attempt: seen.attempt,
    round: seen.round,
    greeting: seen.config.greeting,
    deleting: seen.deleting,
    related: ["settings", "none", "outside", "denied"].map((name) => ({ name, ...found(seen.related(name)) })),
    children: seen.children.map(({ effect, name, namespace = null, uid = null, state, error }) => ({
      effect,
      name,
      namespace,
      uid,
      state,
      error: error?.reason ?? null,
    })),
    receipts: seen.receipts.map(({ effect, key = null, state, ...rest }) => ({
      effect,
      key,
      state,
      ...became(state, rest),
    })),
  };
}

function found(answer) {
  switch (answer.state) {
    case "objects":
      return { found: answer.items.length, truncated: answer.truncated, first: answer.items[0]?.metadata.name ?? null };
    case "response": {
      const { code, truncated } = answer.response;
      return { code, body: body(answer.response), header: answer.response.header("x-a"), truncated };
    }
    case "unavailable":
      return { unavailable: answer.reason, message: answer.message };
  }
}

function became(state, { response, attempts, error, nextAt }) {
  if (state === "answered") return { code: response.code, body: body(response) };
  return state === "failed" ? { attempts, reason: error.reason, nextAt } : {};
}

const body = ({ text, bytes }) => text ?? btoa(String.fromCharCode(...bytes));

const answer = (seen) =>
  cases[seen.spec.case]?.(seen) ?? stall("NoSuchCase", `the guest has no case ${seen.spec.case}`);

export default reconciler({
  name: "conformance",
  version: "1.2.3",
  kinds: [
    {
      apiVersion: "conformance.guesthouse.dev/v1",
      kind: "Case",
      crd: {
        apiVersion: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        metadata: { name: "cases.conformance.guesthouse.dev" },
      },
    },
    CONFIG_MAP,
  ],
  needs: [{ name: "settings", object: { ...CONFIG_MAP, name: "settings" } }],
  configSchema: { type: "object", properties: { greeting: { type: "string" } } },
  grants: { http: [{ host: "example.test" }] },
  reconcile: answer,
  finalize: answer,
});

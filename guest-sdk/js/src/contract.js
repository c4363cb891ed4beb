// The contract's records and their JSON form (that of the command door, of case files and of docs/schemas), as one table.
//
// `read` makes a record, with what was left out; `print` goes back and leaves out what need not be said, so that two ways to
// write one thing print alike. Both take the path of the value and name it when it does not fit. For tests: what is built
// passes records only.

import { Raw, parse, stringify } from "./json.js";

/** A number stays as its text where JavaScript would print it otherwise: 1.0 and 1 differ, and so do large integers. */
const literal = (text) => (String(Number(text)) === text ? Number(text) : new Raw(text));
/** The value of a JSON text with all that tells two texts apart, but for white space and order. */
export const exactly = (text) => parse(text, literal);

const fail = (path, what) => {
  throw new TypeError(`${path} ${what}`);
};

// ---- how a form is put together -------------------------------------------------------------------------------------

const scalar = (type) => {
  const same = (value, path) =>
    typeof value === type ? value : fail(path, `is ${stringify(value ?? null)}, not a ${type}`);
  return { read: same, print: same };
};

/** Left out where it is `value`. */
const otherwise = (value, of) => ({
  read: (given, path) => (given === undefined ? value : of.read(given, path)),
  print: (held, path) => (held === value ? undefined : of.print(held, path)),
});

const option = (of) => ({
  read: (given, path) => (given === undefined || given === null ? undefined : of.read(given, path)),
  print: (held, path) => (held === undefined || held === null ? undefined : of.print(held, path)),
});

const list = (of) => ({
  read: (given = [], path) => given.map((item, at) => of.read(item, `${path}[${at}]`)),
  print: (held, path) => (held.length ? held.map((item, at) => of.print(item, `${path}[${at}]`)) : undefined),
});

const record = (members) => {
  const names = Object.keys(members);
  const each = (make) => {
    const made = names.map((name) => [name, make(members[name], name)]);
    return Object.fromEntries(made.filter(([, value]) => value !== undefined));
  };
  return {
    read: (given, path) => {
      const unknown = Object.keys(given).find((name) => !names.includes(name));
      if (unknown !== undefined) fail(path, `has no member ${unknown}; there are ${names.join(", ")}`);
      return each((of, name) => of.read(given[name], `${path}.${name}`));
    },
    print: (held, path) => each((of, name) => of.print(held[name], `${path}.${name}`)),
  };
};

/** A case without payload is undefined in `cases`, and its name alone in JSON. */
const variant = (cases) => ({
  read: (given, path) => {
    const [tag, value] = typeof given === "string" ? [given] : Object.entries(given)[0];
    if (!(tag in cases)) fail(path, `has no case ${tag}; there are ${Object.keys(cases).join(", ")}`);
    return { tag, val: cases[tag]?.read(value, `${path}.${tag}`) };
  },
  print: ({ tag, val }, path) => (cases[tag] ? { [tag]: cases[tag].print(val, `${path}.${tag}`) } : tag),
});

/** By the names in JSON; the bindings have `in-progress` for `inProgress`, and `true` for `True`. */
const choice = (...names) => {
  const bound = names.map((name) => name.replace(/(.)([A-Z])/g, "$1-$2").toLowerCase());
  const to = (from, into) => (name, path) =>
    into[from.indexOf(name)] ?? fail(path, `is ${name}, not one of ${from.join(", ")}`);
  return { read: to(names, bound), print: to(bound, names) };
};

/** The first name is what is meant when none is given. */
const usually = (first, ...names) => otherwise(first, choice(first, ...names));

// ---- the contract ---------------------------------------------------------------------------------------------------

const text = scalar("string");
const number = scalar("number");
const maybeEmpty = otherwise("", text);
const flag = otherwise(false, scalar("boolean"));
const json = {
  read: stringify,
  print: (held, path) => {
    try {
      return exactly(held);
    } catch (error) {
      return fail(path, `is not JSON: ${error.message}`);
    }
  },
};
const jsonOrEmpty = otherwise("{}", json);
const bytes = {
  read: (base64) => new Uint8Array(Buffer.from(base64, "base64")),
  print: (held) => Buffer.from(held).toString("base64"),
};
const header = { read: (pair) => pair, print: (pair) => pair };
/** Labels and annotations: null takes off. */
const changes = {
  read: (given = {}) => Object.entries(given).map(([key, value]) => [key, value ?? undefined]),
  print: (held) => (held.length ? Object.fromEntries(held.map(([key, value]) => [key, value ?? null])) : undefined),
};

const cause = record({ reason: text, message: maybeEmpty });
const kind = record({ apiVersion: text, kind: text });
const reference = record({ kind, namespace: option(text), name: text });
const extension = record({ name: text, value: json });
const status = option(variant({ replace: json, merge: json }));
const state = choice("True", "False", "Unknown");
const conditions = list(record({ type: text, status: state, reason: text, message: maybeEmpty }));

const body = variant({ empty: undefined, text, bytes });
const request = record({
  method: text,
  url: text,
  headers: list(header),
  body: {
    read: (given = "empty", path) => body.read(given, path),
    print: (held, path) => (held.tag === "empty" ? undefined : body.print(held, path)),
  },
  credential: option(text),
  timeout: option(number),
});
const response = record({ code: number, headers: list(header), body, truncated: flag, at: text });

const needs = list(
  record({
    name: text,
    source: variant({
      object: reference,
      selected: record({ kind, namespace: option(text), labels: maybeEmpty }),
      owned: kind,
      fetch: record({ request, fresh: number }),
    }),
    view: usually("full", "metadata"),
    limit: option(number),
  }),
);

export const observation = record({
  object: json,
  related: list(
    record({
      name: text,
      answer: variant({
        objects: record({ items: list(json), truncated: flag }),
        response,
        unavailable: cause,
      }),
    }),
  ),
  children: list(
    record({
      effect: text,
      object: reference,
      uid: option(text),
      state: choice("absent", "inProgress", "current", "failed", "terminating"),
      message: maybeEmpty,
      error: option(cause),
    }),
  ),
  receipts: list(
    record({
      effect: text,
      key: option(text),
      state: variant({
        answered: response,
        failed: record({ attempts: number, error: cause, nextAt: text }),
        unknown: undefined,
      }),
    }),
  ),
  config: jsonOrEmpty,
  mapping: otherwise("conformance", text),
  now: otherwise("2026-01-01T00:00:00Z", text),
  attempt: otherwise(0, number),
  round: otherwise(0, number),
  extensions: list(extension),
});

const action = variant({
  apply: record({
    object: json,
    ownership: usually("owned", "adopt", "fields"),
    mode: usually("keep", "once"),
    onImmutable: usually("fail", "recreate"),
    onDelete: usually("delete", "orphan"),
    generate: list(record({ key: text, length: number, alphabet: option(text) })),
  }),
  delete: record({ object: reference, uid: option(text) }),
  http: record({
    request,
    delivery: otherwise("at-least-once", choice("atLeastOnce", "atMostOnce")),
    key: option(text),
    literalKey: option(text),
  }),
  other: extension,
});

export const decision = record({
  status,
  conditions,
  labels: changes,
  annotations: changes,
  needs,
  effects: list(record({ id: text, after: list(text), action })),
  complete: flag,
  events: list(record({ type: choice("normal", "warning"), reason: text, note: text })),
  wake: option(variant({ at: text, after: number })),
  finalized: flag,
  extensions: list(extension),
});

export const failure = record({ kind: choice("retry", "terminal"), cause, after: option(number), status, conditions });

export const descriptor = record({
  name: text,
  version: text,
  sdk: text,
  kinds: list(record({ kind, crd: option(json) })),
  needs,
  finalizes: flag,
  configSchema: option(json),
  grants: jsonOrEmpty,
  extensions: list(text),
});

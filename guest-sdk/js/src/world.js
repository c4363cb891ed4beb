// What the language itself offers beside the contract, the same in a native test as in the sandbox: a clock that stands at the
// observation's `now`, one stream of random numbers, and a console whose lines are attached to the pass.

import { stringify } from "./json.js";

const LEVELS = { debug: "debug", log: "info", info: "info", warn: "warn", error: "error" };

/** Puts that world in place of the present one, and returns what puts the present one back. */
export function enter(now, write) {
  const { console, Date } = globalThis;
  const { random } = Math;
  globalThis.console = Object.fromEntries(
    Object.entries(LEVELS).map(([name, level]) => [name, (...values) => write(level, values.map(show).join(" "))]),
  );
  globalThis.Date = clock(Date, now);
  Math.random = stream();
  return () => {
    Object.assign(globalThis, { console, Date });
    Math.random = random;
  };
}

function clock(Date, text) {
  const now = () => Date.parse(text);
  return new Proxy(Date, {
    construct: (target, given, self) => Reflect.construct(target, given.length ? given : [now()], self),
    apply: () => new Date(now()).toString(),
    get: (target, name, self) => (name === "now" ? now : Reflect.get(target, name, self)),
  });
}

/** Mulberry32, from the same seed in every call. */
function stream(state = 0) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function show(value) {
  if (typeof value === "string") return value;
  // Some engines begin a stack with the error's text, some do not.
  if (value instanceof Error)
    return value.stack?.startsWith(`${value}`) ? value.stack : `${value}\n${value.stack}`.trim();
  try {
    return stringify(value);
  } catch {
    return String(value);
  }
}

// The QuickJS runtime of componentize-qjs, made to see nothing of the machine that builds.
//
// A build runs the engine until the plugin's module is loaded and keeps an image of its memory. On the way the engine asks for
// the time and for a seed and keeps both, so that no two builds would be alike. Here those imports are led to functions of the
// same type whose answer is always the same. A plugin misses nothing by it: the clock and the random numbers that it sees are
// those of src/world.js.

import { readFileSync } from "node:fs";

const LED = [
  [
    ["wasi:random/insecure-seed@0.2.9", "insecure-seed"],
    ["wasi:cli/environment@0.2.0", "get-arguments"],
  ],
  [
    ["wasi:clocks/monotonic-clock@0.2.0", "now"],
    ["wasi:clocks/monotonic-clock@0.2.0", "resolution"],
  ],
  [
    ["wasi:clocks/wall-clock@0.2.0", "now"],
    ["wasi:clocks/wall-clock@0.2.0", "resolution"],
  ],
].map((pair) => pair.map((names) => Buffer.from(names.flatMap((name) => [name.length, ...Buffer.from(name)]))));

const IMPORTS = 2;

/**
 * What `componentize` is to take as `runtimeBytes`: its runtime without async, of the small kind, with those imports led away.
 * `require` is the one that has loaded componentize-qjs; the runtime lies in the native binding that came with it.
 */
export function runtime(require) {
  const binding = Object.keys(require.cache).find((file) => /componentize-qjs[^/\\]*\.node$/.test(file));
  if (binding === undefined)
    throw new Error("componentize-qjs has no native binding here: is it installed for this platform?");
  // There are four, with and without async, for speed and for size: this one is the smallest.
  const known = (module) => LED.every(([from]) => module.includes(from));
  const [smallest] = libraries(readFileSync(binding))
    .filter(known)
    .sort((a, b) => a.length - b.length);
  if (smallest === undefined)
    throw new Error(`no runtime that this SDK knows in ${binding}: install componentize-qjs 0.4.5`);
  return lead(smallest);
}

/** The dynamic libraries of WebAssembly that lie somewhere in `bytes`: modules that begin with a custom section. */
function libraries(bytes) {
  const found = [];
  const start = Buffer.from("\0asm\x01\0\0\0\0", "latin1");
  for (let at = bytes.indexOf(start); at >= 0; at = bytes.indexOf(start, at + 1)) {
    found.push(bytes.subarray(at, sections(bytes, at + 8).at(-1)?.to));
  }
  return found;
}

/** The sections from `at` to the end of the module, which nothing marks: what follows is no section. */
function sections(bytes, at) {
  const found = [];
  while (bytes[at] <= 13 && bytes[at + 1] > 0 && bytes.toString("latin1", at, at + 4) !== "\0asm") {
    const { value, next } = unsigned(bytes, at + 1);
    if (next + value > bytes.length) break;
    found.push({ id: bytes[at], at, body: next, to: next + value });
    at = next + value;
  }
  return found;
}

function lead(module) {
  const { at, body, to } = sections(module, 8).find(({ id }) => id === IMPORTS);
  let imports = module.subarray(body, to);
  for (const [from, target] of LED) {
    const found = imports.indexOf(from);
    imports = Buffer.concat([imports.subarray(0, found), target, imports.subarray(found + from.length)]);
  }
  const head = Buffer.from([IMPORTS, ...leb128(imports.length)]);
  return Buffer.concat([module.subarray(0, at), head, imports, module.subarray(to)]);
}

// Unsigned LEB128, WebAssembly's form of a number.
function unsigned(bytes, next) {
  let value = 0;
  for (let scale = 1; ; scale *= 128) {
    const byte = bytes[next++];
    value += (byte & 127) * scale;
    if (byte < 128) return { value, next };
  }
}

const leb128 = (value) => (value < 128 ? [value] : [(value & 127) | 128, ...leb128(value >>> 7)]);

/**
 * Plugins under `node --test`, without host and without WebAssembly.
 *
 * Observations, decisions and failures are in the contract's JSON form, that of docs/schemas and of case files: parts may be
 * left out, and parts that say nothing are. The world a plugin sees (clock, random numbers, console) is the sandbox's.
 *
 * @example
 * test("greets", () => check(greeter, readCase(new URL("greets.json", import.meta.url))));
 * test("greets by name", () =>
 *   assert.deepEqual(answer(greeter, { object: { spec: { who: "world" } } }), {
 *     decision: { status: { replace: { text: "hello, world" } } },
 *   }));
 *
 * @packageDocumentation
 */

import type { Plugin } from "./index.js";

/** One case, as tests/conformance/README.md has it: an observation and what the plugin is to answer. */
export interface Case {
  name?: string;
  about?: string;
  verb?: "reconcile" | "finalize";
  observation: any;
  expect: any;
}

/** Reads a case file. Numbers that JavaScript would print otherwise (`1.0`, large integers) keep their text. */
export function readCase(file: string | URL): Case;

/**
 * Fails unless the plugin answers what the case expects, and the same once more: `decision` and `failure` are compared as
 * values in which 1 and 1.0 differ, `broken` is looked for in the message of a retry, `logs` are the lines of the console.
 */
export function check(plugin: Plugin, one: Case): void;

/** What the plugin answers; `write` takes the lines it logs, which else go to stderr. */
export function answer(
  plugin: Plugin,
  observation: any,
  verb?: "reconcile" | "finalize",
  write?: (level: "debug" | "info" | "warn" | "error", text: string) => void,
): { decision?: any; failure?: any };

/** The plugin's descriptor. */
export function describe(plugin: Plugin): any;

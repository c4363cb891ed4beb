/**
 * Write a Guesthouse plugin in JavaScript or TypeScript.
 *
 * A plugin is a pure function: it sees an {@link Observation} and answers with a {@link Decision} or a {@link Failure}. What it
 * wants done it asks for, and the host does it. Every word here is the contract's (`wit/reconciler.wit`), which says more.
 *
 * @example
 * import { decide, reconciler } from "@guesthouse/sdk";
 *
 * export default reconciler<{ who: string }, { text: string }>({
 *   name: "greeter",
 *   version: "1.0.0",
 *   reconcile: (seen) => decide().status({ text: `hello, ${seen.spec.who}` }),
 * });
 *
 * @packageDocumentation
 */

/// <reference path="./yaml.d.ts" />

/** The plugin, as it is. It is the default export of the file that `guesthouse-build` is given. */
export function reconciler<Spec = any, Status = any, Config = any>(
  plugin: Plugin<Spec, Status, Config>,
): Plugin<Spec, Status, Config>;

/** What a plugin says of itself, and its functions. */
export interface Plugin<Spec = any, Status = any, Config = any> {
  /** Lower-case name, as in `report-job`. */
  name: string;
  /** The plugin's own version (semver). */
  version: string;
  /** The kinds it can be mapped to; none: any kind. `crd` is the whole CustomResourceDefinition, if the plugin brings it. */
  kinds?: (Kind & { crd?: object })[];
  /** What every pass of every object needs to read. */
  needs?: Need[];
  /** JSON Schema (2020-12) of the mapping's config. */
  configSchema?: object;
  /** What the plugin will ask for, in the form of a mapping's `grants`; it grants nothing. */
  grants?: object;
  /** Parts of a later contract that the plugin cannot do without. */
  extensions?: string[];
  /** The object is there and wanted. An error that is thrown is a retry with its text. */
  reconcile(seen: Observation<Spec, Status, Config>): Answer<Status>;
  /** The object is being deleted; maybe without any `reconcile` before. With it, deletion waits for `finalized()`. */
  finalize?(seen: Observation<Spec, Status, Config>): Answer<Status>;
}

export type Answer<Status = any> = Decision<Status> | Failure<Status>;

// ---- what a plugin wants ------------------------------------------------------------------------------------------------

/** Nothing yet: a valid decision, the status stays. */
export function decide<Status = any>(): Decision<Status>;

/** May work later: again with the mapping's backoff. To be returned, or thrown from deep inside. */
export function retry<Status = any>(reason: string, message: string): Failure<Status>;

/** Will not work as things are: the object is stalled until something changes. To be returned, or thrown. */
export function stall<Status = any>(reason: string, message: string): Failure<Status>;

interface Said<Status> {
  /** The whole status. `observedGeneration` is the host's to write. */
  status(status: Status | Raw): this;
  /** A part of the status by RFC 7386: null removes, what is not named stays. */
  mergeStatus(part: Part<Status> | Raw): this;
  /** A condition. Neither reason (CamelCase) nor message may hold a counter or a time: each new text would be a write. */
  condition(type: string, status: boolean | "Unknown", reason: string, message?: string): this;
}

/** All that a plugin wants, built step by step. */
export interface Decision<Status = any> extends Said<Status> {
  /** Sets a label of the object; null takes it off. */
  label(key: string, value: string | null): this;
  /** Sets an annotation of the object; null takes it off. */
  annotation(key: string, value: string | null): this;
  /** Something to read first; until it is answered nothing else of this decision is carried out. */
  need(need: Need): this;
  /** A child, beside others. */
  apply(child: Apply): this;
  /** All the children this object shall have: others on record are deleted. */
  children(children: Apply[]): this;
  /** Deletes an own child, or the object itself where granted. */
  delete(deletion: Delete): this;
  /** A request with a receipt, carried out once for each id and key. */
  http(request: Http): this;
  /** An Event, told only by a pass that changes something else too. */
  event(reason: string, note: string): this;
  /** An Event that asks somebody to act. */
  warning(reason: string, note: string): this;
  /** Call again at that time at the latest: computed from spec or status; text is RFC 3339, UTC, whole seconds. */
  wakeAt(time: string | Date): this;
  /** Call again that many seconds after this pass at the latest; not kept over a restart. */
  wakeAfter(seconds: number): this;
  /** In `finalize`: nothing is left to clean up. */
  finalized(): this;
  /** A part of a later contract that the descriptor named. */
  extension(name: string, value: unknown): this;
  /** An effect of a later contract that the descriptor named. */
  other(effect: Effect & { name: string; value: unknown }): this;
  /** The contract's own record, for what no step covers. */
  readonly record: Record<string, any>;
}

/** Why there is no decision. Nothing is carried out then, but status and conditions may say why. */
export interface Failure<Status = any> extends Said<Status> {
  /** Not before that many seconds; only for a retry. */
  after(seconds: number): this;
  /** The contract's own record. */
  readonly record: Record<string, any>;
}

/** A part of a value, in which null stands for what shall go. */
export type Part<T> = T extends readonly unknown[] ? T : T extends object ? { [K in keyof T]?: Part<T[K]> | null } : T;

interface Effect {
  /** Unique and stable within the object: it names the wish, not the attempt. */
  id: string;
  /** Ids of effects of this decision that must have succeeded first. */
  after?: string[];
}

/** A child, by server-side apply: state the fields you mean and no others. */
export interface Apply extends Effect {
  /** With apiVersion, kind and metadata.name; without a namespace, the reconciled object's. */
  object: object;
  /** `owned` (default); `adopt` takes over one without owner; `fields` sets only these fields of somebody else's object. */
  ownership?: "owned" | "adopt" | "fields";
  /** `keep` (default) as stated; `once` makes it and then leaves it alone, also when it is gone. */
  mode?: "keep" | "once";
  /** When a field cannot be changed: `fail` (default), or `recreate` the child. */
  onImmutable?: "fail" | "recreate";
  /** When the reconciled object is deleted: `delete` (default) or `orphan` the child. */
  onDelete?: "delete" | "orphan";
  /** Random values of a Secret, made by the host once: `length` characters under `data.<key>`. */
  generate?: { key: string; length: number; alphabet?: string }[];
}

export interface Delete extends Effect {
  object: Reference;
  /** Only the one of that uid. */
  uid?: string;
}

interface Request {
  /** Absolute, http or https. */
  url: string;
  headers?: Record<string, string> | [string, string][];
  /** A credential of the mapping, by name; the host puts it in. */
  credential?: string;
  /** How many seconds the answer may take, instead of the grant's. */
  timeout?: number;
}

export interface Http extends Effect, Request {
  /** Upper case. */
  method: string;
  /** A body as JSON, with its content type. */
  json?: unknown;
  /** A body as it is. */
  body?: string | Uint8Array;
  /** What makes this wish another than the last one under this id; usually something of the spec. */
  key?: string;
  /** Sent as the idempotency key instead of the host's hash, where the grant allows it. */
  literalKey?: string;
  /** Never sent a second time, also when the answer is lost. */
  atMostOnce?: boolean;
}

/** Something to read beside the object; the host watches it. */
export type Need = {
  /** Unique among the needs of one decision; the name of the answer. */
  name: string;
  /** `metadata` shows apiVersion, kind and metadata only, at a fraction of the cost. */
  view?: "full" | "metadata";
  /** At most that many objects. */
  limit?: number;
} & (
  | { /** One object by name. */ object: Reference }
  | { /** Objects by label, as after `kubectl get -l`; namespace `*`: all that are granted. */ selected: Selected }
  | { /** Objects of a kind that carry this object's owner mark. */ owned: Kind }
  | ({ /** A URL outside the cluster; an answer may be `fresh` seconds old. */ fetch: string; fresh: number } & Fetch)
);

type Selected = Kind & { namespace?: string; labels?: string };
type Fetch = Omit<Request, "url"> & { method?: "GET" | "HEAD" };

/** A kind as a manifest names it. */
export interface Kind {
  apiVersion: string;
  kind: string;
}

/** One object by name; without a namespace, the reconciled object's. */
export interface Reference extends Kind {
  namespace?: string;
  name: string;
}

// ---- what a plugin sees -------------------------------------------------------------------------------------------------

/**
 * All that a plugin sees in one call. Two equal observations must give two equal decisions, and between two wakes a decision
 * must not depend on `now`. Integers that a number cannot hold are bigints: see {@link Int64}.
 */
export interface Observation<Spec = any, Status = any, Config = any> {
  /** The whole object. */
  readonly object: any;
  readonly metadata: any;
  readonly name: string;
  /** None for a cluster-scoped object. */
  readonly namespace: string | undefined;
  readonly uid: string;
  /** 0 for a kind without. */
  readonly generation: number;
  readonly labels: Record<string, string>;
  readonly annotations: Record<string, string>;
  /** Whether the object has a deletionTimestamp. */
  readonly deleting: boolean;
  /** `{}` when the object has none. */
  readonly spec: Spec;
  /** None when there is none yet; the host may have written conditions first. */
  readonly status: Partial<Status> | undefined;
  /** The mapping's config; `{}` when there is none. */
  readonly config: Config;
  /** The mapping's name. */
  readonly mapping: string;
  /** When this pass began, RFC 3339 in whole seconds. `Date` in a plugin shows the same time. */
  readonly now: string;
  /** How many passes in a row failed before this one. */
  readonly attempt: number;
  /** 0 for the first call of a pass. */
  readonly round: number;
  readonly receipts: Receipt[];
  /** What became of the http effect of that id and key (none: asked for without a key); none: not sent yet. */
  receipt(id: string, key?: string): Receipt | undefined;
  /** What became of it under whatever key it was sent last; of an id only the last key is on record. */
  lastReceipt(id: string): Receipt | undefined;
  /** The children on record and those asked for last. */
  readonly children: Child[];
  /** The child that the effect of that id asked for. */
  child(id: string): Child | undefined;
  /** The answer to the need of that name; none: not asked for yet. */
  related(name: string): Related | undefined;
  /** All objects found for that need, none as long as it was not asked for. Without an answer it throws a retry. */
  all<T = any>(name: string): T[];
  /** The first of them: for a need of one object by name. */
  one<T = any>(name: string): T | undefined;
  /** A part of a later contract that the descriptor named. */
  extension(name: string): any;
  /** The object's text at that path, byte for byte, to be put into a status or a child: `seen.raw("spec", "template")`. */
  raw(...path: (string | number)[]): Raw | undefined;
  /** The contract's own record. */
  readonly record: Record<string, any>;
}

/** What became of an http effect. */
export type Receipt = { effect: string; key: string | undefined } & (
  | { /** A definite answer: 2xx, 3xx, or 4xx but 408, 425 and 429. */ state: "answered"; response: Response }
  | { /** No definite answer yet: sent again if asked for. */ state: "failed"; attempts: number; error: Cause; nextAt: string }
  | { /** At most once only: the answer is lost. */ state: "unknown" }
);

/** What came of a need. */
export type Related =
  | { state: "objects"; items: any[]; truncated: boolean }
  | { /** Of a `fetch`, whatever its code. */ state: "response"; response: Response }
  | { /** Asked for, and there is no answer. */ state: "unavailable"; reason: string; message: string };

export interface Response {
  readonly code: number;
  /** Whether the code is 2xx. */
  readonly ok: boolean;
  /** Names in lower case; only those the grant lets through. */
  readonly headers: [string, string][];
  header(name: string): string | undefined;
  /** The body as text, empty without one; none for bytes that are not UTF-8. */
  readonly text: string | undefined;
  /** The body where it is not text. */
  readonly bytes: Uint8Array | undefined;
  /** The body read as JSON; none if it is not. */
  json(): any;
  /** Whether the grant has cut the body. */
  readonly truncated: boolean;
  /** When it was received. */
  readonly at: string;
}

export interface Child extends Reference {
  /** Id of the effect that asked for it. */
  effect: string;
  /** None as long as the server has not answered. */
  uid: string | undefined;
  state: "absent" | "inProgress" | "current" | "failed" | "terminating";
  /** Why it is not current, in its own words; else empty. */
  message: string;
  /** Why the last write of it did not succeed. */
  error: Cause | undefined;
}

export interface Cause {
  reason: string;
  message: string;
}

// ---- values -------------------------------------------------------------------------------------------------------------

/** A field of `format: int64`: a bigint where a number could not hold it. `BigInt(field)` takes both. */
export type Int64 = number | bigint;

/** JSON text that goes through as it is, wherever a value is written. */
export interface Raw {
  readonly text: string;
}

/** The escape hatch: `status(raw(text))`. What is not JSON is refused by the host. */
export function raw(text: string): Raw;

/** Like `JSON.parse`, with bigints for integers that a number cannot hold. */
export function parse(text: string): any;

/** Like `JSON.stringify`, with bigints and {@link Raw}; what JSON cannot say (NaN, a function) is an error that names it. */
export function stringify(value: unknown): string;

/** 16 hexadecimal digits that stand for these texts in this order: for a short `key`. The same in every SDK and build. */
export function fingerprint(texts: Iterable<string>): string;

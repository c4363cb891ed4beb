// What a plugin sees: a view of the contract's record that reads each part when it is asked for.

import { retry, stall } from "./decision.js";
import { parse, raw, slice } from "./json.js";

export class Observation {
  #object;

  constructor(record) {
    this.record = record;
  }

  get object() { return (this.#object ??= parse(this.record.object)); }
  get metadata() { return this.object.metadata ?? {}; }
  get name() { return this.metadata.name; }
  get namespace() { return this.metadata.namespace; }
  get uid() { return this.metadata.uid; }
  get generation() { return this.metadata.generation ?? 0; }
  get labels() { return this.metadata.labels ?? {}; }
  get annotations() { return this.metadata.annotations ?? {}; }
  get deleting() { return this.metadata.deletionTimestamp !== undefined; }
  // A kind without spec, or an object that left it out, is the same as an empty one; no status yet is none.
  get spec() { return this.object.spec ?? {}; }
  get status() { return this.object.status ?? undefined; }

  get config() { return parse(this.record.config); }
  get mapping() { return this.record.mapping; }
  get now() { return this.record.now; }
  get attempt() { return this.record.attempt; }
  get round() { return this.record.round; }

  get receipts() { return this.record.receipts.map(receipt); }
  get children() { return this.record.children.map(child); }

  receipt(id, key) {
    return this.receipts.find((one) => one.effect === id && one.key === key);
  }

  lastReceipt(id) {
    return this.receipts.find((one) => one.effect === id);
  }

  child(id) {
    return this.children.find((one) => one.effect === id);
  }

  related(name) {
    const { tag, val } = this.record.related.find((one) => one.name === name)?.answer ?? {};
    if (tag === "objects") return { state: tag, items: val.items.map((text) => parse(text)), truncated: val.truncated };
    if (tag === "response") return { state: tag, response: new Response(val) };
    return tag && { state: tag, ...val };
  }

  all(name) {
    const answer = this.related(name);
    if (answer === undefined) return [];
    if (answer.state === "objects") return answer.items;
    if (answer.state === "unavailable") throw retry(answer.reason, answer.message);
    throw stall("BadRelated", `the need ${name} is a fetch: it has a response, not objects`);
  }

  one(name) {
    return this.all(name)[0];
  }

  extension(name) {
    const found = this.record.extensions.find((one) => one.name === name);
    return found && parse(found.value);
  }

  raw(...path) {
    const text = slice(this.record.object, path);
    return text === undefined ? undefined : raw(text);
  }
}

class Response {
  constructor({ code, headers, body, truncated, at }) {
    Object.assign(this, { code, headers, truncated, at });
    this.text = { empty: "", text: body.val }[body.tag];
    this.bytes = body.tag === "bytes" ? body.val : undefined;
  }

  get ok() { return this.code >= 200 && this.code < 300; }

  header(name) {
    return this.headers.find(([have]) => have === name)?.[1];
  }

  json() {
    try {
      return parse(this.text);
    } catch {
      return undefined; // bytes, a text that is not JSON, or one that the grant has cut
    }
  }
}

function receipt({ effect, key, state: { tag, val } }) {
  const rest = tag === "answered" ? { response: new Response(val) } : val;
  return { effect, key: key ?? undefined, state: tag, ...rest };
}

function child({ effect, object: { kind, namespace, name }, uid, state, message, error }) {
  return {
    effect,
    ...kind,
    namespace: namespace ?? undefined,
    name,
    uid: uid ?? undefined,
    state: state === "in-progress" ? "inProgress" : state,
    message,
    error: error ?? undefined,
  };
}

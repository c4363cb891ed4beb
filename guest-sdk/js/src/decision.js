// What a plugin answers: a decision, or a failure that says why there is none. Both hold the contract's record in `record`
// and build it step by step; each step returns the answer itself.

import { stringify } from "./json.js";

/** What a decision and a failure share. */
class Answer {
  status(status) {
    this.record.status = { tag: "replace", val: stringify(status, "status") };
    return this;
  }

  mergeStatus(part) {
    this.record.status = { tag: "merge", val: stringify(part, "status") };
    return this;
  }

  condition(type, status, reason, message = "") {
    this.record.conditions.push({ type, status: String(status).toLowerCase(), reason, message });
    return this;
  }
}

export class Decision extends Answer {
  record = {
    conditions: [],
    labels: [],
    annotations: [],
    needs: [],
    effects: [],
    complete: false,
    events: [],
    finalized: false,
    extensions: [],
  };

  #add(list, ...items) {
    this.record[list].push(...items);
    return this;
  }

  label(key, value) {
    return this.#add("labels", [key, value ?? undefined]);
  }

  annotation(key, value) {
    return this.#add("annotations", [key, value ?? undefined]);
  }

  need(wanted) {
    return this.#add("needs", need(wanted));
  }

  apply(child) {
    return this.#add("effects", apply(child));
  }

  children(children) {
    this.record.complete = true;
    return this.#add("effects", ...children.map(apply));
  }

  delete({ id, after = [], object, uid }) {
    return this.#add("effects", { id, after, action: { tag: "delete", val: { object: reference(object), uid } } });
  }

  http({ id, after = [], atMostOnce = false, key, literalKey, ...rest }) {
    const delivery = atMostOnce ? "at-most-once" : "at-least-once";
    const val = { request: request(rest, id), delivery, key, literalKey };
    return this.#add("effects", { id, after, action: { tag: "http", val } });
  }

  other({ id, after = [], name, value }) {
    return this.#add("effects", { id, after, action: { tag: "other", val: extension(name, value) } });
  }

  event(reason, note) {
    return this.#add("events", { type: "normal", reason, note });
  }

  warning(reason, note) {
    return this.#add("events", { type: "warning", reason, note });
  }

  wakeAt(time) {
    // Whole seconds, as Kubernetes has them.
    this.record.wake = { tag: "at", val: time instanceof Date ? `${time.toISOString().slice(0, 19)}Z` : time };
    return this;
  }

  wakeAfter(seconds) {
    this.record.wake = { tag: "after", val: seconds };
    return this;
  }

  finalized() {
    this.record.finalized = true;
    return this;
  }

  extension(name, value) {
    return this.#add("extensions", extension(name, value));
  }
}

export class Failure extends Answer {
  constructor(kind, reason, message) {
    super();
    this.record = { kind, cause: { reason, message }, conditions: [] };
  }

  after(seconds) {
    this.record.after = seconds;
    return this;
  }
}

export const decide = () => new Decision();
export const retry = (reason, message) => new Failure("retry", reason, message);
export const stall = (reason, message) => new Failure("terminal", reason, message);

/** A need as the contract has it; also for the descriptor. */
export function need({ name, view = "full", limit, object, selected, owned, fetch, fresh, ...rest }) {
  const source = object
    ? { tag: "object", val: reference(object) }
    : selected
      ? { tag: "selected", val: { kind: kind(selected), namespace: selected.namespace, labels: selected.labels ?? "" } }
      : owned
        ? { tag: "owned", val: kind(owned) }
        : { tag: "fetch", val: { request: request({ method: "GET", url: fetch, ...rest }, name), fresh } };
  return { name, source, view, limit };
}

function apply({ id, after = [], object, ...options }) {
  const { ownership = "owned", mode = "keep", onImmutable = "fail", onDelete = "delete", generate = [] } = options;
  const val = { object: stringify(object, id), ownership, mode, onImmutable, onDelete, generate };
  return { id, after, action: { tag: "apply", val } };
}

function request({ method, url, headers = [], json, body, credential, timeout }, id) {
  const pairs = Array.isArray(headers) ? headers : Object.entries(headers);
  return {
    method,
    url,
    headers: json === undefined ? pairs : [["content-type", "application/json"], ...pairs],
    body: content(json === undefined ? body : stringify(json, id)),
    credential,
    timeout,
  };
}

function content(body) {
  if (body === undefined) return { tag: "empty" };
  return { tag: typeof body === "string" ? "text" : "bytes", val: body };
}

const kind = ({ apiVersion, kind }) => ({ apiVersion, kind });
const reference = (object) => ({ kind: kind(object), namespace: object.namespace, name: object.name });
const extension = (name, value) => ({ name, value: stringify(value, name) });

// @guesthouse/sdk: what a plugin imports. What everything means stands in index.d.ts.

export { decide, retry, stall } from "./decision.js";
export { fingerprint } from "./fingerprint.js";
export { parse, raw, stringify } from "./json.js";

export const reconciler = (plugin) => plugin;

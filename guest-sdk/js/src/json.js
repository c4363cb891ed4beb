// JSON in which nothing is lost: 64-bit integers, null beside absent, and text that nobody should touch.

/** A part of a JSON text that goes through as it is; made by `raw` and `Observation.raw`. */
export class Raw {
  constructor(text) {
    this.text = text;
  }
}

export const raw = (text) => new Raw(text);

/** A number as JavaScript has it, or a bigint where that could not hold the integer. */
function exact(literal) {
  const number = Number(literal);
  return /^-?\d+$/.test(literal) && !Number.isSafeInteger(number) ? BigInt(literal) : number;
}

/** Whether some number in it is so large that JavaScript may have read another one. */
const rounded = (value) =>
  typeof value === "number"
    ? Math.abs(value) > Number.MAX_SAFE_INTEGER
    : value !== null && typeof value === "object" && Object.values(value).some(rounded);

/** The value of a JSON text; `number` makes a value of each number's own text. */
export function parse(text, number = exact) {
  // The engine's own parser is many times faster than anything written here, and says best what is wrong with a text.
  const value = JSON.parse(text);
  if (number === exact && !rounded(value)) return value;
  // Each string (keys too) and each number becomes a string that tells by its first letter which of them it was.
  const marked = text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g, (token) =>
    token[0] === '"' ? `"s${token.slice(1)}` : `"n${token}"`,
  );
  const unmark = (marked) => {
    if (typeof marked === "string") return marked[0] === "s" ? marked.slice(1) : number(marked.slice(1));
    if (marked === null || typeof marked !== "object") return marked;
    if (Array.isArray(marked)) return marked.map(unmark);
    return Object.fromEntries(Object.entries(marked).map(([key, value]) => [key.slice(1), unmark(value)]));
  };
  return unmark(JSON.parse(marked));
}

/** The JSON text of a value, bigints and `Raw` included; `name` stands for it in the error for what JSON cannot say. */
export const stringify = (value, name = "value") => within(name, value);

/** An error is told the way to its place step by step, on the way out: what goes well pays nothing for it. */
function within(step, value) {
  try {
    return write(value);
  } catch (error) {
    error.message = step + error.message;
    throw error;
  }
}

function write(value) {
  if (typeof value === "string") return JSON.stringify(value);
  if (value === null || typeof value === "boolean" || typeof value === "bigint" || Number.isFinite(value))
    return String(value);
  if (typeof value === "function") throw new TypeError(" is a function, and JSON has none");
  if (typeof value !== "object") throw new TypeError(` is ${String(value)}, and JSON has no such value`);
  if (value instanceof Raw) return value.text;
  if (typeof value.toJSON === "function") return write(value.toJSON());
  if (Array.isArray(value)) return `[${value.map((item, at) => within(`[${at}]`, item))}]`;
  let members = "";
  for (const key of Object.keys(value)) {
    if (value[key] !== undefined) members += `,${JSON.stringify(key)}:${within(`.${key}`, value[key])}`;
  }
  return `{${members.slice(1)}}`;
}

/** The text of the value at `path` in a text that is JSON, as it stands there; undefined where there is none. */
export function slice(text, path) {
  const tokens = text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}]|[^\s[\]{}:,"]+/g);
  const next = () => tokens.next().value;
  let found;
  // Goes through one value from its first token; `rest` leads from here to what is looked for, undefined beside the way.
  const walk = (first, rest) => {
    let last = first;
    if (first[0] === "{" || first[0] === "[") {
      for (let index = 0; ; index++) {
        last = next();
        if (last[0] === "}" || last[0] === "]") break;
        const key = first[0] === "{" ? JSON.parse(last[0]) : String(index);
        walk(first[0] === "{" ? next() : last, rest?.length && String(rest[0]) === key ? rest.slice(1) : undefined);
      }
    }
    if (rest?.length === 0) found = text.slice(first.index, last.index + last[0].length);
  };
  walk(next(), path);
  return found;
}

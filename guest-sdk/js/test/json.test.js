import assert from "node:assert/strict";
import { test } from "node:test";
import { parse, raw, stringify } from "@guesthouse/sdk";
import { slice } from "../src/json.js";

test("integers that a number cannot hold are bigints, all else is what JSON.parse reads", () => {
  const text =
    '{"big":9007199254740993,"min":-9223372036854775808,"safe":9007199254740991,"float":1.5e300,"s\\u0031":"n\\"1"}';
  assert.deepEqual(parse(text), {
    big: 9007199254740993n,
    min: -9223372036854775808n,
    safe: 9007199254740991,
    float: 1.5e300,
    s1: 'n"1',
  });
});

test("a member that is named like a prototype is a member", () => {
  for (const text of ['{"__proto__":{"a":1}}', '{"__proto__":{"a":9007199254740993}}']) {
    assert.equal(stringify(parse(text)), text);
  }
});

test("a text that is not JSON is an error, also beside a large integer", () => {
  for (const text of ["", "{", "[9007199254740993,]", "09007199254740993", "undefined"])
    assert.throws(() => parse(text), SyntaxError);
});

test("what was read is written as it was", () => {
  const text = '{"n":null,"list":[1,9223372036854775807,"","\\n"],"o":{"no":false,"z":0}}';
  assert.equal(stringify(parse(text)), text);
});

test("a raw text goes through as it is, at any depth", () => {
  assert.equal(stringify({ a: [raw("1.0"), raw('{"b" : 1}')] }), '{"a":[1.0,{"b" : 1}]}');
});

test("undefined is left out and null is not; a date is its text", () => {
  assert.equal(stringify({ a: undefined, b: null, c: new Date(0) }), '{"b":null,"c":"1970-01-01T00:00:00.000Z"}');
});

test("what JSON cannot say is an error that names its place", () => {
  const places = [
    [{ list: [1, { ratio: NaN }] }, "status.list[1].ratio is NaN, and JSON has no such value"],
    [{ make: () => 1 }, "status.make is a function, and JSON has none"],
    [[undefined], "status[0] is undefined, and JSON has no such value"],
    [undefined, "status is undefined, and JSON has no such value"],
  ];
  for (const [value, message] of places)
    assert.throws(() => stringify(value, "status"), { name: "TypeError", message });
});

test("the text of a part is found as it stands", () => {
  const text = ' {"a": {"]}" : [1.0, {"x" : "}\\"" }], "b":{}}, "c":null, "0": [] } ';
  const parts = [
    [["a", "]}", 0], "1.0"],
    [["a", "]}", 1], '{"x" : "}\\"" }'],
    [["a", "]}", 1, "x"], '"}\\""'],
    [["a", "b"], "{}"],
    [["c"], "null"],
    [["0"], "[]"],
    [["a", "none"], undefined],
    [["c", "d"], undefined],
    [[], text.trim()],
  ];
  for (const [path, part] of parts) assert.equal(slice(text, path), part, path.join("."));
});

test("a long text is read and found without a deep stack", () => {
  const text = JSON.stringify({ a: "\\x".repeat(500_000), n: 1 });
  assert.equal(slice(text, ["n"]), "1");
  assert.equal(parse(text.replace("1}", "9007199254740993}")).n, 9007199254740993n);
});

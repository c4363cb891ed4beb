import { test } from "node:test";
import { check, readCase } from "@guesthouse/sdk/testing";
import plugin from "../src/plugin.ts";

test("greets", () => check(plugin, readCase(new URL("greets.json", import.meta.url))));

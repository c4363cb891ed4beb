// `node --import @guesthouse/sdk/register --test` runs tests of plugins in TypeScript, and of those that import YAML.

import module from "node:module";
import { load } from "./sources.js";

if (module.registerHooks) module.registerHooks({ load });
else module.register("./sources.js", import.meta.url); // before node 22.15

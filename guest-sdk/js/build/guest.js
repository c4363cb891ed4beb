// What a build begins from. The name `guesthouse:plugin` stands for the plugin's file.

import { write } from "guesthouse:reconciler/log@0.1.0";
import reconciler from "guesthouse:plugin";
import { door } from "../src/door.js";

export const plugin = door(reconciler, write);

// Where a call comes in: the contract's records on one side, the plugin on the other. A built plugin and a native test go
// through this same door.

import { Decision, decide, Failure, need, retry, stall } from "./decision.js";
import { stringify } from "./json.js";
import { Observation } from "./observation.js";
import { enter } from "./world.js";

export const SDK = "js/0.1.0";

/** The exports of `guesthouse:reconciler/plugin`; `write` is what `guesthouse:reconciler/log` gives. */
export function door(plugin, write) {
  const { finalize = () => decide().finalized() } = plugin;
  return {
    describe: () => describe(plugin),
    reconcile: (seen) => answer((seen) => plugin.reconcile(seen), seen, write),
    finalize: (seen) => answer((seen) => finalize.call(plugin, seen), seen, write),
  };
}

function describe({ name, version, kinds = [], needs = [], finalize, configSchema, grants = {}, extensions = [] }) {
  return {
    name,
    version,
    sdk: SDK,
    kinds: kinds.map(({ apiVersion, kind, crd }) => ({
      kind: { apiVersion, kind },
      crd: crd && stringify(crd, "crd"),
    })),
    needs: needs.map(need),
    finalizes: finalize !== undefined,
    configSchema: configSchema && stringify(configSchema, "configSchema"),
    grants: stringify(grants, "grants"),
    extensions,
  };
}

/** A decision is returned, a failure is thrown: so the component model's bindings have it for a `result`. */
function answer(call, seen, write) {
  const leave = enter(seen.now, write);
  try {
    const said = call(new Observation(seen));
    if (said instanceof Decision) return said.record;
    if (said instanceof Failure) throw said;
    throw stall("BadDecision", `the plugin returned ${kindOf(said)}, not what decide(), retry() or stall() make`);
  } catch (thrown) {
    throw (thrown instanceof Failure ? thrown : unexpected(thrown)).record;
  } finally {
    leave();
  }
}

/** An error that nobody caught is a retry with its text; where it came from stands in the log. */
function unexpected(thrown) {
  console.error(thrown);
  return retry("Error", String(thrown));
}

const kindOf = (value) => value?.constructor?.name ?? String(value);

// What the types allow and what they do not; checked by tsc, never run.

import { decide, raw, reconciler, retry, type Answer, type Int64, type Observation } from "@guesthouse/sdk";
import { answer, check, readCase } from "@guesthouse/sdk/testing";
import crd from "./crd.yaml";

interface Spec {
  who: string;
  size: Int64;
}
interface Status {
  text: string;
  size?: Int64;
  nested?: { a: string; b: string };
}
interface Config {
  greeting: string;
}

const reconcile = (seen: Observation<Spec, Status, Config>): Answer<Status> => {
  const sent = seen.receipt("send");
  if (sent?.state === "failed") return retry("Failed", `${sent.attempts} ${sent.error.reason}`).after(30);
  // @ts-expect-error: only an answered one has a response
  sent?.response;
  const config = seen.related("config");
  if (config?.state === "objects") config.items.length;

  // @ts-expect-error: a spec has no such field
  seen.spec.whom;
  // @ts-expect-error: a number may be a bigint
  seen.spec.size + 1;
  // @ts-expect-error: the status lacks its text
  decide<Status>().status({});
  // @ts-expect-error: of a condition there are three states
  decide().condition("Ready", "Maybe", "Reason");
  // @ts-expect-error: an effect has an id
  decide().http({ method: "PUT", url: "https://example.test" });
  // @ts-expect-error: a need has a source
  decide().need({ name: "x" });
  // @ts-expect-error: `fields` is an ownership, not a mode
  decide().apply({ id: "x", object: {}, mode: "fields" });

  return decide<Status>()
    .mergeStatus({ nested: { a: null } })
    .status(raw('{"text":""}'))
    .status({ text: seen.config.greeting + seen.spec.who, size: BigInt(seen.spec.size) + 1n });
};

const plugin = reconciler<Spec, Status, Config>({
  name: "types",
  version: "1.0.0",
  kinds: [{ apiVersion: "example.com/v1", kind: "Greeting", crd }],
  needs: [{ name: "pods", selected: { apiVersion: "v1", kind: "Pod" }, view: "metadata" }],
  reconcile,
  finalize: reconcile,
});

check(plugin, readCase("case.json"));
answer(plugin, { object: {} }).decision;
export default plugin;

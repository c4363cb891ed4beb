import { decide, reconciler } from "@guesthouse/sdk";
import crd from "../crd.yaml";

interface Spec {
  who: string;
}
interface Status {
  text: string;
}

export default reconciler<Spec, Status>({
  name: "{{name}}",
  version: "0.1.0",
  kinds: [{ apiVersion: "{{group}}/v1", kind: "{{kind}}", crd }],
  reconcile: (seen) => decide<Status>().status({ text: `hello, ${seen.spec.who}` }),
});

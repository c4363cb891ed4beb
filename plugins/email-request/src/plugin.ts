// notify.acme.io/v1 EmailRequest: a mail that is sent once, by the mail gateway.
//
// The gateway tells one mail from another by the idempotency key, and that is the object's name: whatever is asked for under a
// name, by this plugin or by whoever was there before it, is one mail. So the sending is one http effect under a literal key,
// repeated until there is a definite answer, and what became of it decides the phase.

import { decide, fingerprint, reconciler, type Decision, type Observation, type Response } from "@guesthouse/sdk";
import crd from "../crd.yaml";

interface Spec {
  to: string;
  template: string;
  locale?: string;
}
interface Status {
  phase: "Waiting" | "Sent" | "Failed";
  /** The gateway's name for the mail. */
  messageId?: string;
  /** Why it is not sent. */
  message?: string;
}
interface Config {
  gateway: string;
}
type Seen = Observation<Spec, Status, Config>;

const SEND = "send";
const ATTEMPTS = 5;

function reconcile(seen: Seen): Decision<Status> {
  const { phase = "Waiting", messageId, message } = seen.status ?? {};
  // For good, whatever the spec says now. A changed spec is seen, and so acknowledged, but it is not sent: the gateway would
  // take it for the mail that this name has had already, and the host refuses another request under an id and key that have
  // their answer. Another mail is another object.
  if (phase !== "Waiting") return stands({ phase, messageId, message });

  // An answer counts also when the spec was changed while it was on its way: the mail is sent.
  const last = seen.lastReceipt(SEND);
  if (last?.state === "answered") {
    return last.response.ok
      ? sent(last.response)
      : failed(`the gateway answered ${last.response.code}${said(last.response)}`);
  }

  // Until then a changed spec is another wish, with attempts of its own. Should the gateway know the name by an earlier
  // attempt after all, it answers with that mail.
  const wish = key(seen);
  const receipt = seen.receipt(SEND, wish);
  if (receipt?.state !== "failed") return asked(seen, wish, { phase });
  const why = `${receipt.error.reason}: ${receipt.error.message}`;
  return receipt.attempts < ATTEMPTS ? asked(seen, wish, { phase, message: why }) : failed(why);
}

/** All that the request is made of beside the object's name. */
function key({ spec, config }: Seen): string {
  return fingerprint([config.gateway, spec.to, spec.template, locale(spec)]);
}

const locale = (spec: Spec) => spec.locale ?? "en";

function asked({ name, spec, config }: Seen, wish: string, status: Status): Decision<Status> {
  return stands(status).http({
    id: SEND,
    method: "POST",
    url: `${config.gateway.replace(/\/+$/, "")}/messages`,
    json: { to: spec.to, template: spec.template, locale: locale(spec) },
    key: wish,
    literalKey: name,
  });
}

function sent(response: Response): Decision<Status> {
  const id = response.json()?.id;
  const messageId = id === undefined || id === null ? undefined : String(id);
  return stands({ phase: "Sent", messageId }).event("Sent", messageId ? `sent as ${messageId}` : "sent");
}

function failed(message: string): Decision<Status> {
  return stands({ phase: "Failed", message }).warning("SendFailed", message);
}

/** The decision for a status alone: told in every pass, or the host would think a failed mail ready. */
function stands(status: Status): Decision<Status> {
  const decision = decide<Status>().status(status);
  return status.phase === "Failed" ? decision.condition("Ready", false, "SendFailed", status.message) : decision;
}

/** What the gateway said against it, as one line that fits into a status. */
function said({ text = "" }: Response): string {
  const line = text.trim().replace(/\s+/g, " ").slice(0, 256);
  return line && `: ${line}`;
}

export default reconciler<Spec, Status, Config>({
  name: "email-request",
  version: "0.1.0",
  kinds: [{ apiVersion: "notify.acme.io/v1", kind: "EmailRequest", crd }],
  configSchema: {
    type: "object",
    required: ["gateway"],
    additionalProperties: false,
    properties: { gateway: { type: "string", pattern: "^https?://", description: "The gateway's address." } },
  },
  // The host stands for the one in the mapping's config.
  grants: { http: [{ host: "mail-gateway.example", methods: ["POST"], path: "/messages", literalKey: true }] },
  reconcile,
});

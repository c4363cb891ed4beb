"""The conformance guest: a branch per case of `tests/conformance/cases.json`, by the SDK's own builders."""

import random
import sys
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from guesthouse_sdk import (
    Apply,
    Decision,
    Delete,
    FailedSend,
    Generated,
    Http,
    Kind,
    Lost,
    Need,
    Objects,
    Observation,
    Plugin,
    Raw,
    Response,
    Retry,
    Stall,
    Unavailable,
    log,
)

CONFIG_MAP = Kind("v1", "ConfigMap")

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "cases.conformance.guesthouse.dev"},
}

plugin = Plugin(
    "conformance",
    "1.2.3",
    serves=[Kind("conformance.guesthouse.dev/v1", "Case", crd=CRD), CONFIG_MAP],
    needs=[Need.object("settings", CONFIG_MAP.named("settings"))],
    grants={"http": [{"host": "example.test"}]},
    config_schema={"type": "object", "properties": {"greeting": {"type": "string"}}},
)

Seen = Observation[dict[str, Any], dict[str, Any]]


@plugin.reconcile
def reconcile(seen: Seen) -> Decision:
    spec, decision = seen.spec, Decision()
    match spec["case"]:
        case "empty":
            return decision
        case "status-replace":
            nested: dict[str, Any] = {"none": None}
            return decision.status(
                {"phase": "Done", "count": 3, "ok": False, "ratio": 0.5, "list": ["a", ""], "nested": nested}
            )
        case "status-merge":
            return decision.merge_status({"kept": "x", "gone": None})
        case "values":
            return decision.status({"values": spec["values"]})
        case "arithmetic":
            return decision.status({"next": spec["number"] + 1})
        case "absent":
            return decision.status({name: presence(spec, name) for name in "abcd"})
        case "conditions":
            return (
                decision.condition("Synced", True, "Done", "all of it")
                .condition("Healthy", False, "Broken", "m")
                .condition("Ready", None, "Waiting")
            )
        case "labels":
            return (
                decision.label("team", "a").label("old", None).annotation("acme.io/note", "n").annotation("acme.io/old", None)
            )
        case "events":
            return decision.event("Told", "so").warning("Warned", "beware")
        case "wake-at":
            return decision.wake_at("2026-02-01T00:00:00Z")
        case "wake-after":
            return decision.wake_after(90)
        case "children":
            return decision.children(children())
        case "delete":
            gone = CONFIG_MAP.named("gone")
            return decision.delete(Delete("one", gone)).delete(
                Delete("two", CONFIG_MAP.named("gone", namespace="other"), uid="u-9")
            )
        case "http":
            return http(seen, decision)
        case "needs":
            return needs(decision)
        case "extension":
            return decision.extension("example.test/more", {"n": 1}).other("x", "example.test/do", {"deep": [1, None]})
        case "retry":
            raise (
                Retry("NotYet", "the other side sleeps", after=30)
                .merge_status({"phase": "Waiting"})
                .condition("Synced", False, "NotYet", "m")
            )
        case "stall":
            raise Stall("Wrong", "the size is negative")
        case "throw":
            raise RuntimeError("conformance throws")
        case "malformed":
            return decision.status(Raw('{"a":'))
        case "logs":
            log.debug("d 1")
            log.info("i 2")
            log.warn("w 3")
            log.error("e 4")
            print("printed to stderr", file=sys.stderr)
            return decision
        case "clock":
            return decision.status({"now": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")})
        case "random":
            return decision.status({"random": random.getrandbits(53)})
        case "large":
            return decision.status({"text": "x" * 100_000})
        case "observed":
            return decision.status(observed(seen))
        case unknown:
            raise Stall("NoSuchCase", f"there is no case {unknown}")


@plugin.finalize
def finalize(seen: Seen) -> Decision:
    if seen.spec["case"] == "finalized":
        return Decision().finalized().merge_status({"phase": "Gone"})
    return Decision().http(Http("undo", "DELETE", "https://example.test/a"))


def presence(spec: dict[str, Any], name: str) -> str:
    match spec.get(name, ...):
        case None:
            return "null"
        case "":
            return "empty"
        case value:
            return "absent" if value is ... else "value"


def children() -> list[Apply]:
    data = {"k": "v"}
    return [
        Apply("plain", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}, "data": data}),
        Apply(
            "job",
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"backoffLimit": 0}},
            after=["plain"],
            mode="once",
            ownership="adopt",
            on_immutable="recreate",
            on_delete="orphan",
        ),
        Apply(
            "secret",
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}},
            generate=[Generated("password", 24), Generated("pin", 4, "0123456789")],
        ),
        Apply(
            "part",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "shared", "namespace": "other"},
                "data": data,
            },
            after=["plain", "job"],
            ownership="fields",
        ),
    ]


def http(seen: Seen, decision: Decision) -> Decision:
    everything = Http(
        "all",
        "POST",
        "https://example.test/b?x=1",
        body='{"a":1}',
        headers=[("accept", "text/plain"), ("accept", "*/*"), ("x-a", "1")],
        key=f"generation-{seen.generation}",
        at_most_once=True,
        credential="token",
        timeout=7,
        after=["least"],
    )
    return (
        decision.http(Http("least", "PUT", "https://example.test/a"))
        .http(everything)
        .http(Http("bytes", "PUT", "https://example.test/c", body=b"\x00\xff\xfe\x80", literal_key="c"))
    )


def needs(decision: Decision) -> Decision:
    secret, pod, job = Kind("v1", "Secret"), Kind("v1", "Pod"), Kind("batch/v1", "Job")
    return (
        decision.need(Need.object("by-name", secret.named("s", namespace="other")))
        .need(Need.object("own-namespace", CONFIG_MAP.named("cm")).metadata())
        .need(Need.selected("by-label", pod, "app in (a, b)", namespace="*").limit(10))
        .need(Need.owned("mine", job))
        .need(Need.fetch("outside", "https://example.test/r", fresh=60, headers={"accept": "application/json"}))
    )


def observed(seen: Seen) -> dict[str, Any]:
    return {
        "name": seen.name,
        "namespace": seen.namespace,
        "uid": seen.uid,
        "generation": seen.generation,
        "label": seen.labels.get("a"),
        "old": seen.status["old"],
        "mapping": seen.mapping,
        "now": seen.now,
        "attempt": seen.attempt,
        "round": seen.round,
        "greeting": seen.config["greeting"],
        "deleting": seen.deleting,
        "related": [related(seen, name) for name in ("settings", "none", "outside", "denied")],
        "children": [
            {
                "effect": child.effect,
                "name": child.object.name,
                "namespace": child.object.namespace,
                "uid": child.uid,
                "state": child.state,
                "error": child.error.reason if child.error else None,
            }
            for child in seen.children
        ],
        "receipts": [
            {"effect": effect, "key": key} | receipt(seen, effect, key)
            for effect, key in (("x", "k1"), ("y", None), ("z", "k3"), ("w", None), ("v", None))
        ],
    }


def related(seen: Seen, name: str) -> dict[str, Any]:
    match seen.related(name):
        case Objects(items, truncated):
            first = items[0]["metadata"]["name"] if items else None
            return {"name": name, "found": len(items), "truncated": truncated, "first": first}
        case Response() as answer:
            return {
                "name": name,
                "code": answer.code,
                "body": text(answer),
                "header": answer.header("x-a"),
                "truncated": answer.truncated,
            }
        case Unavailable(reason, message):
            return {"name": name, "unavailable": reason, "message": message}
        case None:
            return {"name": name}


def receipt(seen: Seen, effect: str, key: str | None) -> dict[str, Any]:
    match seen.receipt(effect, key):
        case Response() as answer:
            return {"state": "answered", "code": answer.code, "body": text(answer)}
        case FailedSend(attempts, error, next_at):
            return {"state": "failed", "attempts": attempts, "reason": error.reason, "nextAt": next_at}
        case Lost():
            return {"state": "unknown"}
        case None:
            return {"state": "unsent"}


def text(answer: Response) -> str:
    return answer.body if isinstance(answer.body, str) else b64encode(answer.body).decode()

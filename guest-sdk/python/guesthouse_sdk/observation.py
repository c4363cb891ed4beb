"""What a plugin sees."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

from .decision import Retry, Stall
from .effects import Kind, Ref
from .raw import Raw

Spec = TypeVar("Spec")
Status = TypeVar("Status")


@dataclass(frozen=True)
class Cause:
    """Why something is as it is: `reason` for machines, `message` for people."""

    reason: str
    message: str = ""


class Unavailable(Cause):
    """A need was asked for, and there is no answer: `Denied`, `NoSuchKind`, `TooLarge`, `Failed`."""


@dataclass(frozen=True)
class Objects:
    """What was found for a need, maybe nothing."""

    items: list[Any]
    #: More matched than the limit let through.
    truncated: bool


@dataclass(frozen=True)
class Response:
    """A definite answer to a request, or any to a fetch."""

    code: int
    #: Names in lower case.
    headers: list[tuple[str, str]]
    #: Bytes where they are no UTF-8.
    body: str | bytes
    truncated: bool
    at: str

    @property
    def ok(self) -> bool:
        return 200 <= self.code < 300

    def header(self, name: str) -> str | None:
        return next((value for have, value in self.headers if have == name), None)

    def json(self) -> Any:
        """The body as JSON; ValueError where it is none."""
        return Raw(self.body if isinstance(self.body, str) else "").parse()


@dataclass(frozen=True)
class FailedSend:
    """Sent without a definite answer; sent again if it is still asked for."""

    attempts: int
    error: Cause
    next_at: str


@dataclass(frozen=True)
class Lost:
    """At most once, and the answer is lost: only a new key sends it again."""


@dataclass(frozen=True)
class Child:
    """An object that this one asked for by an `Apply`."""

    effect: str
    object: Ref
    #: None until the server has answered.
    uid: str | None
    state: Literal["absent", "inProgress", "current", "failed", "terminating"]
    #: Why it is not current, in its own words.
    message: str
    #: Why the last write of it did not succeed.
    error: Cause | None


class Observation(Generic[Spec, Status]):
    """All that a plugin sees in one call. `Observation[Spec, Status]` names TypedDicts for the object's spec and status."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        #: The contract's JSON form (docs/schemas/observation.json); object, config and found objects in it as `Raw`.
        self.raw = raw
        self.object: dict[str, Any] = raw["object"].parse()
        #: `{}` for an object without one.
        self.spec = cast(Spec, self.object.get("spec") or {})
        #: `{}` for an object without one.
        self.status = cast(Status, self.object.get("status") or {})
        self.metadata: dict[str, Any] = self.object.get("metadata") or {}
        self.name: str = self.metadata.get("name", "")
        #: None for a cluster-scoped object.
        self.namespace: str | None = self.metadata.get("namespace")
        self.uid: str = self.metadata.get("uid", "")
        #: 0 for a kind without.
        self.generation: int = self.metadata.get("generation", 0)
        self.labels: dict[str, str] = self.metadata.get("labels") or {}
        self.annotations: dict[str, str] = self.metadata.get("annotations") or {}
        self.deleting: bool = "deletionTimestamp" in self.metadata
        #: The mapping's; `{}` without one.
        self.config: Any = raw["config"].parse()
        #: The mapping's name.
        self.mapping: str = raw["mapping"]
        #: When this pass began, RFC 3339 in whole seconds. Between two wakes the decision must not depend on it.
        self.now: str = raw["now"]
        #: How many passes in a row failed before this one.
        self.attempt: int = raw["attempt"]
        self.round: int = raw["round"]
        #: The children on record and those asked for last.
        self.children: list[Child] = [_child(child) for child in raw.get("children", ())]

    def child(self, id: str) -> Child | None:
        """The child that the effect of that id asked for."""
        return next((child for child in self.children if child.effect == id), None)

    def receipt(self, id: str, key: str | None = None) -> Response | FailedSend | Lost | None:
        """What became of the http effect of that id and key; None: not sent yet."""
        return self._receipt(lambda receipt: receipt["effect"] == id and receipt.get("key") == key)

    def last_receipt(self, id: str) -> Response | FailedSend | Lost | None:
        """What became of the effect under whatever key it was sent last."""
        return self._receipt(lambda receipt: receipt["effect"] == id)

    def _receipt(self, fits: Any) -> Response | FailedSend | Lost | None:
        state = next((receipt["state"] for receipt in self.raw.get("receipts", ()) if fits(receipt)), None)
        match state:
            case {"answered": response}:
                return _response(response)
            case {"failed": failed}:
                return FailedSend(failed["attempts"], Cause(*_words(failed["error"])), failed["nextAt"])
            case "unknown":
                return Lost()
        return None

    def related(self, name: str) -> Objects | Response | Unavailable | None:
        """The answer to the need of that name; None: not asked for yet."""
        answer = next((related["answer"] for related in self.raw.get("related", ()) if related["name"] == name), None)
        match answer:
            case {"objects": found}:
                return Objects([item.parse() for item in found["items"]], found["truncated"])
            case {"response": response}:
                return _response(response)
            case {"unavailable": cause}:
                return Unavailable(*_words(cause))
        return None

    def objects(self, name: str) -> list[Any]:
        """The objects found for a need, none before it was asked for. Without an answer it is a retry with its reason."""
        match self.related(name):
            case Objects(items):
                return items
            case Unavailable(reason, message):
                raise Retry(reason, message)
            case Response():
                raise Stall("BadRelated", f"the need {name} is a fetch: it has an answer, not objects")
        return []


def _child(child: Mapping[str, Any]) -> Child:
    ref, error = child["object"], child.get("error")
    kind = Kind(ref["kind"]["apiVersion"], ref["kind"]["kind"])
    return Child(
        child["effect"],
        Ref(kind, ref["name"], ref.get("namespace")),
        child.get("uid"),
        child["state"],
        child.get("message", ""),
        error and Cause(*_words(error)),
    )


def _words(cause: Mapping[str, Any]) -> tuple[str, str]:
    return cause["reason"], cause.get("message", "")


def _response(response: Mapping[str, Any]) -> Response:
    match response["body"]:
        case {"text": body} | {"bytes": bytes(body)}:
            pass
        case {"bytes": text}:
            body = b64decode(text)
        case _:
            body = ""
    headers = [(name, value) for name, value in response.get("headers", ())]
    return Response(response["code"], headers, body, response.get("truncated", False), response["at"])

"""What a plugin answers: a decision, or why there is none."""

from collections.abc import Iterable
from typing import Any, Self

from .effects import Apply, Delete, Http, Need, other
from .raw import present, to_raw


class _Answer:
    """What a decision and a failure have in common."""

    #: The answer as the contract has it, in the JSON form of docs/schemas/decision.json, texts of JSON in it as `Raw`.
    raw: dict[str, Any]

    def status(self, status: Any) -> Self:
        """The whole status. `observedGeneration` is the host's to write."""
        self.raw["status"] = {"replace": to_raw(status)}
        return self

    def merge_status(self, part: Any) -> Self:
        """A part of the status by RFC 7386: None removes, what is not named stays."""
        self.raw["status"] = {"merge": to_raw(part)}
        return self

    def condition(self, type: str, status: bool | None, reason: str, message: str = "") -> Self:
        """A condition; None is `Unknown`. Neither reason nor message may hold a counter or a time: each would be a write."""
        said = {True: "True", False: "False", None: "Unknown"}[status]
        return self._add("conditions", {"type": type, "status": said, "reason": reason, "message": message})

    def _add(self, member: str, record: Any) -> Self:
        self.raw.setdefault(member, []).append(record)
        return self


class Decision(_Answer):
    """All that a plugin wants. Empty, it is valid: nothing to do, and the status stays. Every method answers the decision."""

    def __init__(self) -> None:
        self.raw = {}

    def label(self, key: str, value: str | None) -> Self:
        """Sets a label of the object; None takes it off."""
        self.raw.setdefault("labels", {})[key] = value
        return self

    def annotation(self, key: str, value: str | None) -> Self:
        """Sets an annotation of the object; None takes it off."""
        self.raw.setdefault("annotations", {})[key] = value
        return self

    def need(self, need: Need) -> Self:
        """Something to read first; until it is answered nothing else of this decision is carried out."""
        return self._add("needs", need.record())

    def apply(self, child: Apply) -> Self:
        """A child, beside others."""
        return self._add("effects", child.record())

    def children(self, children: Iterable[Apply]) -> Self:
        """All the children this object shall have: others on record are deleted."""
        self.raw["complete"] = True
        for child in children:
            self.apply(child)
        return self

    def delete(self, delete: Delete) -> Self:
        """A deletion."""
        return self._add("effects", delete.record())

    def http(self, request: Http) -> Self:
        """A request with a receipt."""
        return self._add("effects", request.record())

    def event(self, reason: str, note: str = "") -> Self:
        """An Event, told only by a pass that changes something else too."""
        return self._add("events", {"type": "normal", "reason": reason, "note": note})

    def warning(self, reason: str, note: str = "") -> Self:
        """An Event that asks somebody to act."""
        return self._add("events", {"type": "warning", "reason": reason, "note": note})

    def wake_at(self, at: str) -> Self:
        """Call again at that time at the latest (RFC 3339, UTC, whole seconds), computed from spec or status."""
        self.raw["wake"] = {"at": at}
        return self

    def wake_after(self, seconds: int) -> Self:
        """Call again that many seconds after this pass at the latest; not kept over a restart."""
        self.raw["wake"] = {"after": seconds}
        return self

    def finalized(self) -> Self:
        """In `finalize`: nothing is left to clean up."""
        self.raw["finalized"] = True
        return self

    def extension(self, name: str, value: Any) -> Self:
        """A part of a later contract that the descriptor named."""
        return self._add("extensions", {"name": name, "value": to_raw(value)})

    def other(self, id: str, name: str, value: Any) -> Self:
        """An effect of a later contract."""
        return self._add("effects", other(id, name, value))


class Failure(_Answer, Exception):
    """Why there is no decision: `Retry` or `Stall`, raised or returned. Nothing is carried out then, but status and
    conditions may say why."""

    kind: str

    def __init__(self, reason: str, message: str = "", after: int | None = None) -> None:
        super().__init__(f"{reason}: {message}")
        self.raw = present(kind=self.kind, cause={"reason": reason, "message": message}, after=after)


class Retry(Failure):
    """May work later: again with the mapping's backoff, or not before `after` seconds. Any other exception is a retry, too."""

    kind = "retry"


class Stall(Failure):
    """Will not work as things are: the object is stalled until something changes."""

    kind = "terminal"

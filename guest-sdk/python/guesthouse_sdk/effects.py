"""What a plugin asks for: children, deletions, requests, and what it needs to read.

Each is a value. The id of an effect names the wish, not the attempt: it is unique and stable within the object. `record()`
is the contract's record as JSON (docs/schemas/decision.json of Guesthouse), texts of JSON in it as `Raw`.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from .raw import present, to_raw

#: Names and values; pairs where a name comes more than once.
Headers = Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Kind:
    """A kind as a manifest names it: `Kind("apps/v1", "Deployment")`."""

    api_version: str
    kind: str
    #: The whole CustomResourceDefinition, where a plugin serves the kind and brings it.
    crd: Any = None

    def named(self, name: str, namespace: str | None = None) -> "Ref":
        """One object of the kind; no namespace is that of the reconciled object."""
        return Ref(self, name, namespace)

    def record(self) -> dict[str, Any]:
        return {"apiVersion": self.api_version, "kind": self.kind}


@dataclass(frozen=True)
class Ref:
    """One object by name."""

    kind: Kind
    name: str
    namespace: str | None = None

    def record(self) -> dict[str, Any]:
        return present(kind=self.kind.record(), name=self.name, namespace=self.namespace)


class Generated(NamedTuple):
    """A random value of a Secret, made by the host once: `length` characters under `data.<key>`."""

    key: str
    length: int
    #: None: `A-Za-z0-9`.
    alphabet: str | None = None


@dataclass(frozen=True)
class Apply:
    """A child by server-side apply: state the fields you mean and no others."""

    id: str
    #: With apiVersion, kind and metadata.name.
    object: Any
    #: Ids of effects that must have succeeded first.
    after: Sequence[str] = ()
    #: `once`: made once and then left alone, also when it is gone.
    mode: Literal["keep", "once"] = "keep"
    #: `adopt`: one without owner is taken over. `fields`: only these fields of somebody else's object.
    ownership: Literal["owned", "adopt", "fields"] = "owned"
    #: `recreate`: deleted and made again when a field cannot be changed.
    on_immutable: Literal["fail", "recreate"] = "fail"
    #: `orphan`: stays when the reconciled object is deleted.
    on_delete: Literal["delete", "orphan"] = "delete"
    generate: Sequence[Generated] = ()

    def record(self) -> dict[str, Any]:
        apply = present(
            object=to_raw(self.object),
            mode=self.mode,
            ownership=self.ownership,
            onImmutable=self.on_immutable,
            onDelete=self.on_delete,
            generate=[present(**one._asdict()) for one in self.generate],
        )
        return _effect(self.id, self.after, {"apply": apply})


@dataclass(frozen=True)
class Delete:
    """A deletion of an own child, or of the object itself where granted."""

    id: str
    object: Ref
    #: Only the one of that uid.
    uid: str | None = None
    after: Sequence[str] = ()

    def record(self) -> dict[str, Any]:
        return _effect(self.id, self.after, {"delete": present(object=self.object.record(), uid=self.uid)})


@dataclass(frozen=True)
class Http:
    """A request with a receipt, carried out once per id and key: `Http("export", "PUT", url, json=body)`."""

    id: str
    method: str
    url: str
    #: A JSON body, with its content type.
    json: Any = None
    #: Another body, text or bytes.
    body: str | bytes = ""
    headers: Headers = ()
    #: Makes this another wish than the last one under this id; usually something of the spec.
    key: str | None = None
    #: Sent as the idempotency key instead of the host's hash, where the grant allows it.
    literal_key: str | None = None
    #: Never sent a second time, also when the answer is lost.
    at_most_once: bool = False
    #: A credential of the mapping, by name; the host puts it in.
    credential: str | None = None
    #: Seconds the answer may take, instead of the grant's.
    timeout: int | None = None
    after: Sequence[str] = ()

    def record(self) -> dict[str, Any]:
        request = _request(self.method, self.url, self.headers, credential=self.credential, timeout=self.timeout)
        if self.json is not None:
            request["headers"] = [["content-type", "application/json"], *request.get("headers", [])]
            request["body"] = {"text": to_raw(self.json).text}
        elif isinstance(self.body, bytes):
            request["body"] = {"bytes": b64encode(self.body).decode()}
        elif self.body:
            request["body"] = {"text": self.body}
        delivery = "atMostOnce" if self.at_most_once else None
        http = present(request=request, delivery=delivery, key=self.key, literalKey=self.literal_key)
        return _effect(self.id, self.after, {"http": http})


@dataclass(frozen=True)
class Need:
    """Something to read; made by `object`, `selected`, `owned` or `fetch`."""

    name: str
    source: Mapping[str, Any]
    view: Literal["full", "metadata"] = "full"
    most: int | None = None

    @classmethod
    def object(cls, name: str, ref: Ref) -> "Need":
        """One object by name."""
        return cls(name, {"object": ref.record()})

    @classmethod
    def selected(cls, name: str, kind: Kind, labels: str = "", namespace: str | None = None) -> "Need":
        """Objects by label, as after `kubectl get -l`, of the own namespace, another, or `*`: all that are granted."""
        return cls(name, {"selected": present(kind=kind.record(), namespace=namespace, labels=labels)})

    @classmethod
    def owned(cls, name: str, kind: Kind) -> "Need":
        """Objects of a kind that carry this object's owner mark."""
        return cls(name, {"owned": kind.record()})

    @classmethod
    def fetch(cls, name: str, url: str, fresh: int, headers: Headers = (), credential: str | None = None) -> "Need":
        """A GET outside the cluster, at most `fresh` seconds old."""
        request = _request("GET", url, headers, credential=credential)
        return cls(name, {"fetch": {"request": request, "fresh": fresh}})

    def metadata(self) -> "Need":
        """Only apiVersion, kind and metadata, at a fraction of the cost."""
        return replace(self, view="metadata")

    def limit(self, objects: int) -> "Need":
        """At most that many objects."""
        return replace(self, most=objects)

    def record(self) -> dict[str, Any]:
        view = None if self.view == "full" else self.view
        return present(name=self.name, source=self.source, view=view, limit=self.most)


def other(id: str, name: str, value: Any, after: Sequence[str] = ()) -> dict[str, Any]:
    """The record of an effect of a later version."""
    return _effect(id, after, {"other": {"name": name, "value": to_raw(value)}})


def _effect(id: str, after: Sequence[str], action: dict[str, Any]) -> dict[str, Any]:
    return present(id=id, after=list(after), action=action)


def _request(method: str, url: str, headers: Headers, **members: Any) -> dict[str, Any]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return present(method=method, url=url, headers=[[name, value] for name, value in pairs], **members)

"""Where a call of the component comes in: the records that componentize-py makes of the contract on one side, its JSON form
on the other. Imported in a component only.

Both ways are made from the records themselves, names included. Which texts hold JSON is all that they do not say.
"""

import dataclasses
import enum
import functools
import operator
import typing
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from componentize_py_types import Err
from wit_world.imports import log as host
from wit_world.imports import types

from . import log
from .decision import Stall
from .observation import Observation
from .plugin import Plugin
from .raw import Raw

JSON = {
    ("Observation", "object"),
    ("Observation", "config"),
    ("Objects", "items"),
    ("Status_Replace", "value"),
    ("Status_Merge", "value"),
    ("Apply", "object"),
    ("Extension", "value"),
    ("ServedKind", "crd"),
    ("Descriptor", "config_schema"),
    ("Descriptor", "grants"),
}


def export(plugin: Plugin) -> type:
    """The class that componentize-py looks for: the plugin as the interface `guesthouse:reconciler/plugin`."""
    descriptor, decision, failure = (_writer(record) for record in (types.Descriptor, types.Decision, types.Failure))

    class Door:
        def describe(self) -> Any:
            return descriptor(plugin.describe())

        def reconcile(self, seen: Any) -> Any:
            return self._answer("reconcile", seen)

        def finalize(self, seen: Any) -> Any:
            return self._answer("finalize", seen)

        def _answer(self, verb: str, seen: Any) -> Any:
            answer = plugin.answer(verb, Observation(_read(seen)))
            if "failure" in answer:
                raise Err(failure(answer["failure"]))
            try:
                return decision(answer["decision"])
            except (KeyError, TypeError, ValueError) as error:
                raise Err(failure(Stall("BadDecision", str(error)).raw)) from error

    log.sink = lambda level, message: host.write(host.Level[level.upper()], message)
    return Door


def _read(record: Any) -> Any:
    """A record as JSON: names in camelCase, a variant as an object with one member, None left out."""
    if isinstance(record, enum.Enum):
        return _camel(record.name.lower())
    if isinstance(record, list | tuple):
        return [_read(item) for item in record]
    if isinstance(record, bytes):
        return b64encode(record).decode()
    if not dataclasses.is_dataclass(record):
        return record
    kind = type(record).__name__
    members = {
        _camel(name): _raw(value) if (kind, name) in JSON else _read(value)
        for name, value in vars(record).items()
        if value is not None
    }
    _, is_variant, case = kind.partition("_")
    if not is_variant:
        return members
    return {_camel(case): members["value"]} if members else _camel(case)


def _raw(text: Any) -> Any:
    return [Raw(item) for item in text] if isinstance(text, list) else Raw(text)


def _writer(hint: Any) -> Callable[[Any], Any]:
    """The function from JSON to a type of the records. None, for what was left out, becomes the least value of the type."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is list:
        item = _writer(parts[0])
        return lambda values: [item(value) for value in _items(values)]
    if origin is tuple:
        return tuple
    if type(None) in parts:
        some = _writer(functools.reduce(operator.or_, (part for part in parts if part is not type(None))))
        return lambda value: None if value is None else some(value)
    if parts:
        return _variant({_camel(case.__name__.partition("_")[2]): case for case in parts})
    if dataclasses.is_dataclass(hint):
        return _record(hint)
    if issubclass(hint, enum.Enum):
        return _choice({_camel(member.name.lower()): member for member in hint})
    if hint is bytes:
        return b64decode
    return lambda value: hint() if value is None else _plain(hint, value)


def _choice(members: dict[str, Any]) -> Callable[[Any], Any]:
    def write(name: Any) -> Any:
        if name is None:
            return next(iter(members.values()))
        if member := members.get(name[:1].lower() + name[1:]):
            return member
        raise ValueError(f"{name!r} is none of {', '.join(members)}")

    return write


def _plain(hint: Any, value: Any) -> Any:
    if isinstance(value, Raw):
        return value.text
    if not isinstance(value, hint):
        raise TypeError(f"{value!r} stands where a {hint.__name__} should")
    if hint is str:
        value.encode()
    elif not 0 <= value < 1 << 32:
        raise ValueError(f"{value} is not 0 to 4294967295")
    return value


def _record(record: Any) -> Callable[[Any], Any]:
    writers = {_camel(name): (name, _writer(hint)) for name, hint in typing.get_type_hints(record).items()}

    def write(json: Any) -> Any:
        if unknown := json.keys() - writers:
            raise TypeError(f"{record.__name__} has no {', '.join(sorted(unknown))}")
        return record(**{name: some(json.get(member)) for member, (name, some) in writers.items()})

    return write


def _variant(cases: dict[str, Any]) -> Callable[[Any], Any]:
    writers = {name: _writer(typing.get_type_hints(case).get("value", bool)) for name, case in cases.items()}

    def write(json: Any) -> Any:
        if not isinstance(json, dict):
            return cases[json or next(iter(cases))]()
        [(name, payload)] = json.items()
        return cases[name](writers[name](payload))

    return write


def _items(values: Any) -> Any:
    return values.items() if isinstance(values, dict) else values or ()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first[:1].lower() + first[1:] + "".join(word.title() for word in rest)

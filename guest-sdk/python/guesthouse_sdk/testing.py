"""Plugins under the language's own test runner, without host and without WebAssembly.

A case file holds an observation and what is to be answered to it, in the format of Guesthouse's conformance suite:

    {"observation": {"object": {…}}, "expect": {"decision": {"status": {"replace": {"text": "hello, world"}}}}}

`check(plugin, read_case("cases/hello.json"))` raises an AssertionError that shows the difference. The same file is judged on
the built component by the host's own tools.
"""

import contextlib
import difflib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import log
from .observation import Observation
from .plugin import Plugin
from .raw import Raw, to_raw

_LEFT_OUT: dict[str, Any] = {
    "config": {},
    "mapping": "conformance",
    "now": "2026-01-01T00:00:00Z",
    "attempt": 0,
    "round": 0,
}
#: Members that hold JSON of others, in which nothing may be left out.
_VALUES = {"replace", "merge", "value", "object", "labels", "annotations"}
#: What members of an answer say when they are left out; the others say None, False, or something empty.
_DEFAULTS = {
    "body": "empty",
    "delivery": "atLeastOnce",
    "mode": "keep",
    "onDelete": "delete",
    "onImmutable": "fail",
    "ownership": "owned",
    "view": "full",
}


def observe(object: Any, **members: Any) -> Observation[Any, Any]:
    """An observation of the object; other members, as in a case file, by name: `now=`, `children=`, `receipts=`, …"""
    seen = _LEFT_OUT | members
    related = [_with_raw_items(one) for one in seen.get("related", ())]
    return Observation(seen | {"object": to_raw(object), "config": to_raw(seen["config"]), "related": related})


def decide(plugin: Plugin, seen: Observation[Any, Any], verb: str = "reconcile") -> dict[str, Any]:
    """What the plugin answers: `{"decision": …}` or `{"failure": …}`, or `{"refused": "BadOutput"}` where a text is no JSON."""
    try:
        return dict(_parsed(plugin.answer(verb, seen)))
    except json.JSONDecodeError:
        return {"refused": "BadOutput"}


def describe(plugin: Plugin) -> dict[str, Any]:
    """The descriptor, as the command door writes it."""
    return dict(_parsed(plugin.describe()))


def read_case(path: str | Path) -> dict[str, Any]:
    """Reads a case file; its name is the file's where it has none."""
    return {"name": Path(path).stem, **json.loads(Path(path).read_text(encoding="utf-8"))}


def check(plugin: Plugin, case: dict[str, Any]) -> None:
    """Calls the plugin twice with the case's observation and compares what it answers, as values in which 1 and 1.0 differ."""
    expect, name = _spread(case["expect"]), case.get("name", "case")
    (answer, logs), again = (_call(plugin, case) for _ in range(2))
    _compare(f"{name}: two calls with one observation", [answer, logs], list(again))
    if "logs" in expect:
        _compare(f"{name}: logs", expect.pop("logs"), logs)
    if "broken" in expect:
        failure = answer.get("failure", {})
        message = failure.get("cause", {}).get("message", "")
        if failure.get("kind") != "retry" or expect["broken"] not in message:
            raise AssertionError(f"{name}: wanted a retry that says {expect['broken']!r}, found {answer}")
    elif "same" not in expect:
        _compare(name, expect, answer)


def _call(plugin: Plugin, case: dict[str, Any]) -> tuple[dict[str, Any], list[list[str]]]:
    with _logged() as lines:
        return decide(plugin, observe(**case["observation"]), case.get("verb", "reconcile")), lines


def _compare(what: str, wanted: Any, found: Any) -> None:
    wanted, found = (
        json.dumps(_bare(value), indent=2, sort_keys=True, ensure_ascii=False).splitlines() for value in (wanted, found)
    )
    if wanted != found:
        difference = "\n".join(difflib.unified_diff(wanted, found, "wanted", "found", lineterm=""))
        raise AssertionError(f"{what}\n{difference}")


def _bare(answer: Any) -> Any:
    """An answer without what may be left out, so that it may be left out or not."""
    if isinstance(answer, list):
        return [_bare(item) for item in answer]
    if not isinstance(answer, dict):
        return answer
    bare = {name: value if name in _VALUES else _bare(value) for name, value in answer.items()}
    return {
        name: value
        for name, value in bare.items()
        if name in _VALUES or ((value or type(value) is int) and value != _DEFAULTS.get(name))
    }


def _parsed(value: Any) -> Any:
    if isinstance(value, Raw):
        return value.parse()
    if isinstance(value, dict):
        return {name: _parsed(member) for name, member in value.items()}
    return [_parsed(item) for item in value] if isinstance(value, list) else value


def _with_raw_items(related: dict[str, Any]) -> dict[str, Any]:
    found = related["answer"].get("objects")
    if found is None:
        return related
    items = [to_raw(item) for item in found["items"]]
    return related | {"answer": {"objects": found | {"items": items}}}


def _spread(expect: Any) -> Any:
    """The expectation with its `{"repeat": [TEXT, N]}` written out."""
    if isinstance(expect, list):
        return [_spread(item) for item in expect]
    if not isinstance(expect, dict):
        return expect
    if expect.keys() == {"repeat"}:
        text, times = expect["repeat"]
        return text * times
    return {name: _spread(value) for name, value in expect.items()}


@contextlib.contextmanager
def _logged() -> Iterator[list[list[str]]]:
    """The lines that are logged or printed to stderr meanwhile, as the host sees them."""
    lines: list[list[str]] = []

    class Stderr(io.StringIO):
        def write(self, text: str) -> int:
            lines.extend(["info", line] for line in text.splitlines() if line)
            return len(text)

    sink, log.sink = log.sink, lambda level, message: lines.append([level, message])
    try:
        with contextlib.redirect_stderr(Stderr()):
            yield lines
    finally:
        log.sink = sink

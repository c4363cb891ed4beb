"""JSON as text: what an object is on its way through a plugin."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Raw:
    """JSON text that is taken as it is, wherever JSON is asked for: `Decision().status(Raw(text))`."""

    text: str

    def parse(self) -> Any:
        """The value: integers of any size exact, 1.0 beside 1, null beside absent."""
        return json.loads(self.text)


class NotJson(ValueError):
    """A value that JSON cannot say: a set, bytes, NaN, half of a surrogate pair, a circle."""


def to_raw(value: Any) -> Raw:
    """The value's text, taken at once: what becomes of the value later changes nothing."""
    if isinstance(value, Raw):
        return value
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"a {type(value).__name__} that JSON cannot say: {error}") from error
    return Raw(text)


def present(**members: Any) -> dict[str, Any]:
    """A record of the contract without what may be left out: None, False, and what is empty; 0 stays."""
    return {name: value for name, value in members.items() if value or type(value) is int}

"""Lines that the host attaches to the pass; in native tests they go to stderr."""

import sys
from collections.abc import Callable


def _to_stderr(level: str, message: str) -> None:
    print(level, message, file=sys.stderr)


#: Takes level and message; the component's door puts the host here, tests their own.
sink: Callable[[str, str], None] = _to_stderr


def debug(message: str) -> None:
    """For the plugin's author."""
    sink("debug", message)


def info(message: str) -> None:
    """What happened."""
    sink("info", message)


def warn(message: str) -> None:
    """What looks wrong."""
    sink("warn", message)


def error(message: str) -> None:
    """What went wrong."""
    sink("error", message)

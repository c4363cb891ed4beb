"""Time zones.

A component has no files, so it cannot look up a zone when it runs: all of them are read when this module is imported, which
in a component is while it is built, and kept as they are, 0.4 MB. They come from the package tzdata, so that the plugin knows
the same zones on every machine.
"""

import sys
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo


class UnknownZone(ValueError):
    """A name that is no time zone's."""


def _read() -> dict[str, bytes]:
    try:
        import tzdata
    except ModuleNotFoundError:
        if sys.platform == "wasi":
            raise
        return {}
    folder = Path(tzdata.__file__).parent
    names = (folder / "zones").read_text().split()
    return {name: (folder / "zoneinfo" / name).read_bytes() for name in names}


_ZONES = _read()


def zone(name: str) -> ZoneInfo:
    """The time zone of that name, such as `Europe/Berlin`."""
    try:
        # In a test without tzdata the machine's own zones do.
        return ZoneInfo.from_file(BytesIO(_ZONES[name]), name) if _ZONES else ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise UnknownZone(f"{name!r} is no time zone, such as Europe/Berlin") from error

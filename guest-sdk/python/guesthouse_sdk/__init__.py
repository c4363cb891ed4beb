"""Write a Guesthouse plugin in Python.

A plugin is a pure function: it sees an object and answers with the status and the effects it wants.

    from guesthouse_sdk import Decision, Kind, Observation, Plugin

    plugin = Plugin("greeter", "1.0.0", serves=[Kind("example.com/v1", "Greeting")])

    @plugin.reconcile
    def reconcile(seen: Observation) -> Decision:
        return Decision().status({"text": "hello, " + seen.spec["who"]})

`python -m guesthouse_sdk build greeter -o greeter.wasm` makes the component; `guesthouse_sdk.testing` tests it without one.
Nothing is parsed before it is asked for, and JSON text that no code looks at stays as it came.
"""

from . import log
from .decision import Decision, Failure, Retry, Stall
from .effects import Apply, Delete, Generated, Http, Kind, Need, Ref
from .fingerprint import fingerprint
from .observation import (
    Cause,
    Child,
    FailedSend,
    Lost,
    Objects,
    Observation,
    Response,
    Unavailable,
)
from .plugin import VERSION as __version__
from .plugin import Plugin
from .raw import Raw

__all__ = [
    "Apply",
    "Cause",
    "Child",
    "Decision",
    "Delete",
    "FailedSend",
    "Failure",
    "Generated",
    "Http",
    "Kind",
    "Lost",
    "Need",
    "Objects",
    "Observation",
    "Plugin",
    "Raw",
    "Ref",
    "Response",
    "Retry",
    "Stall",
    "Unavailable",
    "__version__",
    "fingerprint",
    "log",
]

"""A plugin in a language that starts slowly, which does what `.spec.do` says: for the sandbox' tests of limits."""

import sys
import time

from guesthouse_sdk import Decision, Observation, Plugin, log

plugin = Plugin("hostile", "1.0.0")


@plugin.reconcile
def reconcile(seen: Observation[dict, dict]) -> Decision:
    spec = seen.spec
    n = spec.get("n", 0)
    match spec["do"]:
        case "nothing":
            return Decision()
        case "raise":
            raise RuntimeError(spec["text"])
        case "loop":
            while True:
                pass
        case "sleep":
            before = time.monotonic()
            time.sleep(3600)
            return Decision().status({"slept": int(time.monotonic() - before)})
        case "eat":
            return Decision().status({"ate": len([bytearray(b"x" * (1 << 20)) for _ in range(n)])})
        case "recurse":
            sys.setrecursionlimit(1_000_000_000)
            return recurse(1)
        case "print":
            for _ in range(n):
                print("a line of some length", file=sys.stderr)
            return Decision()
        case "log":
            for _ in range(n):
                log.info("a line of some length")
            return Decision()
        case "status":
            return Decision().status({"text": "x" * n})
        case "events":
            decision = Decision()
            for number in range(n):
                decision.event("Told", f"event {number}")
            return decision
    raise ValueError("there is nothing to do called " + spec["do"])


def recurse(depth: int) -> Decision:
    return recurse(depth + 1) if depth > 0 else Decision()

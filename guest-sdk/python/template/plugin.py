"""`{{group}}/v1 {{kind}}`: greets whom its spec names."""

from typing import TypedDict

from guesthouse_sdk import Decision, Kind, Observation, Plugin

plugin = Plugin("{{name}}", "0.1.0", serves=[Kind("{{group}}/v1", "{{kind}}")])


class Spec(TypedDict):
    who: str


class Status(TypedDict, total=False):
    text: str


@plugin.reconcile
def reconcile(seen: Observation[Spec, Status]) -> Decision:
    status: Status = {"text": f"hello, {seen.spec['who']}"}
    return Decision().status(status)

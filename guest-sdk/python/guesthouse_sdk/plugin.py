"""The plugin: what it says of itself, and its functions."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from . import log
from .decision import Decision, Failure, Retry, Stall
from .effects import Kind, Need
from .observation import Observation
from .raw import NotJson, present, to_raw

VERSION = "0.1.0"

Handler = TypeVar("Handler", bound=Callable[[Observation[Any, Any]], Decision | Failure])


class Plugin:
    """A plugin; a module has one, called `plugin`."""

    def __init__(
        self,
        name: str,
        version: str,
        *,
        serves: Sequence[Kind] = (),
        needs: Sequence[Need] = (),
        grants: Any = None,
        config_schema: Any = None,
        extensions: Sequence[str] = (),
    ) -> None:
        """`serves`: the kinds it can be mapped to, none is any. `needs`: what every pass reads. `grants`: what it will ask
        for, in the form of a mapping's. `config_schema`: JSON Schema of the mapping's config. `extensions`: parts of later
        contracts that it cannot do without."""
        self._descriptor = present(
            name=name,
            version=version,
            sdk=f"python/{VERSION}",
            kinds=[present(kind=kind.record(), crd=kind.crd and to_raw(kind.crd)) for kind in serves],
            needs=[need.record() for need in needs],
            configSchema=config_schema and to_raw(config_schema),
            grants=to_raw(grants or {}),
            extensions=list(extensions),
        )
        self._handlers: dict[str, Callable[[Observation[Any, Any]], Decision | Failure]] = {}

    def reconcile(self, handler: Handler) -> Handler:
        """Decorates the function for an object that is there and wanted."""
        self._handlers["reconcile"] = handler
        return handler

    def finalize(self, handler: Handler) -> Handler:
        """Decorates the function for an object that is being deleted; deletion then waits for its `finalized()`."""
        self._handlers["finalize"] = handler
        return handler

    def describe(self) -> dict[str, Any]:
        """The descriptor, as the command door writes it."""
        return self._descriptor | present(finalizes="finalize" in self._handlers)

    def answer(self, verb: str, seen: Observation[Any, Any]) -> dict[str, Any]:
        """One call: `{"decision": …}` or `{"failure": …}` in the contract's JSON form. It raises nothing."""
        try:
            answer = self._handlers[verb](seen)
            if not isinstance(answer, Decision | Failure):
                answer = Stall("BadDecision", f"{verb} answered with a {type(answer).__name__}, not with a Decision")
        except Failure as failure:
            answer = failure
        except NotJson as error:
            answer = Stall("BadDecision", str(error))
        except Exception as error:
            answer = Retry("Error", f"{type(error).__name__}: {error}")
            for line in _way_to(error):
                log.error(line)
        return {"decision" if isinstance(answer, Decision) else "failure": answer.raw}


def _way_to(error: Exception) -> Iterator[str]:
    """The error and the calls that led to it, the plugin's outermost first. (The module traceback would read sources, and a
    component has none, and would be half a megabyte of it.)"""
    yield f"{type(error).__name__}: {error}"
    step = error.__traceback__ and error.__traceback__.tb_next
    while step:
        code = step.tb_frame.f_code
        yield f"  {code.co_filename}:{step.tb_lineno} in {code.co_qualname}"
        step = step.tb_next

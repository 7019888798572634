"""Where events go (30 section 5)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Protocol, cast

from svir_client.tracing.record import TraceEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Sink(Protocol):
    """Any object with these. One serves every ``Trace`` that has it, on any thread.

    ``content`` is the sink's own switch: without it ``event.content`` is always ``None``.
    """

    @property
    def content(self) -> bool:
        """Whether it is given what was said."""
        ...

    def write(self, event: TraceEvent) -> None:
        """Take one event. It must not wait: it runs in the event loop of the call. What it raises is counted,
        but for ``KeyboardInterrupt`` and ``SystemExit``, which pass."""
        ...


class Sinks:
    """Several sinks, none of which can harm the call or the others.

    Attributes:
        content: whether one of them takes what was said.
        failures: how many events a sink has failed to take, and how often a clock has failed.
    """

    __slots__ = ("_sinks", "_told", "content", "failures")

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = tuple(sinks)
        self._told: set[int] = set()
        self.content = any(sink.content for sink in sinks)
        self.failures = 0

    @property
    def names(self) -> list[str]:
        """The classes of the sinks."""
        return [type(sink).__name__ for sink in self._sinks]

    def write(self, event: TraceEvent, bare: TraceEvent) -> None:
        """``event`` to those who take content, ``bare`` to the others. A sink's first failure is logged."""
        for number, sink in enumerate(self._sinks):
            try:
                sink.write(event if sink.content else bare)
            except BaseException as error:
                if _ends_the_process(error):
                    raise
                self._failed(number, sink, type(error).__name__)

    def read(self, clock: Callable[[], float], otherwise: float) -> float:
        """What ``clock`` says, or ``otherwise`` when it fails, which is counted and logged as a sink's failure is."""
        try:
            return float(clock())
        except BaseException as error:
            if _ends_the_process(error):
                raise
            self._count(-1, f"a clock of a Trace failed: {type(error).__name__}; from now on that is only counted")
        return otherwise

    def _failed(self, number: int, sink: Sink, error: str) -> None:
        name = type(sink).__name__
        self._count(number, f"the trace sink {name} failed: {error}; from now on its failures are only counted")

    def _count(self, number: int, words: str) -> None:
        with _COUNTING:
            self.failures += 1
            first = number not in self._told
            self._told.add(number)
        if first:
            tell(words)


def _ends_the_process(error: BaseException) -> bool:
    """Whether it is for the whole process. A cancellation is not even the call's: nothing here waits for anything."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return any(_ends_the_process(inner) for inner in group.exceptions)
    return isinstance(error, KeyboardInterrupt | SystemExit)


_COUNTING = threading.RLock()  # a dropped call may report from within a garbage collection, on a thread that has it


def tell(words: str) -> None:
    """Log ``words``, ours alone, as a warning of the logger ``svir.tracing``."""
    logging.getLogger("svir.tracing").warning("%s", words)

"""Where events go (30 section 5)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Protocol

from svir_client.tracing.record import TraceEvent

if TYPE_CHECKING:
    from collections.abc import Sequence


class Sink(Protocol):
    """Any object with these. One serves every ``Trace`` that has it, on any thread.

    ``content`` is the sink's own switch: without it ``event.content`` is always ``None``.
    """

    @property
    def content(self) -> bool:
        """Whether it is given what was said."""
        ...

    def write(self, event: TraceEvent) -> None:
        """Take one event. It must not wait: it runs in the event loop of the call. What it raises is counted."""
        ...


class Sinks:
    """Several sinks, none of which can harm the call or the others.

    Attributes:
        content: whether one of them takes what was said.
        failures: how many events a sink has failed to take.
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
            except Exception as error:  # noqa: BLE001 - whatever a sink of anyone's does is not the call's
                self._failed(number, sink, type(error).__name__)

    def _failed(self, number: int, sink: Sink, error: str) -> None:
        with _COUNTING:
            self.failures += 1
            first = number not in self._told
            self._told.add(number)
        if first:
            tell(f"the trace sink {type(sink).__name__} failed: {error}; from now on its failures are only counted")


_COUNTING = threading.RLock()  # a dropped call may report from within a garbage collection, on a thread that has it


def tell(words: str) -> None:
    """Log ``words``, ours alone, as a warning of the logger ``svir.tracing``."""
    logging.getLogger("svir.tracing").warning("%s", words)

"""Events for a program that looks at them later, and for tests (30 section 5)."""

from __future__ import annotations

from collections import deque
from typing import Final

from svir_client.tracing.record import TraceEvent
from svir_core.check import count, expect

KEPT_EVENTS: Final = 1000
"""By default: some hundred kilobytes without content."""


class MemorySink:
    """The latest events. A deque's own operations are whole on any thread."""

    def __init__(self, limit: int, content: bool) -> None:
        self._events = deque[TraceEvent](maxlen=limit)
        self.content = content

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """The events that are kept, the oldest first."""
        return tuple(self._events.copy())

    def clear(self) -> None:
        """Forget them."""
        self._events.clear()

    def write(self, event: TraceEvent) -> None:
        """Keep it; the oldest goes when there are too many."""
        self._events.append(event)


def memory(limit: int = KEPT_EVENTS, *, content: bool = False) -> MemorySink:
    """A sink that keeps the latest ``limit`` events: ``.events``, ``.clear()``. ``ConfigError`` for a limit below 1."""
    return MemorySink(count(limit, 1, "memory: limit"), expect(content, bool, "content"))

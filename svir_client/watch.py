"""Who watches a stream: called for each event as it is read, and once when the stream is closed (30 section 3)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.event import Event

F = TypeVar("F")
S = TypeVar("S")

Inspector = Callable[[Event], object]


class Watch(Generic[S]):
    """The inspectors of one stream, and the callbacks for its end."""

    __slots__ = ("_closers", "_inspectors")

    def __init__(self) -> None:
        self._inspectors: list[Inspector] = []
        self._closers: list[Callable[[S], object]] = []

    def inspect(self, callback: Inspector, waiting: Iterable[Event]) -> None:
        """Add an inspector, and tell it what was read and waits to be handed over."""
        self._inspectors.append(expect_callable(callback, "callback"))
        for event in waiting:
            callback(event)

    def on_close(self, callback: Callable[[S], object]) -> None:
        """Add a callback."""
        self._closers.append(expect_callable(callback, "callback"))

    def add(self, other: Watch[S], waiting: Iterable[Event]) -> None:
        """Take over those of another stream, to whom ``waiting`` is new."""
        self._closers += other._closers
        self._inspectors += other._inspectors
        for event in waiting:
            other.tell((event,))

    def tell(self, events: Iterable[Event]) -> None:
        """Hand what was read to the inspectors; what one raises is raised at once."""
        if self._inspectors:
            for event in events:
                for callback in self._inspectors:
                    callback(event)

    def closed(self, stream: S) -> None:
        """Run the callbacks, in order and each once; what one raises is raised after the last."""
        with contextlib.ExitStack() as stack:
            while self._closers:
                stack.callback(self._closers.pop(), stream)


def expect_callable(value: F, where: str) -> F:
    """``value``, which must be callable; ``ConfigError`` when it is not."""
    if not callable(value):
        raise ConfigError(f"{where} must be callable, not {an(type(value))}")
    return value

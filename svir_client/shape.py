"""What is asked of a stream beyond its events: the clocks that bound its reads, and who watches it (30 section 3).

Three rules hold for all of it. A clock is looked at in each read, so no cancel scope outlives the read that it
bounds, and what was read in time is handed over however late. Of several clocks the first to run out counts.
A stream that nobody shapes has no shape at all, and pays nothing.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from svir_client.watch import Watch, expect_callable
from svir_core.errors import ConfigError, ResponseTimeoutError
from svir_core.event import Event
from svir_core.wire.api import Clock

if TYPE_CHECKING:
    from svir_client.stream import Stream  # noqa: F401 - in quotes below: stream.py imports this

FIRST_TOKEN: Final = "nothing of the answer came in time"
TOTAL: Final = "the answer was not whole in time"
IDLE: Final = "nothing came from the server for {:g} s"
STALLED: Final = "the server sent no output for {:g} s"


class Timer(Protocol):
    """One clock of a stream. ``words`` say what it means that it ran out."""

    @property
    def words(self) -> str:
        """The ``detail`` of the error."""
        ...

    def left(self, output: int) -> float:
        """A read begins, ``output`` deltas have come so far: the seconds that it may take."""
        ...

    def waited(self) -> None:
        """The read is over."""
        ...


class Deadline:
    """A moment of ``clock``, up to which a read may take; with ``until_output`` only up to the first delta."""

    __slots__ = ("_at", "_clock", "_until_output", "words")

    def __init__(self, at: float, clock: Clock, words: str, *, until_output: bool) -> None:
        if isinstance(at, bool) or not isinstance(at, int | float) or math.isnan(at):
            raise ConfigError("a deadline must be a number: a moment of its clock, in seconds")
        self._at = at
        self._clock = expect_callable(clock, "clock")
        self._until_output = until_output
        self.words = words

    def left(self, output: int) -> float:
        """Until the moment; no end once it does not matter any more."""
        return math.inf if self._until_output and output else self._at - self._clock()

    def waited(self) -> None:
        """Nothing: the moment stays."""


class Idle:
    """Each read may take so many seconds."""

    __slots__ = ("_seconds", "words")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.words = IDLE.format(seconds)

    def left(self, output: int) -> float:
        """The same for each read."""
        return self._seconds

    def waited(self) -> None:
        """Nothing: the next read may take as long."""


class Stalled:
    """The reads between two deltas may take so many seconds together; what their reader does meanwhile is its own."""

    __slots__ = ("_began", "_clock", "_left", "_output", "_seconds", "words")

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = expect_callable(clock, "clock")
        self._left = seconds
        self._output = 0
        self._began = 0.0
        self.words = STALLED.format(seconds)

    def left(self, output: int) -> float:
        """What the reads since the last delta have left."""
        if output != self._output:
            self._output, self._left = output, self._seconds
        self._began = self._clock()
        return self._left

    def waited(self) -> None:
        """Count it."""
        self._left -= self._clock() - self._began


class Shape(Watch["Stream"]):
    """The clocks of one stream, and its watchers. Where there are no ``timers``, reads are not bounded."""

    __slots__ = ("timers",)

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[Timer] = []

    def take_over(self, other: Shape, waiting: Iterable[Event]) -> None:
        """What was asked of another stream is asked of this one; to its inspectors ``waiting`` is new."""
        self.timers += other.timers
        self.add(other, waiting)

    async def within(self, read: Callable[[], Awaitable[bytes | None]], output: int) -> bytes | None:
        """What ``read`` gives; ``ResponseTimeoutError`` when one of ``timers`` runs out before, or has already."""
        timers = self.timers
        limits = [timer.left(output) for timer in timers]
        seconds = min(limits)
        if seconds > 0:
            try:
                with anyio.move_on_after(seconds):
                    return await read()
            finally:
                for timer in timers:
                    timer.waited()
        raise ResponseTimeoutError(timers[limits.index(seconds)].words)

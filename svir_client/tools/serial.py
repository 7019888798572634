"""A lock over tasks, threads and event loops, for a tool that must not overlap itself (30 section 4).

Three rules hold for it. Who waits longest is next. A call made inside a turn takes its turn within that one, so that a
tool which calls itself does not wait for itself; two such calls do not overlap each other. A turn ends when
all that runs in it has ended: an abandoned thread too, and a call that outlives the one which made it.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

from svir_client.slot import Slots

_INSIDE: Final[ContextVar[Mapping[SerialLock, Turn]]] = ContextVar("svir_serial_turns", default=MappingProxyType({}))
"""The innermost turn of each lock in which this task runs; threads and tasks that it starts inherit it."""


class Turn:
    """A time in which its holder, and who joins it, have the lock; calls within take turns of their own."""

    def __init__(self, outer: Turn | None) -> None:
        self.outer = outer
        self.inner = Slots(1)
        self._users = 1
        self._lock = threading.Lock()

    def join(self) -> bool:
        """Keep the turn until :meth:`leave`; false when it is over."""
        with self._lock:
            if not self._users:
                return False
            self._users += 1
            return True

    def leave(self) -> None:
        """Give up what the holder or :meth:`join` has; the last one ends the turn. On any thread."""
        with self._lock:
            self._users -= 1
            over = not self._users
        if over and self.outer is not None:
            self.outer.inner.release()
            self.outer.leave()


class SerialLock:
    """Held by one call at a time, and by those that it makes."""

    def __init__(self) -> None:
        self._outermost = Turn(None)  # never left, so never over

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[Turn, None]:
        """Wait for a turn, and hold it inside the block."""
        outer = self._enclosing()
        try:
            await outer.inner.acquire()
        except BaseException:
            outer.leave()
            raise
        turn = Turn(outer)
        before = _INSIDE.set({**_INSIDE.get(), self: turn})
        try:
            yield turn
        finally:
            _INSIDE.reset(before)
            turn.leave()

    def _enclosing(self) -> Turn:
        """The innermost turn around this task that is not over, joined."""
        turn = _INSIDE.get().get(self, self._outermost)
        while not turn.join():
            turn = turn.outer or self._outermost
        return turn

"""A number of slots, given in the order they were asked for, to tasks of any event loop and thread.

Three rules hold for it. A task that is cancelled while it waits, or as it is given a slot, leaves none behind. A slot
that is given back goes to who waits longest, never to who asks just then. Giving back waits for nothing, so a garbage
collection may do it, on any thread, in the middle of whatever that thread does here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel


class Slots:
    """So many slots, all free."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Waiter] = deque()
        self._returned: deque[None] = deque()
        self._lock = threading.Lock()

    async def acquire(self) -> None:
        """Wait for a slot."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        waiter = Waiter()
        with self._lock:
            given = self._free > 0  # then nobody waits: what is given back goes to who does
            if given:
                self._free -= 1
            else:
                self._waiting.append(waiter)
        self._settle()
        if given:
            return
        try:
            await waiter.given.wait()
        except BaseException:
            with self._lock:
                waits = waiter in self._waiting
                if waits:
                    self._waiting.remove(waiter)
            self._settle()
            if not waits:
                self.release()
            raise

    def release(self) -> None:
        """Give a slot back, on any thread. Waits for nothing."""
        self._returned.append(None)
        self._settle()

    def _settle(self) -> None:
        """Hand on what was given back. Whoever has the lock just then does it after it has let go of it."""
        while self._returned and self._lock.acquire(blocking=False):
            try:
                waiter = self._next()
            finally:
                self._lock.release()
            if waiter is not None and not waiter.wake():
                self._returned.append(None)

    def _next(self) -> Waiter | None:
        """Who is given a slot that was given back; ``None`` when nobody waits for one, or none was."""
        try:
            self._returned.popleft()
        except IndexError:  # another thread was faster
            return None
        if self._waiting:
            return self._waiting.popleft()
        self._free += 1
        return None


class Waiter:
    """A task that waits for ``given``, in the event loop where it was made; any thread may wake it.

    Attributes:
        given: what it waits for is there.
    """

    def __init__(self) -> None:
        self.given = anyio.Event()
        loop: Any = anyio.lowlevel.current_token().native_token
        self._later: Callable[..., object] = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon

    def wake(self) -> bool:
        """Set ``given`` from any thread, soon; false when its event loop is over, and with it the task."""
        try:
            self._later(self.given.set)
        except RuntimeError:  # asyncio's; trio's RunFinishedError is one too
            return False
        return True

"""A number of slots, given in the order they were asked for, to tasks of any event loop and thread.

Two rules hold for it. A task that is cancelled while it waits, or as it is given a slot, leaves none behind. A slot
that is given back goes to who waits longest, never to who asks just then.
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
        self._lock = threading.Lock()

    async def acquire(self) -> None:
        """Wait for a slot."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        with self._lock:
            if self._free:  # then nobody waits: what is given back goes to who does
                self._free -= 1
                return
            waiter = Waiter()
            self._waiting.append(waiter)
        try:
            await waiter.given.wait()
        except BaseException:
            with self._lock:
                waits = waiter in self._waiting
                if waits:
                    self._waiting.remove(waiter)
            if not waits:
                self.release()
            raise

    def release(self) -> None:
        """Give a slot back, on any thread. Waits for nothing."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._free += 1
                    return
                waiter = self._waiting.popleft()
            if waiter.wake():
                return


class Waiter:
    """A task that waits for ``given``, in the event loop where it was made; any thread may wake it."""

    def __init__(self) -> None:
        self.given = anyio.Event()
        loop: Any = anyio.lowlevel.current_token().native_token
        self._later: Callable[..., object] = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon

    def wake(self) -> bool:
        """Give it the slot; false when its event loop is over, and with it the task."""
        try:
            self._later(self.given.set)
        except RuntimeError:  # asyncio's; trio's RunFinishedError is one too
            return False
        return True

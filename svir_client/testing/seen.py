"""What a server has seen, in order: the latest ones, and how many in all."""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import Generic, TypeVar

import anyio

from svir_core import check

T = TypeVar("T")


def _bound(remember: int) -> int:
    return min(check.count(remember, 0, "remember"), sys.maxsize)  # more than a deque can count is no bound


class Seen(Generic[T]):
    """The latest ``remember`` items, all of them for ``None``; the count is of all. ``ConfigError`` for no number.

    Any thread may ask for them, only that of the event loop adds and waits.
    """

    def __init__(self, remember: int | None) -> None:
        self._latest: deque[T] = deque(maxlen=None if remember is None else _bound(remember))
        self._lock = threading.Lock()
        self._changed = anyio.Event()
        self.count = 0

    def add(self, item: T) -> None:
        """One more."""
        with self._lock:
            self._latest.append(item)
            self.count += 1
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    @property
    def latest(self) -> tuple[T, ...]:
        """What is remembered, the oldest first."""
        with self._lock:
            return tuple(self._latest)

    async def wait(self, count: int) -> tuple[T, ...]:
        """Wait until ``count`` have been seen; returns what is remembered."""
        while self.count < count:
            await self._changed.wait()
        return self.latest

"""What is read on the loop thread, for ``with`` and ``for``.

It is read inside its block, by one thread at a time; any thread may close it. What it says of itself is what its
reader has come to, not what was read ahead.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from svir_client.sync.feed import Feed
from svir_client.sync.loop_thread import loop_thread, refuse_event_loop
from svir_client.unique import Unique
from svir_core.check import an
from svir_core.errors import ConfigError, SvirError

if TYPE_CHECKING:
    from typing import Self

R = TypeVar("R", bound=AbstractAsyncContextManager[Any])
Item = TypeVar("Item")

NOTHING: Final[Iterator[Any]] = iter(())
"""A batch that has been handed over; it ends at once however often it is asked, so that one does for all."""


class SyncReader(Unique, ABC, Generic[R, Item]):
    """What everything that is read has: the block it lives in, and the items of each read in turn."""

    __slots__ = ("_batch", "_closed", "_feed", "_response", "_turn")

    def __init__(self, response: R) -> None:
        self._response = response
        self._feed: Feed[R, Item] | None = None
        self._closed = False
        self._batch: Iterator[Item] = NOTHING
        self._turn = threading.Lock()

    @staticmethod
    @abstractmethod
    async def _read_once(response: R) -> list[Item]:
        """On the loop thread: the items of the next read, none at the end."""

    def __enter__(self) -> Self:
        refuse_event_loop()
        self._once()
        feed = None
        try:
            with self._claimed():
                self._once()
                feed = self._feed = Feed(loop_thread(), self._response, self._read_once)
            if not feed.open() and not self._closed:
                feed.result()
            if self._closed:
                raise ConfigError(f"the {type(self).__name__} was closed while it was being opened")
            return self
        except BaseException as error:
            if feed is not None or not isinstance(error, SvirError):  # else another thread is entering it
                self._abandon()
                self._over()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._feed is not None and self._is_whole():
                self._feed.join()
        finally:
            self.close()

    def __del__(self) -> None:
        if hasattr(self, "_turn"):  # else making it was interrupted
            self._abandon()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        try:
            for item in self._batch:
                return item
            self._read()
            for item in self._batch:
                return item
        except SvirError:
            raise
        except BaseException:  # a signal handler's: what was taken may be lost, so nothing is to come after it
            self._closed, self._batch = True, NOTHING
            self._abandon()
            raise
        raise StopIteration

    def close(self) -> None:
        """Close the connection now; a thread that is reading gets a ``ConfigError``. Idempotent.

        Returns when it is closed; on a thread that runs an event loop, at once.
        """
        self._abandon()
        try:
            if self._feed is not None:
                self._feed.join()
        finally:
            self._over()

    def _abandon(self) -> None:
        """Close the connection, and wait for nothing."""
        self._closed = True
        self._batch = NOTHING
        if self._feed is not None:
            self._feed.cancel()

    def _once(self) -> None:
        """Raises ``ConfigError`` unless it is new."""
        if self._feed is not None or self._closed:
            raise ConfigError(f"{an(type(self))} is entered once: ask the client for another")

    def _read(self) -> None:
        """Wait for the items of the next read: the batch is empty at the end. Raises what the end was."""
        refuse_event_loop()
        self._open_feed()  # asked before the turn, which one who was interrupted may never have given back
        try:
            self._take_turn()
        except SvirError:
            raise
        except BaseException:
            self._abandon()
            raise

    def _take_turn(self) -> None:
        with self._claimed():
            feed = self._open_feed()
            try:
                items = feed.take()
                self._open_feed()
                if items:
                    self._came(items)
            except BaseException:  # also a callback's own `SvirError`: as for a cancelled read, there is no other one
                self._abandon()
                raise
            if not items:
                self._ended(feed)
            self._batch = iter(items)
            if self._closed:  # asked last: another thread may have closed it since, and emptied the batch before this
                self._batch = NOTHING
                self._open_feed()

    def _over(self) -> None:
        """It is closed, by the thread that this is."""

    def _is_whole(self) -> bool:
        """Whether the reader has come to the end of the answer, so that the connection may be kept."""
        return False

    def _came(self, items: list[Item]) -> None:
        """The reader has come to these."""

    def _ended(self, feed: Feed[R, Item]) -> None:
        """The reader has come to the end; raises what it was."""
        feed.result()

    def _open_feed(self) -> Feed[R, Item]:
        if self._feed is None or self._closed:
            when = "after it was closed" if self._closed else "before it was entered with a with statement"
            raise ConfigError(f"{an(type(self))} was read {when}")
        return self._feed

    def _claimed(self) -> _Turn:
        return _Turn(self._turn, type(self).__name__)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "new" if self._feed is None else "open"
        return f"<{type(self).__name__} {state}>"


class _Turn:
    """One thread at a time; a second one does not wait, it is told."""

    __slots__ = ("_lock", "_name")

    def __init__(self, lock: threading.Lock, name: str) -> None:
        self._lock = lock
        self._name = name

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ConfigError(f"two threads read one {self._name} at the same time")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()

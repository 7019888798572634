"""What is read on the loop thread, an open response or a generation, ahead of a consumer on another one.

Three rules hold for it. What came in one read crosses the border between the threads in one step. No
more than ``READS_AHEAD`` reads wait to be taken: then the server is read no further. Nothing here knows
the consumer's object, so that one which was dropped is collected, and its finalizer stops the server.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

import anyio

from svir_client.sync.loop_thread import Job, LoopThread

R = TypeVar("R", bound=AbstractAsyncContextManager[Any])
Item = TypeVar("Item")

READS_AHEAD: Final = 4
"""Reads that may wait, of up to 64 KiB each: enough that neither side waits for the other's thread to be woken."""

FEW: Final = READS_AHEAD // 2
"""When so few are left, reading goes on: waking the loop costs more than one read is worth."""


class Feed(Generic[R, Item]):
    """One task that opens ``response``, reads it into a bounded queue, and closes it.

    ``read`` gives the items of the next read, none at the end of the response.
    """

    __slots__ = ("_job", "_parked", "_queue", "_read", "_response", "_thread")

    def __init__(self, thread: LoopThread, response: R, read: Callable[[R], Coroutine[Any, Any, list[Item]]]) -> None:
        self._thread = thread
        self._response = response
        self._read = read
        self._queue: SimpleQueue[list[Item] | None] = SimpleQueue()  # None: the task has ended
        self._parked: anyio.Event | None = None
        self._job = Job(thread, self._run, self._end)

    def open(self) -> bool:
        """Send the request and wait until the response has begun; false when the task ended before."""
        self._job.start()
        return self._queue.get() is not None

    def take(self) -> list[Item]:
        """Wait for the items of the next read; none when the task has ended. By one thread at a time."""
        self._job.check_process()
        items = self._queue.get()
        if items is None:
            self._queue.put(None)  # for whoever asks again
            return []
        if self._parked is not None and self._queue.qsize() <= FEW:
            self._thread.loop.call_soon_threadsafe(self._unpark)
        return items

    def result(self) -> None:
        """Wait until the task has ended, and raise what it raised."""
        self._job.result()

    def cancel(self) -> None:
        """Close the response now, and wait for nothing; finalizers call it."""
        self._job.cancel()

    def join(self) -> None:
        """Wait until the task has ended."""
        self._job.join()

    async def _run(self) -> None:
        async with self._response as response:
            self._queue.put([])
            while items := await self._read(response):
                self._queue.put(items)
                await self._room()

    async def _room(self) -> None:
        """Wait until the consumer has taken some of what waits."""
        if self._queue.qsize() < READS_AHEAD:
            return
        self._parked = anyio.Event()
        if self._queue.qsize() > FEW:  # asked again: the consumer may have looked before it could see the event
            await self._parked.wait()
        self._parked = None

    def _unpark(self) -> None:
        if self._parked is not None:
            self._parked.set()

    def _end(self) -> None:
        self._queue.put(None)

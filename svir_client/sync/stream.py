"""The open responses of the blocking client: what :mod:`svir_client.stream` and :mod:`svir_client.raw` give, for
``with`` and ``for``.

They are read inside their block, by one thread at a time; any thread may close them. What they say of
themselves is what their reader has come to, not what was read ahead.
"""

from __future__ import annotations

import copy
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from svir_client.open_response import OpenResponse
from svir_client.rate_limit import RateLimit
from svir_client.raw import RawStream
from svir_client.stream import Stream
from svir_client.sync.feed import Feed
from svir_client.sync.loop_thread import loop_thread, refuse_event_loop
from svir_client.sync.partial import SyncPartialStream
from svir_client.unique import Unique
from svir_client.watch import Inspector, Watch
from svir_core.errors import ConfigError, SvirError
from svir_core.event import Completed, Event, TextDelta
from svir_core.http_message import ResponseHead
from svir_core.response import Completion
from svir_core.wire.api import Clock

if TYPE_CHECKING:
    from typing import Self

R = TypeVar("R", bound=OpenResponse)
Item = TypeVar("Item")
T = TypeVar("T")

NOTHING: Final[Iterator[Any]] = iter(())
"""A batch that has been handed over; it ends at once however often it is asked, so that one does for all."""


class SyncOpenResponse(Unique, ABC, Generic[R, Item]):
    """What every open response has: the block it lives in, its head, and the items of each read in turn."""

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

    @property
    def head(self) -> ResponseHead:
        """Status and headers of the latest response; ``ConfigError`` before there is one."""
        return self._response.head

    @property
    def status(self) -> int:
        """The HTTP status of the latest response; ``ConfigError`` before there is one."""
        return self._response.status

    @property
    def request_id(self) -> str | None:
        """What the server calls this request; ``None`` when it does not say."""
        return self._response.request_id

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the headers say of rate limits; ``None`` when nothing."""
        return self._response.rate_limit

    def _abandon(self) -> None:
        """Close the connection, and wait for nothing."""
        self._closed = True
        self._batch = NOTHING
        if self._feed is not None:
            self._feed.cancel()

    def _once(self) -> None:
        """Raises ``ConfigError`` unless it is new."""
        if self._feed is not None or self._closed:
            raise ConfigError(f"a {type(self).__name__} is entered once: ask the client for another")

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
            raise ConfigError(f"a {type(self).__name__} was read {when}")
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


class SyncStream(SyncOpenResponse[Stream, Event]):
    """The events of one answer: ``with client.stream(request) as stream: for event in stream``.

    The blocking twin of :class:`svir_client.Stream`, with its rules. A few reads are taken ahead of the
    loop that iterates; a loop that is slower than the server holds the server back. Clocks look at those
    reads; callbacks run on the thread that iterates, or closes, and may wait.
    """

    __slots__ = ("_completion", "_error", "_watch")

    def __init__(self, response: Stream) -> None:
        super().__init__(response)
        self._watch = Watch[SyncStream]()
        self._completion: Completion | None = None
        self._error: SvirError | None = None

    @staticmethod
    async def _read_once(response: Stream) -> list[Event]:
        return await response._next_read()

    def text(self) -> SyncTextStream:
        """The visible text alone, piece by piece; the rest of the events are read and passed over."""
        return SyncTextStream(self)

    def partial(self, into: type[T]) -> SyncPartialStream[T]:
        """The answer as a ``T`` that is being written: :meth:`svir_client.Stream.partial`."""
        return SyncPartialStream(self, into)

    def peek(self) -> Event | None:
        """The event that comes next, and still does after this; ``None`` after the last.

        Raises what iterating would.
        """
        for event in copy.copy(self._batch):
            return event
        self._read()
        return next(copy.copy(self._batch), None)

    def first_token_by(self, deadline: float, *, clock: Clock = time.monotonic) -> None:
        """Give up when nothing of the answer has come by ``deadline``: :meth:`svir_client.Stream.first_token_by`."""
        self._response.first_token_by(deadline, clock=clock)

    def complete_by(self, deadline: float, *, clock: Clock = time.monotonic) -> None:
        """Give up when the answer is not whole by ``deadline``: :meth:`svir_client.Stream.complete_by`."""
        self._response.complete_by(deadline, clock=clock)

    def idle_timeout(self, seconds: float) -> None:
        """Give up when one read takes longer than ``seconds``: :meth:`svir_client.Stream.idle_timeout`."""
        self._response.idle_timeout(seconds)

    def stalled_after(self, seconds: float, *, clock: Clock = time.monotonic) -> None:
        """Give up after ``seconds`` of waiting without output: :meth:`svir_client.Stream.stalled_after`."""
        self._response.stalled_after(seconds, clock=clock)

    def inspect(self, callback: Inspector) -> None:
        """Call ``callback(event)`` for every event before it is handed over, in order, by the thread that iterates;
        at once for those that wait to be handed over. What it raises ends the stream."""
        self._watch.inspect(callback, copy.copy(self._batch))

    def on_close(self, callback: Callable[[SyncStream], object]) -> None:
        """Call ``callback(stream)`` once, when the stream is closed, by the thread that closes it; at once when it is
        already. A stream that is dropped calls nobody."""
        self._watch.on_close(callback)
        if self._closed:
            self._over()

    @property
    def completion(self) -> Completion:
        """The whole answer; raises the stream's error, or ``ConfigError`` when it was not read to its end."""
        if self._completion is not None:
            return self._completion
        raise self._error or ConfigError("the stream was not read to its end, so there is no completion")

    @property
    def error(self) -> SvirError | None:
        """The error that iterating raised, if it did."""
        return self._error

    def _next_read(self) -> list[Event]:
        """The events of the next read, or those that are left of the last; ``Completed`` by itself, none at the end."""
        for event in self:
            return [event, *self._batch]
        return []

    def _is_whole(self) -> bool:
        return self._completion is not None

    def _over(self) -> None:
        self._watch.closed(self)

    def _came(self, items: list[Event]) -> None:
        self._watch.tell(items)
        if isinstance(last := items[-1], Completed):  # it comes by itself: nothing before it is still to be given
            self._completion = last.completion

    def _ended(self, feed: Feed[Stream, Event]) -> None:
        try:
            feed.result()
        except SvirError as error:
            self._error = error
            raise


class SyncTextStream(Unique):
    """The text of a :class:`SyncStream`. It may be begun at any event, and the stream read on after it."""

    __slots__ = ("_stream",)

    def __init__(self, stream: SyncStream) -> None:
        self._stream = stream

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        try:
            for event in self._stream:
                if isinstance(event, TextDelta) and event.text:
                    return event.text
        except SvirError:
            raise
        except BaseException:  # as in the stream's own: an event may have been taken
            self._stream._abandon()
            raise
        raise StopIteration


class SyncRawStream(SyncOpenResponse[RawStream, bytes]):
    """The bytes of a successful response, as they came: ``with client.send(request) as raw: for data in raw``.

    The blocking twin of :class:`svir_client.RawStream`, with its rules. A few reads are taken ahead of
    the loop that iterates; a loop that is slower than the server holds the server back.
    """

    __slots__ = ()

    @staticmethod
    async def _read_once(response: RawStream) -> list[bytes]:
        async for data in response:
            return [data]
        return []

"""The open responses of the blocking client: what :mod:`svir_client.stream` and :mod:`svir_client.raw` give, for
``with`` and ``for``."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from svir_client.open_response import OpenResponse
from svir_client.rate_limit import RateLimit
from svir_client.raw import RawStream
from svir_client.stream import Stream
from svir_client.sync.feed import Feed
from svir_client.sync.partial import SyncPartialStream
from svir_client.sync.reader import SyncReader
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


class SyncOpenResponse(SyncReader[R, Item]):
    """What every open response has beside: its head."""

    __slots__ = ()

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

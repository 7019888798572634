"""The events of one answer, and its text alone (30 section 2)."""

from __future__ import annotations

import copy
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from svir_client.driver import Driver
from svir_client.iteration import no_end
from svir_client.open_response import OpenResponse
from svir_client.partial import PartialStream
from svir_client.shape import FIRST_TOKEN, TOTAL, Deadline, Idle, Shape, Stalled
from svir_client.unique import Unique
from svir_client.watch import Inspector
from svir_core.check import seconds as positive
from svir_core.errors import ConfigError, SvirError, TransportError
from svir_core.event import Completed, Event, Events, TextDelta
from svir_core.exchange import Exchange
from svir_core.redact import Redactor
from svir_core.response import Completion
from svir_core.wire.api import Clock

if TYPE_CHECKING:
    from typing import Self

    Attempt = Callable[[Driver[Exchange]], "Stream"]

T = TypeVar("T")


class Stream(OpenResponse):
    """The events of one answer: ``async with client.stream(request) as stream: async for event in stream``.

    Entering sends the request and raises what a refused one means. Iterating gives every event that
    arrived and then, when the stream went wrong, raises its error, with ``.partial``; iterating on
    raises the same error again. After ``Completed`` the iteration is over. Events that came in one
    read are handed over without another pass through the event loop.
    """

    __slots__ = ("_buffer", "_completion", "_ending", "_error", "_heir", "_opening", "_shape", "_tries")

    def __init__(self, driver: Driver[Exchange], opening: Callable[[Attempt], Awaitable[Stream]] | None = None) -> None:
        """``opening`` runs the layers, when there are any: it gives the opened stream that this one becomes."""
        super().__init__(driver)
        self._buffer: Iterator[Event] = iter(())
        self._ending: Completed | SvirError | None = None
        self._completion: Completion | None = None
        self._error: SvirError | None = None
        self._opening = opening
        self._shape: Shape | None = None
        self._heir: Stream | None = None
        self._tries: list[Driver[Exchange]] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while True:
            for event in self._buffer:
                return event
            if self._ending is not None:
                return await self._end(self._ending)
            try:
                await self._read()
            except StopAsyncIteration as error:  # of an inspector, or a clock
                raise no_end(error) from error

    def text(self) -> TextStream:
        """The visible text alone, piece by piece; the rest of the events are read and passed over."""
        return TextStream(self)

    def partial(self, into: type[T]) -> PartialStream[T]:
        """The answer as a ``T`` that is being written, from a stream whose text was not read yet.

        The request asks for it: ``request.replace(response_format=Schema.of(T))``. Raises ``ConfigError`` for a type
        that JSON cannot be read into; for what iterating raises see :class:`PartialStream`.
        """
        return PartialStream(self, into)

    async def peek(self) -> Event | None:
        """The event that comes next, and still does after this; ``None`` after the last. Raises what iterating would.

        As for every read: cancelled while it waits, it ends the stream.
        """
        while True:
            for event in copy.copy(self._buffer):
                return event
            if self._ending is None:
                await self._read()
            elif isinstance(self._ending, Completed):
                self._check_open()
                return self._ending if self._completion is None else None
            else:
                return await self._end(self._ending)

    # --- shaping: from when it is made, by its reader and by layers ------------------------------------

    def first_token_by(self, deadline: float, *, clock: Clock = time.monotonic) -> None:
        """Give up when nothing of the answer, a piece of a call included, has come by ``deadline``, a moment of
        ``clock`` in seconds.

        A read that it ends raises ``ResponseTimeoutError``, also a ``TimeoutError``, with what came on ``.partial``,
        and so it is for the other clocks. Entering the block is not bounded by them: that is a layer's (30 section
        3). ``ConfigError`` for what is no number, and no clock.
        """
        self._shaped().timers.append(Deadline(deadline, clock, FIRST_TOKEN, until_output=True))

    def complete_by(self, deadline: float, *, clock: Clock = time.monotonic) -> None:
        """Give up when the answer is not whole by ``deadline``, as for :meth:`first_token_by`."""
        self._shaped().timers.append(Deadline(deadline, clock, TOTAL, until_output=False))

    def idle_timeout(self, seconds: float) -> None:
        """Give up when one read takes longer than ``seconds``: no byte came.

        Over the client's ``idle_timeout`` only what is shorter has an effect. ``ConfigError`` for what is no positive
        number, here and for :meth:`stalled_after`.
        """
        self._shaped().timers.append(Idle(positive(seconds, "idle_timeout")))

    def stalled_after(self, seconds: float, *, clock: Clock = time.monotonic) -> None:
        """Give up after ``seconds`` of waiting without output, whatever else came: keep-alives, comments, usage.

        Counted from the first read and from each delta; what the reader does between two reads does not count.
        """
        self._shaped().timers.append(Stalled(positive(seconds, "stalled_after"), clock))

    def inspect(self, callback: Inspector) -> None:
        """Call ``callback(event)`` for every event as it is read, before it is handed over, in order; at once for
        those that wait to be handed over.

        It must not wait. What it raises is raised to the reader, and ends the stream.
        """
        self._shaped().inspect(callback, self._waiting())

    def on_close(self, callback: Callable[[Stream], object]) -> None:
        """Call ``callback(stream)`` once, when the stream is closed, in whatever way; at once when it is already.

        ``stream`` is the one that its reader has: ``completion`` and ``error`` say how far it was read. The callback
        must not wait. What it raises is raised to who closes, after every other callback.
        """
        stream = self if self._heir is None else self._heir
        stream._shaped().on_close(callback)
        if stream._closed:
            stream._shaped().closed(stream)

    @property
    def completion(self) -> Completion:
        """The whole answer; raises the stream's error, or ``ConfigError`` when it was not read to its end."""
        if self._heir is not None:
            return self._heir.completion
        if self._completion is not None:
            return self._completion
        raise self._error or ConfigError("the stream was not read to its end, so there is no completion")

    @property
    def error(self) -> SvirError | None:
        """The error that iterating raised, if it did."""
        return self._error if self._heir is None else self._heir.error

    async def aclose(self) -> None:
        """Close the connection now; a task that is reading gets a ``ConfigError``. Idempotent."""
        if self._heir is not None:
            return await self._heir.aclose()
        self._buffer = iter(())
        try:
            await super().aclose()
        finally:
            if self._shape is not None:
                self._shape.closed(self)

    async def _next_read(self) -> list[Event]:
        """The events of the next read, or those that are left of the last; ``Completed`` by itself, none at the end."""
        async for event in self:
            return [event, *self._buffer]
        return []

    def _start(self) -> Awaitable[None]:
        return self._driver.open() if self._opening is None else self._open_through(self._opening)

    async def _open_through(self, opening: Callable[[Attempt], Awaitable[Stream]]) -> None:
        self._opening = None  # it knows the request and the headers: nothing of a stream needs them once it is open
        self._adopt(await opening(self._attempt))

    def _attempt(self, driver: Driver[Exchange]) -> Stream:
        """One request for this answer: its head is the latest response."""
        self._driver = driver
        self._tries.append(driver)
        return Stream(driver)

    def _adopt(self, opened: Stream) -> None:
        """Become ``opened``, which from now on is only another name of this stream."""
        shape, self._shape = self._shape, opened._shape
        self._driver, self._buffer, self._ending = opened._driver, opened._buffer, opened._ending
        self._completion, self._error = opened._completion, opened._error
        opened._buffer, opened._open, opened._closed, opened._shape = iter(()), False, True, None
        opened._heir, self._open = self, True
        self._tries.clear()  # each holds what came of its answer
        if shape is not None:
            self._shaped().take_over(shape, self._waiting())

    def _shaped(self) -> Shape:
        if self._heir is not None:
            return self._heir._shaped()
        if self._shape is None:
            self._shape = Shape()
        return self._shape

    def _waiting(self) -> Iterator[Event]:
        """What was read and not handed over."""
        if self._heir is not None:
            yield from self._heir._waiting()
        yield from copy.copy(self._buffer)
        if isinstance(self._ending, Completed) and self._completion is None:
            yield self._ending

    def _events_read(self) -> bool:
        """Whether an event was read of any answer that this stream, or the opening of it, had."""
        if self._heir is not None:
            return self._heir._events_read()
        return any(driver.events_read for driver in (self._driver, *self._tries))

    def _redactor(self) -> Redactor:
        """What takes the secrets that its request was sent with out of a text."""
        return self._driver.redactor

    def _unfit(self) -> str | None:
        """Why a layer cannot give this stream on; ``None`` when it can."""
        if not self._open:
            return "is closed" if self._closed else "was not entered"
        return "is being read" if self._reading else None

    async def _settle(self) -> None:
        """Wait for the message's end, within the transport's limits, when the answer was whole."""
        if self._completion is not None:
            await self._driver.response.drain()

    async def _read(self) -> None:
        self._claim()
        try:
            events = await self._pull()
        except (
            BaseException
        ) as error:  # cancelled, or of a FunctionModel's own: every error of ours is among the events
            self._ending = self._driver.call.fail(self._cut_short(error))
            await self._driver.response.aclose()
            raise
        finally:
            self._reading = False
        self._check_open()
        items = events.items
        if items:
            self._driver.events_read = True
        if self._shape is not None:
            await self._tell(self._shape, items)
        if events.error is not None:
            self._ending = events.error
            await self._driver.response.aclose()
        elif items and isinstance(last := items[-1], Completed):
            self._ending = last
            items = items[:-1]
        self._buffer = iter(items)

    async def _pull(self) -> Events:
        """The events of the next read."""
        try:
            shape = self._shape
            if shape is None or not shape.timers:
                data = await anext(self._driver.body, None)
            else:
                data = await shape.within(self._receive, self._output())
        except TransportError:  # an input that ended, which the decoder judges
            return self._driver.finish()
        except SvirError as error:
            return Events((), self._driver.call.fail(error))
        return self._driver.finish() if data is None else self._driver.call.push(data)

    def _receive(self) -> Awaitable[bytes | None]:
        return anext(self._driver.body, None)

    def _output(self) -> int:
        decoder = self._driver.call.decoder
        return 0 if decoder is None else decoder.output_seen

    async def _tell(self, shape: Shape, events: Sequence[Event]) -> None:
        try:
            shape.tell(events)
        except BaseException:
            self._ending = self._driver.call.fail(ConfigError("an inspector of the Stream raised, which ended it"))
            await self._driver.response.aclose()
            raise

    async def _end(self, ending: Completed | SvirError) -> Event:
        self._check_open()
        if isinstance(ending, SvirError):
            self._error = ending
            raise ending
        if self._completion is None:
            self._completion = ending.completion
            return ending
        self._claim()
        try:
            await self._settle()
            await self._driver.response.aclose()
        finally:
            self._reading = False
        raise StopAsyncIteration


class TextStream(Unique):
    """The text of a :class:`Stream`. It may be begun at any event, and the stream read on after it."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        async for event in self._stream:
            if isinstance(event, TextDelta) and event.text:
                return event.text
        raise StopAsyncIteration

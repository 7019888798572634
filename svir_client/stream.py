"""The events of one answer, and its text alone (30 section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from svir_client.driver import Driver
from svir_client.open_response import OpenResponse
from svir_core.errors import ConfigError, SvirError, TransportError
from svir_core.event import Completed, Event, Events, TextDelta
from svir_core.exchange import Exchange
from svir_core.response import Completion

if TYPE_CHECKING:
    from typing import Self


class Stream(OpenResponse):
    """The events of one answer: ``async with client.stream(request) as stream: async for event in stream``.

    Entering sends the request and raises what a refused one means. Iterating gives every event that
    arrived and then, when the stream went wrong, raises its error, with ``.partial``; iterating on
    raises the same error again. After ``Completed`` the iteration is over. Events that came in one
    read are handed over without another pass through the event loop.
    """

    __slots__ = ("_buffer", "_completion", "_ending", "_error")

    def __init__(self, driver: Driver[Exchange]) -> None:
        super().__init__(driver)
        self._buffer: Iterator[Event] = iter(())
        self._ending: Completed | SvirError | None = None
        self._completion: Completion | None = None
        self._error: SvirError | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while True:
            for event in self._buffer:
                return event
            if self._ending is not None:
                return await self._end(self._ending)
            await self._read()

    def text(self) -> TextStream:
        """The visible text alone, piece by piece; the rest of the events are read and passed over."""
        return TextStream(self)

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

    async def aclose(self) -> None:
        """Close the connection now; a task that is reading gets a ``ConfigError``. Idempotent."""
        self._buffer = iter(())
        await super().aclose()

    async def _settle(self) -> None:
        """Wait for the message's end, within the transport's limits, when the answer was whole."""
        if self._completion is not None:
            await self._driver.response.drain()

    async def _read(self) -> None:
        self._claim()
        try:
            events = await self._pull()
        except BaseException:  # cancelled: every error of ours is among the events
            self._ending = self._driver.call.fail(self._cancelled())
            await self._driver.response.aclose()
            raise
        finally:
            self._reading = False
        self._check_open()
        items = events.items
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
            data = await anext(self._driver.body, None)
        except TransportError:
            return self._driver.cut()
        except SvirError as error:
            return Events((), self._driver.call.fail(error))
        return self._driver.finish() if data is None else self._driver.call.push(data)

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


class TextStream:
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

"""A transport whose other end is a function in this process.

Three rules hold for it. Its calls are independent: any number run at once, one inside another too. The response begins
with the first event: what the function raises before is raised by ``open``, as it is for a server that refuses. No
cancel scope outlives the await it bounds, and what the function gave is closed by the task that waits for it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.lowlevel

from svir_client.function_model.events import END, EventSource, ModelFunction, events_of
from svir_client.function_model.wire import Asked, encode_event
from svir_core.counted_body import CountedBody
from svir_core.errors import ConfigError, ResponseTimeoutError, SvirError
from svir_core.event import Completed
from svir_core.http_message import HttpRequest, ResponseHead
from svir_core.limits import BODY_CLOSE_SECONDS
from svir_core.refusal import EVENT_STREAM
from svir_core.transport_fault import response_closed, transport_closed

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")

HEAD: Final = ResponseHead(200, (("content-type", EVENT_STREAM),))

CLOSE_SECONDS: Final = 1.0
"""How long the closing of what a function gave may take, in a call that was cancelled too; what its ``finally`` waits
for after that is cancelled."""


class FunctionTransport:
    """Asks ``function`` in place of a server."""

    def __init__(self, function: ModelFunction) -> None:
        self._function = function
        self._responses: weakref.WeakSet[FunctionResponse] = weakref.WeakSet()
        self._lock = threading.Lock()  # of the set: calls of several event loops come from several threads
        self._closed = False

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float | None = None,
    ) -> FunctionResponse:
        """As of every ``Transport``, for a request whose body is an ``Asked``. What the function raises goes to the
        caller as it is."""
        await CountedBody(body).aclose(anyio.move_on_after(BODY_CLOSE_SECONDS, shield=True))
        if self._closed:
            raise transport_closed()
        if not isinstance(request.body, Asked):
            raise ConfigError("a FunctionTransport takes the requests of a FunctionModel alone", unsent=True)
        response = FunctionResponse(request.body, idle_timeout)
        with self._lock:
            self._responses.add(response)
        await response.begin(self._function)
        return response

    async def aclose(self) -> None:
        """Close the responses of this event loop. A later ``open`` is a ``ConfigError``."""
        self._closed = True
        here = anyio.lowlevel.current_token()
        with self._lock:
            responses = tuple(self._responses)
        for response in responses:
            if response.loop == here:
                await response.aclose()


class FunctionResponse:
    """The answer of one call, an event at a time.

    Attributes:
        loop: the event loop in which it is read.
    """

    def __init__(self, asked: Asked, idle_timeout: float) -> None:
        self.loop = anyio.lowlevel.current_token()
        self._asked = asked
        self._idle = idle_timeout
        self._source: EventSource | None = None
        self._waiting: anyio.CancelScope | None = None
        self._first: bytes | None = None
        self._complete = False
        self._closed = False

    @property
    def head(self) -> ResponseHead:
        """The same for every answer."""
        return HEAD

    @property
    def complete(self) -> bool:
        """Whether the function's last event has been read."""
        return self._complete

    async def begin(self, function: ModelFunction) -> None:
        """Ask ``function``, and wait for its first event."""

        async def first() -> bytes | None:
            self._source = await events_of(function, self._asked.request)
            return await self._step(self._source)

        self._first = await self._within(first)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The bytes of the next event.

        Raises what the function's own code raises, ``ConfigError`` for what is no event and when this side closed it,
        and ``ResponseTimeoutError`` when nothing came for the idle timeout.
        """
        data, self._first = self._first, None
        if data is None and not self._complete:
            data = await self._read()
        if data is None:
            raise StopAsyncIteration
        return data

    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        """Nothing: after its last event a function is not asked for more."""

    async def aclose(self) -> None:
        """Close what the function gave; a task that waits for it does that itself. Idempotent."""
        if self._waiting is None:
            await self._close()
        else:
            self._closed = True
            self._waiting.cancel()

    async def _read(self) -> bytes | None:
        if self._source is None:
            raise response_closed()
        source = self._source
        try:
            return await self._within(lambda: self._step(source))
        except SvirError as error:
            self._asked.told.failure = error
            raise

    async def _step(self, source: EventSource) -> bytes | None:
        event = await source.next()
        self._complete = event is END or isinstance(event, Completed)
        return None if event is END else encode_event(event)

    async def _within(self, work: Callable[[], Awaitable[T]]) -> T:
        """What ``work`` gives, unless the idle clock runs out or this is closed before; then all is closed."""
        try:
            with anyio.move_on_after(self._idle) as self._waiting:
                value = await work()
                if not self._closed:
                    return value
        except BaseException:
            await self._close()
            raise
        finally:
            self._waiting = None
        closed = self._closed
        await self._close()
        raise response_closed() if closed else ResponseTimeoutError(f"the function gave nothing for {self._idle:g} s")

    async def _close(self) -> None:
        self._closed = True
        self._first = None
        source, self._source = self._source, None
        if source is not None:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await source.aclose()

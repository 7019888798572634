"""One call over a transport: the loop that every driver of an exchange is (00 section 4).

Two rules hold for all of it. However it ends, cancellation at any await included, no response is left
open. No cancel scope outlives the await it bounds: only the wait for a refusal's body has one.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from svir_client import files
from svir_client.transport import Transport, TransportResponse
from svir_core.call import Call, ReadError, Retry
from svir_core.errors import SvirError
from svir_core.event import Events
from svir_core.http_message import HttpRequest, ResponseHead
from svir_core.redact import Redactor

C = TypeVar("C", bound=Call)


class Driver(Generic[C]):
    """A call that was made ready and not yet sent. ``begin`` gives its state machine,
    both timeouts are seconds.

    Attributes:
        head: the head of the latest response, a refused one too, without the secrets of the request; ``None`` before
            there is any.
        redactor: what takes the secrets out of a text that its requests were sent with.
        events_read: whether an event of the answer was read, by whoever.
        call, response, body: of the answer; they are there once :meth:`open` has returned.
    """

    __slots__ = (
        "_begin",
        "_connect_timeout",
        "_idle_timeout",
        "_transport",
        "body",
        "call",
        "events_read",
        "head",
        "redactor",
        "response",
    )

    call: C
    response: TransportResponse
    body: AsyncIterator[bytes]

    def __init__(
        self,
        begin: Callable[[], Awaitable[C]],
        transport: Transport,
        *,
        connect_timeout: float,
        idle_timeout: float,
    ) -> None:
        self._begin = begin
        self._transport = transport
        self._connect_timeout = connect_timeout
        self._idle_timeout = idle_timeout
        self.head: ResponseHead | None = None
        self.redactor = Redactor()
        self.events_read = False

    async def open(self) -> None:
        """Send the request, and at most one retry, until an answer begins.

        Raises the caller's mistakes before a byte is sent; then what the transport raises, and the error
        that a refusal is.
        """
        call = await self._begin()
        request = call.start()
        while True:
            self.redactor = call.redactor
            response = await self._send(call, request)
            begun = False
            try:
                step = call.head(response.head.status, response.head.headers)
                self.head = call.response
                if not isinstance(step, ReadError):
                    self.call, self.response, self.body = call, response, aiter(response)
                    begun = True
                    return
                last = await self._read_refusal(call, response, step)
            finally:
                if not begun:
                    await response.aclose()
            if not isinstance(last, Retry):
                raise last.error or RuntimeError("a refusal without an error")
            request = last.http_request

    def finish(self) -> Events:
        """The body of the answer ended: its last events."""
        last = self.call.finish()
        if isinstance(last, Retry):
            raise RuntimeError("an answer that has begun is not retried")
        return last

    async def answered(self) -> C:
        """The call, sent and read to its end; raises what :meth:`open` and :meth:`read_all` do."""
        await self.open()
        await self.read_all()
        return self.call

    async def read_all(self) -> None:
        """Read the whole answer and close it; what is wrong with it is raised, a cut body too."""
        try:
            failure = await self._read_body()
        finally:
            await self.response.aclose()
        if failure is not None:
            raise failure

    async def _read_body(self) -> SvirError | None:
        """What is wrong with the answer. Without its traceback: those frames hold what the server said."""
        try:
            async for data in self.body:
                tuple(self.call.push(data))
            tuple(self.finish())
        except SvirError as error:
            return self.call.fail(error).with_traceback(None)
        return None

    async def _send(self, call: C, request: HttpRequest) -> TransportResponse:
        body = None if request.body is None else files.stream(request.body)
        try:
            return await self._transport.open(
                request, body, idle_timeout=self._idle_timeout, connect_timeout=self._connect_timeout
            )
        except SvirError as error:
            failure = call.fail(error)
        raise failure

    async def _read_refusal(self, call: C, response: TransportResponse, step: ReadError) -> Events | Retry:
        """What a refusal means, by as much of its body as comes in time: the status stands without any."""
        received = 0
        limit = self._idle_timeout if step.seconds is None else step.seconds
        with anyio.move_on_after(limit), contextlib.suppress(SvirError):
            async for data in response:
                call.push(data)
                received += len(data)
                if received >= step.limit:
                    break
        return call.finish()

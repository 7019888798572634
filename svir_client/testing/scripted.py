"""A transport in memory: no sockets, the same replies, and errors as a transport tells them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import h11

from svir_client.testing.record import RecordedRequest
from svir_client.testing.reply import End, Reply
from svir_client.testing.script import Script
from svir_client.testing.seen import Seen
from svir_client.testing.wait import Wait
from svir_client.transport import TransportResponse
from svir_core.check import seconds as positive
from svir_core.counted_body import CountedBody
from svir_core.errors import ConfigError, ProtocolError, ResponseTimeoutError, SvirError, TransportError
from svir_core.http_message import HttpRequest, ResponseHead
from svir_core.limits import BODY_CLOSE_SECONDS

if TYPE_CHECKING:
    from typing import Self

Outcome = Reply | SvirError
"""What a call of a :class:`ScriptedTransport` gets: a reply, or the error that it raises."""


class ScriptedTransport:
    """``AsyncClient.openai(url, transport=ScriptedTransport(reply, ...))``: the n-th request gets the n-th reply.

    It needs no server, no port and no thread, and takes what :class:`MockServer` takes. A reply is read
    as the h11 transport would read it from plain sockets: cuts, resets, drops and heads that are no HTTP
    are the errors they are there, a stalled one runs into ``idle_timeout``. Beside replies the script
    may hold errors, which ``open`` raises: with ``unsent`` before the body is read, and the request is
    not recorded then; else after it. What ``answer`` raises goes to the caller as it is.

    Args:
        outcomes: the script.
        answer: asked for the outcome of each complete request beyond the script, sync or async.
        remember: how many requests are kept, the latest ones, ``None`` for all. The count stays exact.
    """

    def __init__(
        self,
        *outcomes: Outcome,
        answer: Callable[[RecordedRequest], Outcome | Awaitable[Outcome]] | None = None,
        remember: int | None = None,
    ) -> None:
        self._script = Script[Outcome](outcomes, answer)
        self._requests = Seen[RecordedRequest](remember)
        self._open: set[_Response] = set()
        self._closed = False

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """The requests so far, the latest ``remember`` of them; each on a connection of its own."""
        return self._requests.latest

    @property
    def request_count(self) -> int:
        """How many requests there were."""
        return self._requests.count

    @property
    def open_connections(self) -> int:
        """How many responses have neither been read to their end, nor failed, nor been closed."""
        return len(self._open)

    @property
    def unscripted(self) -> int:
        """How many requests came beyond the script."""
        return self._script.unscripted

    @property
    def unasked(self) -> int:
        """How much of the script nobody asked for."""
        return self._script.unasked

    def add(self, *outcomes: Outcome) -> None:
        """Append to the script."""
        self._script.add(*outcomes)

    async def wait_requests(self, count: int) -> tuple[RecordedRequest, ...]:
        """Wait until ``count`` requests have come; returns ``requests``."""
        return await self._requests.wait(count)

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float | None = None,
    ) -> TransportResponse:
        """As of every ``Transport``; nothing is connected, so ``connect_timeout`` is only checked."""
        upload = CountedBody(body)
        try:
            idle = positive(idle_timeout, "idle_timeout")
            if connect_timeout is not None:
                positive(connect_timeout, "connect_timeout")
            if self._closed:
                raise ConfigError("the transport is closed", unsent=True)
            upload.declare(request)
            outcome = await self._outcome(request, upload)
            if isinstance(outcome, SvirError):
                raise outcome.with_traceback(None)
        finally:
            await upload.aclose(anyio.move_on_after(BODY_CLOSE_SECONDS, shield=True))
        response = _Response(outcome, request.method, idle, self._open)
        await response.read_head()
        return response

    async def _outcome(self, request: HttpRequest, upload: CountedBody) -> Outcome:
        await anyio.lowlevel.checkpoint()
        outcome = self._script.scripted()
        if isinstance(outcome, SvirError) and outcome.unsent:
            return outcome
        record = RecordedRequest(request.method, request.target, request.headers, connection=self._requests.count)
        if not (isinstance(outcome, Reply) and outcome.before_body):
            blocks: list[bytes] = []
            while not upload.done:
                blocks.append(await upload.pull())
            record.body = b"".join(blocks)
            record.complete = True
        self._requests.add(record)
        return outcome or await self._script.answered(record)

    async def aclose(self) -> None:
        """Close every response. A later ``open`` is a ``ConfigError``."""
        self._closed = True
        for response in tuple(self._open):
            await response.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Response:
    """A reply as it is read: what would come over a socket, through h11."""

    def __init__(self, reply: Reply, method: str, idle: float, among: set[_Response]) -> None:
        self._reply = reply
        self._idle = idle
        self._among = among
        self._head = ResponseHead(0)
        self._complete = False
        self._ended = False  # whether the parser knows that nothing more comes
        self._failure: SvirError | None = None
        self._parser = h11.Connection(h11.CLIENT)
        self._parser.send(
            h11.Request(method="HEAD" if method == "HEAD" else "GET", target="/", headers=[("host", "scripted")])
        )
        self._parser.send(h11.EndOfMessage())
        self._left: deque[bytes | Wait] = deque()
        if not reply.stall_head:
            before = () if reply.before_head is None else (reply.before_head,)
            self._left.extend(piece for piece in (*before, reply.head(), *reply.pieces()) if piece != b"")
        among.add(self)

    @property
    def head(self) -> ResponseHead:
        """Status and headers."""
        return self._head

    @property
    def complete(self) -> bool:
        """Whether the message's end has been read."""
        return self._complete

    async def read_head(self) -> None:
        """Read up to the final head; raises as ``Transport.open``."""
        event = await self._next()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next()
        if isinstance(event, h11.Response):
            self._head = ResponseHead(event.status_code, event.headers)
        elif self._failure is not None:
            raise self._failure

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The next piece. Raises as :class:`~svir_client.TransportResponse` says."""
        while not self._complete:
            event = await self._next()
            if isinstance(event, h11.Data) and event.data:
                return bytes(event.data)
            if self._failure is not None:
                raise self._failure.with_traceback(None)
        raise StopAsyncIteration

    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        """Read to the message's end; what takes more than ``limit`` bytes or ``seconds`` is closed."""
        taken = 0
        with anyio.move_on_after(seconds):
            while not self._complete and self._failure is None and taken <= limit:
                event = await self._next()
                taken += len(event.data) if isinstance(event, h11.Data) else 0
        self._close()

    async def aclose(self) -> None:
        """Close it, unless its end was read."""
        self._close()

    def _close(self) -> None:
        if not self._complete:
            self._fail(TransportError("the response was closed before its end"))

    def _fail(self, failure: SvirError) -> None:
        self._failure = self._failure or failure
        self._among.discard(self)

    async def _next(self) -> h11.Event | None:
        """The next event; ``None`` once the response has failed or ended, as ``_failure`` tells."""
        await self._or_close(anyio.lowlevel.checkpoint())
        while self._failure is None and not self._complete:
            event = self._event()
            if isinstance(event, h11.EndOfMessage):
                self._complete = True
                self._among.discard(self)
            if event is not None:
                return event
            if self._failure is None:
                await self._or_close(self._receive())
        return None

    async def _or_close(self, step: Awaitable[None]) -> None:
        """Take a step; one that is cancelled closes the response."""
        try:
            await step
        except BaseException:
            self._close()
            raise

    def _event(self) -> h11.Event | None:
        """What the parser makes of the bytes that are there, or ``None``; a fault is kept as the failure."""
        failure = None
        event: object = None
        try:
            event = self._parser.next_event()
        except h11.RemoteProtocolError:
            failure = ProtocolError("the response is not valid HTTP")
        if failure is not None:
            self._fail(TransportError("the response was cut off") if self._ended else failure)
        return event if isinstance(event, h11.Event) else None

    async def _receive(self) -> None:
        """Hand the parser what comes next, once it comes; nothing for the idle timeout is a failure."""
        with anyio.move_on_after(self._idle) as scope:
            while self._left and not isinstance(self._left[0], bytes):
                await self._left[0].pass_through()
                self._left.popleft()
            await self._take()
        if scope.cancelled_caught:
            self._fail(ResponseTimeoutError(f"nothing moved on the connection for {self._idle:g} s"))

    async def _take(self) -> None:
        if self._left and isinstance(piece := self._left.popleft(), bytes):
            self._parser.receive_data(piece)
        elif self._reply.end is End.RESET:
            self._fail(TransportError("the connection was reset"))
        elif self._reply.end is End.STALL or self._reply.stall_head:
            await anyio.sleep_forever()
        else:
            self._ended = True  # after which the parser never asks for more
            self._parser.receive_data(b"")

"""A transport in memory: no sockets, the same replies, and errors as a transport tells them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel
import attrs

from svir_client.testing.record import RecordedRequest
from svir_client.testing.reply import Reply
from svir_client.testing.reply_channel import ReplyChannel
from svir_client.testing.script import Script
from svir_client.testing.scripted_peer import ScriptedPeer
from svir_client.testing.seen import Seen
from svir_client.transport import TransportResponse
from svir_core.check import seconds as positive
from svir_core.counted_body import CountedBody
from svir_core.errors import SvirError
from svir_core.http_message import HttpRequest
from svir_core.limits import BODY_CLOSE_SECONDS
from svir_core.transport_fault import transport_closed
from svir_transport.h11.connection import Connection
from svir_transport.h11.pool import Pool
from svir_transport.h11.response import H11Response
from svir_transport.h11.roundtrip import RoundTrip

Outcome = Reply | SvirError
"""What a call of a :class:`ScriptedTransport` gets: a reply, or the error that it raises."""

HOST: Final = (("host", "scripted"),)


class ScriptedTransport(ScriptedPeer[Outcome]):
    """``AsyncClient.openai(url, transport=ScriptedTransport(reply, ...))``: the n-th request gets the n-th reply.

    It needs no server, no port and no thread, and takes what :class:`MockServer` takes. A reply is read
    by the h11 transport's own code: cuts, resets, drops and heads that are no HTTP or too large are the errors
    they are there, a stalled one runs into ``idle_timeout``. Beside replies the script
    may hold errors, which ``open`` raises: with ``unsent`` before the body is read, and the request is
    not recorded then; else after it. What ``answer`` raises goes to the caller as it is.

    Args:
        outcomes: the script.
        answer: asked for the outcome of each complete request beyond the script, sync or async.
        remember: how many requests are kept, the latest ones, ``None`` for all. The count stays exact.

    Raises ``ConfigError`` for an argument of the wrong kind; so does a call for which ``answer`` gives no outcome.
    """

    def __init__(
        self,
        *outcomes: Outcome,
        answer: Callable[[RecordedRequest], Outcome | Awaitable[Outcome]] | None = None,
        remember: int | None = None,
    ) -> None:
        super().__init__(Script(outcomes, answer, (Reply, SvirError)), Seen(remember))
        self._pool = Pool(max_connections=sys.maxsize, max_idle=0, idle_expiry=0)  # a connection for every request
        self._closed = False

    @property
    def open_connections(self) -> int:
        """How many responses have neither been read to their end, nor failed, nor been closed."""
        return self._pool.leased

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
                raise transport_closed()
            upload.declare(request)
            outcome = await self._outcome(request, upload)
            if isinstance(outcome, SvirError):
                raise outcome.with_traceback(None)
        finally:
            await upload.aclose(anyio.move_on_after(BODY_CLOSE_SECONDS, shield=True))
        return await self._read(outcome, request, idle)

    async def _read(self, reply: Reply, request: HttpRequest, idle: float) -> H11Response:
        """The reply by way of the h11 transport; its request is a stand-in, since the real one was read already."""
        asked = attrs.evolve(request, method="HEAD" if request.method == "HEAD" else "GET", headers=HOST)
        lease = await self._pool.lease()
        try:
            connection = Connection(request.origin, ReplyChannel(reply))
            lease.hold(connection)
            trip = RoundTrip(connection, CountedBody(None), idle)
            trip.start(asked, b"")
            return H11Response(lease, connection, await trip.head(), idle)
        except BaseException:
            lease.drop()
            raise

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
        self._pool.close()
        self._pool.drop_leases()

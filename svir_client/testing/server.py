"""A scripted loopback server: real sockets on port 0, replies in order or from a function, no sleeps."""

from __future__ import annotations

import socket
import ssl
from types import TracebackType
from typing import TYPE_CHECKING, Final

import anyio
import anyio.abc

from svir_client.testing.given import server_context
from svir_client.testing.link import Link, PlainLink, TlsLink
from svir_client.testing.record import RecordedConnection, RecordedRequest
from svir_client.testing.reply import End, Reply
from svir_client.testing.request_reader import RequestReader
from svir_client.testing.script import Answer, Script
from svir_client.testing.scripted_peer import ScriptedServer, ServerState
from svir_client.testing.seen import Seen
from svir_client.testing.threaded import ThreadedMockServer
from svir_client.testing.wait import Wait

if TYPE_CHECKING:
    from typing import Self

BACKLOG: Final = 4096
"""Connections that wait to be accepted: with a short queue a burst of a thousand clients sees some of them reset."""


class MockServer(ScriptedServer):
    """``async with MockServer(reply, ...) as server:`` listens on 127.0.0.1, on a free port.

    The n-th request, on whatever connection it comes, gets the n-th reply. One beyond the script is
    given to ``answer``; without it, it gets a 500 that says so (``server_message()`` of the error), and
    is counted in ``unscripted``. Nothing here waits for time to pass unless a reply asks for it: the
    ``wait_*`` methods return when the thing has happened, so give each a limit (``anyio.fail_after``).

    Args:
        replies: the script.
        answer: asked for the reply to each complete request beyond the script, sync or async. What it
            raises is told to the client as a 500, and raised when the block is left (when the block
            itself fails: noted at that error).
        remember: how many requests and how many connections are kept, the latest ones, ``None`` for
            all. The counts stay exact.
        tls: speak https, by this server-side context; its certificate must be good for 127.0.0.1.

    Raises ``ConfigError`` for an argument of the wrong kind, and when the block is left for an ``answer`` that gave no
    reply. A system that lets no more connections be
    accepted (no descriptor is left) ends the block with its ``OSError``.
    """

    def __init__(
        self,
        *replies: Reply,
        answer: Answer | None = None,
        remember: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(
            ServerState(Script(replies, answer, (Reply,)), Seen(remember), Seen(remember), server_context(tls))
        )
        self._error: Exception | None = None  # what `answer` raised first, or what accepting did
        self._group: anyio.abc.TaskGroup | None = None

    async def wait_requests(self, count: int) -> tuple[RecordedRequest, ...]:
        """Wait until ``count`` requests have come; returns ``requests``."""
        return await self._requests.wait(count)

    async def wait_connections(self, count: int) -> tuple[RecordedConnection, ...]:
        """Wait until ``count`` connections have been accepted; returns ``connections``."""
        return await self._state.connections.wait(count)

    async def wait_closed(self) -> None:
        """Wait until the client has closed every connection accepted so far."""
        for connection in tuple(self._state.open.values()):
            await connection.closed.wait()

    def in_thread(self) -> ThreadedMockServer:
        """The server for code that is not async: ``with MockServer(...).in_thread() as server:``."""
        return ThreadedMockServer(self, self._state)

    async def __aenter__(self) -> Self:
        listener = self._state.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._accept, listener, self._group)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        group, listener = self._group, self._state.listener
        if group is None or listener is None:
            raise RuntimeError("MockServer was not entered")
        ended = group.cancel_scope.cancel_called and isinstance(error, anyio.get_cancelled_exc_class())
        group.cancel_scope.cancel()
        try:
            # The test's own failure is not handed to the group, which would wrap it; what the group itself
            # cancelled the test with is.
            over = await group.__aexit__(*((kind, error, traceback) if ended else (None, None, None)))
        finally:
            listener.close()
        if self._error is not None:
            if error is None or (ended and over):
                raise self._error from None
            error.add_note(f"the server raised {self._error!r}")

    async def _accept(self, listener: socket.socket, group: anyio.abc.TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listener)
            try:
                peer, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue  # the client gave up between the notice and the accept
            except OSError as error:  # no descriptor is left: nobody would ever be accepted, and the test wait
                self._error = self._error or error
                group.cancel_scope.cancel()
                return
            link = PlainLink(peer)
            record = RecordedConnection(self._state.connections.count)
            self._state.open[record.number] = record
            self._state.connections.add(record)
            group.start_soon(self._serve, link if self._state.tls is None else TlsLink(link, self._state.tls), record)

    async def _serve(self, link: Link, record: RecordedConnection) -> None:
        try:
            await link.handshake()
            await self._converse(link, record)
            self._closed(record)
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                record.fault = error.reason or "the TLS connection ended too early"
            self._closed(record)  # a reset by the client closes as well as an end does
        finally:
            link.close()

    def _closed(self, record: RecordedConnection) -> None:
        del self._state.open[record.number]
        record.closed.set()

    async def _converse(self, link: Link, record: RecordedConnection) -> None:
        """Requests and replies until the client closes, or a reply ends the connection."""
        rest = b""
        while True:
            reader = RequestReader(link, record, rest)
            request = await reader.head()
            if request is None:
                break
            reply = self._script.scripted()
            early = reply is not None and reply.before_body
            if not early and not await reader.body(request):
                break
            self._requests.add(request)
            reply = reply or await self._answered(request)
            if not await _answer(link, reply):
                return
            if not reply.kept:
                break
            rest = reader.rest()
        await _drain(link, record)

    async def _answered(self, request: RecordedRequest) -> Reply:
        try:
            return await self._script.answered(request)
        except Exception as error:  # noqa: BLE001 - of the test's own function: raised where the test sees it
            self._error = self._error or error
            return Reply(500, {"content-type": "text/plain"}, (f"answer raised {type(error).__name__}".encode(),))


async def _answer(link: Link, reply: Reply) -> bool:
    """Send the reply; false when the connection is gone."""
    if reply.stall_head:
        return True
    if reply.before_head is not None and not await _hold(link, reply.before_head):
        return False
    await link.send(reply.head())
    for piece in reply.pieces():
        if isinstance(piece, bytes):
            await link.send(piece)
        elif not await _hold(link, piece):
            return False
    if reply.end is End.RESET:
        link.reset()
        return False
    if reply.end is not End.STALL and not reply.kept:
        await link.end(announced=reply.cut is None)
    return True


async def _drain(link: Link, record: RecordedConnection) -> None:
    """Read until the client closes. Closing with unread bytes would reset the reply under way."""
    while data := await link.receive():
        record.trailing += len(data)


async def _hold(link: Link, wait: Wait) -> bool:
    """Wait as the reply says; false when the client closed the connection meanwhile."""
    gone = False

    async def watch(scope: anyio.CancelScope) -> None:
        nonlocal gone
        await link.gone()
        gone = True
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch, group.cancel_scope)
        await wait.pass_through()
        group.cancel_scope.cancel()
    return not gone

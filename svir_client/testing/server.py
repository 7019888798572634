"""A scripted loopback server: real sockets on port 0, replies in order or from a function, no sleeps."""

from __future__ import annotations

import socket
import ssl
from types import TracebackType
from typing import TYPE_CHECKING, Final

import anyio
import anyio.abc

from svir_client.testing.link import Link, PlainLink, TlsLink
from svir_client.testing.record import RecordedConnection, RecordedRequest
from svir_client.testing.reply import End, Reply
from svir_client.testing.request_reader import RequestReader
from svir_client.testing.script import Answer, Script
from svir_client.testing.seen import Seen
from svir_client.testing.threaded import ThreadedMockServer
from svir_client.testing.wait import Wait

if TYPE_CHECKING:
    from typing import Self

BACKLOG: Final = 4096
"""Connections that wait to be accepted: with a short queue a burst of a thousand clients sees some of them reset."""


class MockServer:
    """``async with MockServer(reply, ...) as server:`` listens on 127.0.0.1, on a free port.

    The n-th request, on whatever connection it comes, gets the n-th reply. One beyond the script is
    given to ``answer``; without it, it gets a 500 and is counted in ``unscripted``. Nothing here
    waits for time to pass unless a reply asks for it: the ``wait_*`` methods return when the thing
    has happened, so give each a limit (``anyio.fail_after``).

    Args:
        replies: the script.
        answer: asked for the reply to each complete request beyond the script, sync or async. What it
            raises is told to the client as a 500, and raised when the block is left (when the block
            itself fails: noted at that error).
        remember: how many requests and how many connections are kept, the latest ones, ``None`` for
            all. The counts stay exact.
        tls: speak https, by this server-side context; its certificate must be good for 127.0.0.1.

    Raises ``ConfigError`` for a ``remember`` that is no number.
    """

    def __init__(
        self,
        *replies: Reply,
        answer: Answer | None = None,
        remember: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._script = Script[Reply](replies, answer)
        self._error: Exception | None = None  # what `answer` raised first
        self._tls = tls
        self._listener: socket.socket | None = None
        self._group: anyio.abc.TaskGroup | None = None
        self._requests = Seen[RecordedRequest](remember)
        self._connections = Seen[RecordedConnection](remember)
        self._open: dict[int, RecordedConnection] = {}

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._listener is None:
            raise RuntimeError("MockServer is used inside `async with`")
        return int(self._listener.getsockname()[1])

    @property
    def origin(self) -> str:
        """Scheme, host and port: what a base URL starts with."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """The requests so far, in the order in which they were complete; the latest ``remember`` of them."""
        return self._requests.latest

    @property
    def request_count(self) -> int:
        """How many requests there were."""
        return self._requests.count

    @property
    def connections(self) -> tuple[RecordedConnection, ...]:
        """The connections so far, in the order in which they were accepted; the latest ``remember`` of them."""
        return self._connections.latest

    @property
    def connection_count(self) -> int:
        """How many connections were accepted."""
        return self._connections.count

    @property
    def open_connections(self) -> int:
        """How many connections neither side has closed."""
        return len(self._open)

    @property
    def unscripted(self) -> int:
        """How many requests came beyond the script."""
        return self._script.unscripted

    @property
    def unasked(self) -> int:
        """How many replies nobody asked for."""
        return self._script.unasked

    def add(self, *replies: Reply) -> None:
        """Append replies to the script."""
        self._script.add(*replies)

    async def wait_requests(self, count: int) -> tuple[RecordedRequest, ...]:
        """Wait until ``count`` requests have come; returns ``requests``."""
        return await self._requests.wait(count)

    async def wait_connections(self, count: int) -> tuple[RecordedConnection, ...]:
        """Wait until ``count`` connections have been accepted; returns ``connections``."""
        return await self._connections.wait(count)

    async def wait_closed(self) -> None:
        """Wait until the client has closed every connection accepted so far."""
        for connection in tuple(self._open.values()):
            await connection.closed.wait()

    def in_thread(self) -> ThreadedMockServer:
        """The server for code that is not async: ``with MockServer(...).in_thread() as server:``."""
        return ThreadedMockServer(self)

    async def __aenter__(self) -> Self:
        listener = self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._accept, listener, self._group)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        group, listener = self._group, self._listener
        if group is None or listener is None:
            raise RuntimeError("MockServer was not entered")
        group.cancel_scope.cancel()
        try:
            # Nothing is handed to the group: it would wrap the test's own failure in an exception group.
            await group.__aexit__(None, None, None)
        finally:
            listener.close()
        if self._error is not None:
            if error is None:
                raise self._error
            error.add_note(f"the server's answer raised {self._error!r}")

    async def _accept(self, listener: socket.socket, group: anyio.abc.TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listener)
            try:
                peer, _ = listener.accept()
            except OSError:
                continue  # the client gave up between the notice and the accept
            link = PlainLink(peer)
            record = RecordedConnection(self._connections.count)
            self._open[record.number] = record
            self._connections.add(record)
            group.start_soon(self._serve, link if self._tls is None else TlsLink(link, self._tls), record)

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
        del self._open[record.number]
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

"""A scripted loopback server: real sockets on port 0, replies in order, no sleeps.

Plain non-blocking sockets, not the stream classes of anyio: a reset, a half close and the moment
the client closes must be exact.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import h11

from svir_client.testing.record import RecordedConnection, RecordedRequest
from svir_client.testing.reply import End, Gate, Reply

if TYPE_CHECKING:
    from typing import Self

RECEIVE_BYTES = 64 * 1024
UNSCRIPTED = Reply(500, {"content-type": "text/plain"}, (b"a request beyond the script",))
"""What a request beyond the script gets."""


class MockServer:
    """``async with MockServer(reply, ...) as server:`` listens on 127.0.0.1, on a free port.

    The n-th request, on whatever connection it comes, gets the n-th reply; one beyond the script
    gets a 500 and is counted in ``unscripted``. Nothing here waits for time to pass: the ``wait_*``
    methods return when the thing has happened, so give each a limit (``anyio.fail_after``).
    """

    def __init__(self, *replies: Reply) -> None:
        self._replies = deque(replies)
        self._listener: socket.socket | None = None
        self._group: anyio.abc.TaskGroup | None = None
        self._changed = anyio.Event()
        self._requests: list[RecordedRequest] = []
        self._connections: list[RecordedConnection] = []
        self._unscripted = 0

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._listener is None:
            raise RuntimeError("MockServer is used inside `async with`")
        return int(self._listener.getsockname()[1])

    @property
    def origin(self) -> str:
        """Scheme, host and port: what a base URL starts with."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """Every request so far, in the order in which they were complete."""
        return tuple(self._requests)

    @property
    def connections(self) -> tuple[RecordedConnection, ...]:
        """Every connection so far, in the order in which they were accepted."""
        return tuple(self._connections)

    @property
    def unscripted(self) -> int:
        """How many requests came beyond the script."""
        return self._unscripted

    @property
    def unasked(self) -> int:
        """How many replies nobody asked for."""
        return len(self._replies)

    def add(self, *replies: Reply) -> None:
        """Append replies to the script."""
        self._replies.extend(replies)

    async def wait_requests(self, count: int) -> tuple[RecordedRequest, ...]:
        """Wait until ``count`` requests have come; returns them."""
        while len(self._requests) < count:
            await self._changed.wait()
        return self.requests

    async def wait_connections(self, count: int) -> tuple[RecordedConnection, ...]:
        """Wait until ``count`` connections have been accepted; returns them."""
        while len(self._connections) < count:
            await self._changed.wait()
        return self.connections

    async def wait_closed(self) -> None:
        """Wait until the client has closed every connection accepted so far."""
        for connection in self.connections:
            await connection.closed.wait()

    async def __aenter__(self) -> Self:
        listener = self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
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

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _accept(self, listener: socket.socket, group: anyio.abc.TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listener)
            try:
                peer, _ = listener.accept()
            except OSError:
                continue  # the client gave up between the notice and the accept
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            record = RecordedConnection(len(self._connections))
            self._connections.append(record)
            self._notify()
            group.start_soon(self._serve, peer, record)

    async def _serve(self, peer: socket.socket, record: RecordedConnection) -> None:
        try:
            await self._converse(peer, record)
            record.closed.set()
        except OSError:
            record.closed.set()  # a reset by the client closes as well as an end does
        finally:
            peer.close()

    async def _converse(self, peer: socket.socket, record: RecordedConnection) -> None:
        """Requests and replies until the client closes, or a reply ends the connection."""
        rest = b""
        while True:
            reader = _RequestReader(peer, record, rest)
            request = await reader.head()
            if request is None:
                break
            reply = self._replies.popleft() if self._replies else UNSCRIPTED
            if reply is UNSCRIPTED:
                self._unscripted += 1
            if not reply.before_body and not await reader.body(request):
                break
            self._requests.append(request)
            self._notify()
            if not await self._answer(peer, reply):
                return
            if not reply.kept:
                break
            rest = reader.rest()
        await _drain(peer, record)

    async def _answer(self, peer: socket.socket, reply: Reply) -> bool:
        """Send the reply; false when the connection is gone."""
        if reply.stall_head:
            return True
        await _send(peer, reply.head())
        for piece in reply.pieces():
            if isinstance(piece, bytes):
                await _send(peer, piece)
            elif not await _hold(peer, piece):
                return False
        if reply.end is End.RESET:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if reply.end is not End.STALL and not reply.kept:
            peer.shutdown(socket.SHUT_WR)
        return True


class _RequestReader:
    """Reads one request, bytes of the next one kept apart."""

    def __init__(self, peer: socket.socket, record: RecordedConnection, rest: bytes) -> None:
        self._peer = peer
        self._record = record
        self._parser = h11.Connection(h11.SERVER)
        if rest:
            self._parser.receive_data(rest)

    async def _event(self) -> h11.Event | None:
        """The next event of the parser; ``None`` when the connection ends or the bytes are no HTTP."""
        while True:
            try:
                event = self._parser.next_event()
            except h11.RemoteProtocolError as error:
                self._record.fault = str(error)
                return None
            if isinstance(event, h11.ConnectionClosed):
                return None
            if isinstance(event, h11.Event):
                return event
            self._parser.receive_data(await _receive(self._peer))

    async def head(self) -> RecordedRequest | None:
        event = await self._event()
        if not isinstance(event, h11.Request):
            return None
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        return RecordedRequest(
            event.method.decode("ascii"), event.target.decode("latin-1"), headers, connection=self._record.number
        )

    async def body(self, request: RecordedRequest) -> bool:
        """Read the body into ``request``; false when the connection ended inside it."""
        data = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            data += event.data
        request.body = bytes(data)
        request.complete = event is not None
        return request.complete

    def rest(self) -> bytes:
        return self._parser.trailing_data[0]


async def _receive(peer: socket.socket) -> bytes:
    while True:
        try:
            return peer.recv(RECEIVE_BYTES)
        except BlockingIOError:
            await anyio.wait_readable(peer)


async def _send(peer: socket.socket, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[peer.send(view) :]
        except BlockingIOError:
            await anyio.wait_writable(peer)


async def _drain(peer: socket.socket, record: RecordedConnection) -> None:
    """Read until the client closes. Closing with unread bytes would reset the reply under way."""
    while data := await _receive(peer):
        record.trailing += len(data)


async def _hold(peer: socket.socket, gate: Gate) -> bool:
    """Wait at the gate; false when the client closed the connection meanwhile."""
    gone = False

    async def watch(scope: anyio.CancelScope) -> None:
        nonlocal gone
        await anyio.wait_readable(peer)
        try:
            gone = not peer.recv(1, socket.MSG_PEEK)
        except OSError:
            gone = True
        if gone:
            scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch, group.cancel_scope)
        await gate.pass_through()
        group.cancel_scope.cancel()
    return not gone

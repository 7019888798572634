"""Bytes to and from one peer, without blocking: plain TCP, and TLS on top of it.

Both kinds have one shape. ``receive_now`` and ``send_now`` do what is possible at once; ``readable``
and ``writable`` are the only awaits; ``close`` is immediate, so it is safe under any cancellation.
anyio's own socket streams do not serve here. Theirs on asyncio throws received bytes away when a
write fails, and so an early error response; their TLS stream cannot be read once a write was
cancelled; neither says whether a byte of a failed write left, and closing them is an await.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Final, Protocol

import anyio
import anyio.lowlevel

READ_BYTES: Final = 64 * 1024
"""One read: what a kernel buffer gives at once on a fast link (60, findings)."""

WRITE_BYTES: Final = 64 * 1024
"""Plaintext that TLS encrypts at once: four records; more would only sit in a buffer of ours."""


class Channel(Protocol):
    """One connection's bytes. Every method but ``close`` raises ``OSError`` when the connection is broken,
    and ``anyio.ClosedResourceError`` once it was closed on this side."""

    @property
    def sent(self) -> int:
        """Bytes that the operating system took so far; only a growing figure means anything."""
        ...

    def receive_now(self) -> bytes | None:
        """Up to 64 KiB; ``b""`` at the end of the input; ``None`` when there is nothing yet."""
        ...

    def send_now(self, data: memoryview) -> int:
        """Take as much of ``data`` as goes at once; 0 when nothing does."""
        ...

    def flush_now(self) -> bool:
        """Whether everything that was taken has left."""
        ...

    async def readable(self) -> None:
        """Wait until ``receive_now`` is worth a call; always a checkpoint."""
        ...

    async def writable(self) -> None:
        """Wait until ``send_now`` is worth a call; always a checkpoint."""
        ...

    def quiet(self) -> bool:
        """Whether the peer has sent nothing and not closed: an idle connection that may be used again."""
        ...

    def close(self) -> None:
        """Close at once; whoever waits here gets ``anyio.ClosedResourceError``. Idempotent."""
        ...


class TcpChannel:
    """A connected, non-blocking socket."""

    __slots__ = ("_closed", "_socket", "_waiting", "sent")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._waiting = 0
        self._closed = False
        self.sent = 0

    def _open_socket(self) -> socket.socket:
        if self._closed:
            raise anyio.ClosedResourceError
        return self._socket

    def receive_now(self) -> bytes | None:
        """See :class:`Channel`."""
        try:
            return self._open_socket().recv(READ_BYTES)
        except BlockingIOError:
            return None

    def send_now(self, data: memoryview) -> int:
        """See :class:`Channel`."""
        try:
            count = self._open_socket().send(data)
        except BlockingIOError:
            return 0
        self.sent += count
        return count

    def flush_now(self) -> bool:
        """See :class:`Channel`; the kernel keeps what it took."""
        return True

    async def readable(self) -> None:
        """See :class:`Channel`."""
        self._waiting += 1
        try:
            await anyio.wait_readable(self._open_socket())
        finally:
            self._waiting -= 1

    async def writable(self) -> None:
        """See :class:`Channel`."""
        self._waiting += 1
        try:
            await anyio.wait_writable(self._open_socket())
        finally:
            self._waiting -= 1

    def quiet(self) -> bool:
        """See :class:`Channel`. A peek, not a poll: it needs no descriptor below 1024, and asks the same."""
        try:
            self._open_socket().recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except (OSError, anyio.ClosedResourceError):
            return False
        return False

    def close(self) -> None:
        """See :class:`Channel`."""
        if self._closed:
            return
        self._closed = True
        if self._waiting:  # else no event loop knows this socket, and there may be none to tell
            anyio.notify_closing(self._socket)
        self._socket.close()


class TlsChannel:
    """TLS over a :class:`TcpChannel`. It closes without the closing handshake, as HTTP does, and takes
    a peer's bare close as the end of the input: HTTP's own framing says whether a body was cut."""

    __slots__ = ("_held", "_incoming", "_object", "_outgoing", "_tcp", "_unread")

    def __init__(self, tcp: TcpChannel, context: ssl.SSLContext, host: str) -> None:
        self._tcp = tcp
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._held = memoryview(b"")  # encrypted, not yet taken by the socket
        self._unread = False  # the last read ended at its limit, so that more may be here already

    @property
    def sent(self) -> int:
        """See :class:`Channel`: encrypted bytes, the handshake's among them."""
        return self._tcp.sent

    @property
    def protocol(self) -> str | None:
        """What ALPN agreed on; ``None`` when one side does not speak it."""
        return self._object.selected_alpn_protocol()

    async def handshake(self) -> None:
        """Agree on keys and check the certificate; raises ``ssl.SSLError`` or ``OSError``."""
        while True:
            try:
                self._object.do_handshake()
                finished = True
            except ssl.SSLWantReadError:
                finished = False
            except ssl.SSLError:
                with suppress(OSError):  # an alert: it tells the server what was wrong, in its own log
                    self.flush_now()
                raise
            while not self.flush_now():
                await self._tcp.writable()
            if finished:
                return
            await self._tcp.readable()
            self._fill()

    def _fill(self) -> bool:
        """Move what the socket has into TLS; false when it has nothing."""
        data = self._tcp.receive_now()
        if data:
            self._incoming.write(data)
        elif data is not None:
            self._incoming.write_eof()
        return data is not None

    def receive_now(self) -> bytes | None:
        """See :class:`Channel`. A record is 16 KiB at most, so several are read for one result."""
        parts: list[bytes] = []
        room = READ_BYTES
        self._unread = False
        while room:
            try:
                data = self._object.read(room)
            except ssl.SSLWantReadError:
                if parts:
                    break
                if not self._fill():
                    return None
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                data = b""
            if not data:
                break
            parts.append(data)
            room -= len(data)
        self._unread = not room
        return b"".join(parts)

    def send_now(self, data: memoryview) -> int:
        """See :class:`Channel`. A peer that renegotiates in the middle of a request is an ``ssl.SSLError``."""
        if not self.flush_now():
            return 0
        taken = self._object.write(data[:WRITE_BYTES])
        self.flush_now()
        return taken

    def flush_now(self) -> bool:
        """See :class:`Channel`."""
        while True:
            if not self._held:
                self._held = memoryview(self._outgoing.read())
                if not self._held:
                    return True
            count = self._tcp.send_now(self._held)
            if not count:
                return False
            self._held = self._held[count:]

    async def readable(self) -> None:
        """See :class:`Channel`."""
        if self._unread:
            await anyio.lowlevel.checkpoint()
        else:
            await self._tcp.readable()

    async def writable(self) -> None:
        """See :class:`Channel`."""
        await self._tcp.writable()

    def quiet(self) -> bool:
        """See :class:`Channel`. Anything readable counts, a session ticket too: it costs one new connection."""
        return not self._object.pending() and not self._incoming.pending and self._tcp.quiet()

    def close(self) -> None:
        """See :class:`Channel`."""
        self._tcp.close()

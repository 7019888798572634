"""The server's end of one connection: plain, or TLS over a plain one. Whatever else is said over it, its end is exact.

Plain non-blocking sockets and ``ssl.MemoryBIO``, not the stream classes of anyio: a reset, a half close, an end
without a ``close_notify`` and the moment the client closes must each be what they are called.
"""

from __future__ import annotations

import socket
import ssl
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import anyio

Result = TypeVar("Result")

RECEIVE_BYTES = 64 * 1024


class Link(ABC):
    """One connection, as the server holds it. Every method raises ``OSError`` when the client reset it."""

    def __init__(self) -> None:
        self._ahead = b""

    async def receive(self) -> bytes:
        """The next bytes of the client; none once it has closed."""
        data, self._ahead = self._ahead, b""
        return data or await self._receive()

    async def gone(self) -> None:
        """Return when the client closes or resets; bytes that come meanwhile are kept for ``receive``."""
        try:
            while data := await self._receive():
                self._ahead += data
        except OSError:
            return

    @abstractmethod
    async def _receive(self) -> bytes: ...

    @abstractmethod
    async def handshake(self) -> None:
        """What precedes the first byte of HTTP; ``ssl.SSLError`` when it fails."""

    @abstractmethod
    async def send(self, data: bytes) -> None:
        """Hand all of ``data`` to the network."""

    @abstractmethod
    async def end(self, *, announced: bool) -> None:
        """Say nothing more, and go on reading. TLS says so by a ``close_notify`` when ``announced``."""

    @abstractmethod
    def reset(self) -> None:
        """Make ``close`` a reset (RST)."""

    @abstractmethod
    def close(self) -> None:
        """Close the socket."""


class PlainLink(Link):
    """A socket that was accepted."""

    def __init__(self, peer: socket.socket) -> None:
        super().__init__()
        peer.setblocking(False)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peer = peer

    async def handshake(self) -> None:
        """Nothing precedes."""

    async def _receive(self) -> bytes:
        while True:
            try:
                return self._peer.recv(RECEIVE_BYTES)
            except BlockingIOError:
                await anyio.wait_readable(self._peer)

    async def send(self, data: bytes) -> None:
        """See :class:`Link`."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._peer.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._peer)

    def send_last(self, data: bytes) -> None:
        """Hand over what goes at once, to a client that may be gone."""
        with suppress(OSError):
            self._peer.send(data)

    async def end(self, *, announced: bool) -> None:
        """See :class:`Link`."""
        self._peer.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """See :class:`Link`."""
        self._peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        """See :class:`Link`."""
        self._peer.close()


class TlsLink(Link):
    """TLS over a plain link. A client's end is a ``close_notify`` as well as the end of its bytes."""

    def __init__(self, under: PlainLink, context: ssl.SSLContext) -> None:
        super().__init__()
        self._under = under
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._announced = False  # whether the client has sent its close_notify

    async def _run(self, operation: Callable[[], Result]) -> Result:
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._under.receive()
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            finally:
                await self._flush()  # of a failed handshake too: the alert tells the client why

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._under.send(self._outgoing.read())

    async def handshake(self) -> None:
        """See :class:`Link`."""
        await self._run(self._tls.do_handshake)

    async def _receive(self) -> bytes:
        try:
            data = await self._run(partial(self._tls.read, RECEIVE_BYTES))
        except ssl.SSLEOFError:
            return b""
        except ssl.SSLZeroReturnError:
            data = b""  # how the client's close_notify is told once ours was sent
        self._announced = not data
        return data

    async def send(self, data: bytes) -> None:
        """See :class:`Link`."""
        view = memoryview(data)
        while view:
            view = view[await self._run(partial(self._tls.write, view)) :]

    async def end(self, *, announced: bool) -> None:
        """See :class:`Link`."""
        if announced:
            self._announce()
            await self._flush()
        await self._under.end(announced=announced)

    def reset(self) -> None:
        """See :class:`Link`."""
        self._under.reset()

    def _announce(self) -> None:
        with suppress(ssl.SSLError):  # our close_notify is written; the client's, or more of its bytes, is not there
            self._tls.unwrap()

    def close(self) -> None:
        """See :class:`Link`. A client that has announced its end is told ours: some wait for it."""
        if self._announced:
            self._announce()
            self._under.send_last(self._outgoing.read())
        self._under.close()

"""A loopback peer for the transport's tests: scripts in Python, plain and TLS, on both backends."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
import trustme
from anyio.streams.tls import TLSStream

from svir_core.errors import SvirError
from svir_core.http_message import HttpRequest
from svir_transport.h11 import H11Response, H11Transport
from svir_transport.h11.dial import Phase
from svir_transport.h11.pool import Pool

_heard: list[Phase] = []
UNHEARD = _heard.append
"""For who does not ask how far a dial is."""

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Talk:
    """The server's side of one connection."""

    def __init__(self, stream: anyio.abc.ByteStream, number: int) -> None:
        self.stream = stream
        self.number = number
        self.heads: list[bytes] = []
        self._buffer = b""

    async def _more(self) -> None:
        self._buffer += await self.stream.receive()

    async def head(self) -> bytes:
        while b"\r\n\r\n" not in self._buffer:
            await self._more()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        self.heads.append(head)
        return head

    async def exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._more()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    async def request(self) -> bytes:
        """Read one request; returns its body."""
        head = await self.head()
        lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        return await self.exactly(int(lengths[0]) if lengths else 0)

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.stream.send(piece)

    async def closed(self) -> int:
        """Wait until the client closes, in whatever way; returns how many bytes came before that."""
        count = len(self._buffer)
        while True:
            try:
                count += len(await self.stream.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return count

    async def reset(self) -> None:
        raw = self.stream.extra(anyio.abc.SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await anyio.aclose_forcefully(self.stream)

    async def close(self) -> None:
        await anyio.aclose_forcefully(self.stream)


Script = Callable[[Talk], Awaitable[None]]


class Site:
    """A listening server, and what it takes to reach it."""

    def __init__(self, scheme: str, port: int, context: ssl.SSLContext | None) -> None:
        self.scheme = scheme
        self.port = port
        self.context = context
        self.talks: list[Talk] = []
        self.transports: list[H11Transport] = []

    def get(self, **changes: Any) -> HttpRequest:
        return self.request("GET", None, **changes)

    def post(self, length: int, **changes: Any) -> HttpRequest:
        return self.request("POST", length, **changes)

    def request(self, method: str, length: int | None, *, host: str = "127.0.0.1") -> HttpRequest:
        headers = [("host", "server.example"), ("x-secret", "s3cr3t")]
        if length is not None:
            headers.append(("content-length", str(length)))
        return HttpRequest(method, self.scheme, host, self.port, "/secret/path?q=1", tuple(headers))

    def transport(self, **options: Any) -> H11Transport:
        transport = H11Transport(ssl_context=self.context, **options)
        self.transports.append(transport)
        return transport


def pool_of(transport: H11Transport) -> Pool:
    """The pool of the running event loop."""
    return transport._pool()


def trust(authority: Any, context: ssl.SSLContext) -> None:
    """Make ``context`` accept what ``authority``, a ``trustme.CA``, has signed."""
    authority.configure_trust(context)


class Web:
    """Serves scripts, by plain TCP or by TLS."""

    def __init__(self, authority: trustme.CA | None) -> None:
        self.scheme = "http" if authority is None else "https"
        self.server: ssl.SSLContext | None = None
        self.client: ssl.SSLContext | None = None
        if authority is not None:
            self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate: Any = authority.issue_cert("127.0.0.1", "localhost")
            certificate.configure_cert(self.server)
            self.client = ssl.create_default_context()
            trust(authority, self.client)

    @asynccontextmanager
    async def serve(self, *scripts: Script) -> AsyncGenerator[Site]:
        """The n-th connection runs the n-th script, later ones the last; 10 s for the whole test.

        On leaving, every transport made here is closed and must have left nothing in use.
        """
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        site = Site(self.scheme, listener.extra(anyio.abc.SocketAttribute.local_port), self.client)

        async def handle(stream: anyio.abc.ByteStream) -> None:
            try:
                if self.server is not None:
                    stream = await TLSStream.wrap(
                        stream, server_side=True, ssl_context=self.server, standard_compatible=False
                    )
                talk = Talk(stream, len(site.talks))
                site.talks.append(talk)
                await scripts[min(talk.number, len(scripts) - 1)](talk)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ssl.SSLError):
                pass  # the client closed, in whatever way: what it did is judged by the test
            finally:
                await anyio.aclose_forcefully(stream)

        failure: BaseException | None = None
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(listener.serve, handle)
                try:
                    yield site
                    for transport in site.transports:
                        pool = None if transport._closed else pool_of(transport)
                        assert pool is None or pool.leased == 0
                        await transport.aclose()
                except Exception as error:  # noqa: BLE001 - raised below: the group would wrap it
                    failure = error
                    for transport in site.transports:
                        await transport.aclose()
                group.cancel_scope.cancel()
        await listener.aclose()
        if failure is not None:
            raise failure


async def blocks(*data: bytes) -> AsyncIterator[bytes]:
    for block in data:
        yield block


async def read(response: H11Response) -> bytes:
    return b"".join([data async for data in response])


async def failure(awaitable: Awaitable[object]) -> SvirError:
    """The error of ours that ``awaitable`` raises, with nothing foreign behind it, and nothing secret in it."""
    with pytest.raises(SvirError) as caught:
        await awaitable
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    for secret in ("s3cr3t", "127.0.0.1", "server.example", "/secret", "http"):
        assert secret not in repr(error) + str(error)
    return error


async def echo(talk: Talk) -> None:
    while True:
        body = await talk.request()
        await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Name: caf\xe9\r\n\r\n" % len(body), body)


async def silent(talk: Talk) -> None:
    await talk.closed()


class Body:
    """A body that counts how often it was closed."""

    def __init__(self, *data: bytes | BaseException) -> None:
        self._data = list(data)
        self.closed = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._data:
            raise StopAsyncIteration
        item = self._data.pop(0)
        if isinstance(item, BaseException):
            raise item
        return item

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed += 1

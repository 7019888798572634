"""A proxy on loopback: tunnels by CONNECT, or refuses, and tells what it was asked for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Proxy:
    """What it saw: the request line of each connection, and whether its client has closed it."""

    def __init__(self, port: int, answer: bytes | None) -> None:
        self.port = port
        self.asked: list[bytes] = []
        self.closed = anyio.Event()
        self._answer = answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, client: anyio.abc.SocketStream) -> None:
        async with client:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += await client.receive()
                self.asked.append(head.split(b"\r\n")[0])
                if self._answer is None:
                    await self._tunnel(client, head.split()[1])
                else:
                    await client.send(self._answer)
                    while True:
                        await client.receive()
            except GONE:
                self.closed.set()

    async def _tunnel(self, client: anyio.abc.SocketStream, target: bytes) -> None:
        host, _, port = target.decode().partition(":")
        async with await anyio.connect_tcp(host, int(port)) as server, anyio.create_task_group() as group:
            await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")

            async def pump(source: anyio.abc.SocketStream, sink: anyio.abc.SocketStream) -> None:
                try:
                    async for data in source:
                        await sink.send(data)
                except GONE:
                    pass  # either side has closed: so does the tunnel
                group.cancel_scope.cancel()

            group.start_soon(pump, server, client)
            await pump(client, server)
        self.closed.set()


@asynccontextmanager
async def proxy(answer: bytes | None = None) -> AsyncGenerator[Proxy]:
    """A proxy that gives ``answer`` to whatever it is asked, or tunnels; 10 s for the whole test."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    with anyio.fail_after(10):
        async with listener, anyio.create_task_group() as group:
            running = Proxy(listener.extra(anyio.abc.SocketAttribute.local_port), answer)
            group.start_soon(listener.serve, running.serve)
            yield running
            group.cancel_scope.cancel()

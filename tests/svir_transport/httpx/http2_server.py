"""An HTTP/2 server for the tests: hypercorn, with TLS, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import trustme
from hypercorn import asyncio as hypercorn
from hypercorn.config import Config

from svir_core.http_message import HttpRequest

SECONDS = 5.0


class Http2Server:
    """``/echo`` gives the body back; ``/gate`` a piece, and after :meth:`open_gate` the rest; ``/endless`` a piece.

    Attributes:
        versions: the HTTP version of each request.
        clients: the peer's address of each request: one per connection.
        headers: of the latest request.
    """

    def __init__(self, listener: socket.socket) -> None:
        self.port = int(listener.getsockname()[1])
        self.versions: list[str] = []
        self.clients: list[tuple[str, int]] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self._listener = listener.detach()  # the server closes it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._gate: asyncio.Event | None = None
        self._ready = threading.Event()
        self._arrived = threading.Event()
        self._stopped = threading.Event()

    def request(self, target: str, length: int | None = None) -> HttpRequest:
        """A request to this server."""
        headers = [("host", f"127.0.0.1:{self.port}"), ("x-secret", "s3cr3t")]
        if length is not None:
            headers.append(("content-length", str(length)))
        method = "GET" if length is None else "POST"
        return HttpRequest(method, "https", "127.0.0.1", self.port, target, tuple(headers))

    async def ready(self) -> None:
        """Wait until it serves."""
        assert await anyio.to_thread.run_sync(self._ready.wait, SECONDS)

    async def arrived(self) -> None:
        """Wait until a request for ``/endless`` is here."""
        assert await anyio.to_thread.run_sync(self._arrived.wait, SECONDS)

    async def stopped(self) -> None:
        """Wait until an ``/endless`` answer was given up by its client."""
        assert await anyio.to_thread.run_sync(self._stopped.wait, SECONDS)

    @property
    def still_at_work(self) -> bool:
        """Whether no ``/endless`` answer was given up."""
        return not self._stopped.is_set()

    def open_gate(self) -> None:
        """Let ``/gate`` go on."""
        assert self._loop is not None
        assert self._gate is not None
        self._loop.call_soon_threadsafe(self._gate.set)

    def stop(self) -> None:
        """End the server."""
        assert self._loop is not None
        assert self._over is not None
        self._loop.call_soon_threadsafe(self._over.set)

    def run(self, certificate: Path) -> None:
        """Serve until :meth:`stop`."""
        asyncio.run(self._serve(certificate))

    async def _serve(self, certificate: Path) -> None:
        self._loop, self._over, self._gate = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        config = Config()
        config.bind = [f"fd://{self._listener}"]
        config.certfile = config.keyfile = str(certificate)
        config.alpn_protocols = ["h2", "http/1.1"]
        config.accesslog = config.errorlog = None
        config.graceful_timeout = 0.1
        serve: Any = vars(hypercorn)["serve"]  # whose own annotations leave much unknown
        await serve(self._app, config, shutdown_trigger=self._over.wait)

    async def _app(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            self._ready.set()
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.versions.append(scope["http_version"])
        self.clients.append(tuple(scope["client"]))
        self.headers = list(scope["headers"])
        body = b""
        while (event := await receive()).get("more_body"):
            body += event["body"]
        body += event["body"]
        if scope["path"] == "/silent":
            self._arrived.set()
            await receive()
            self._stopped.set()
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        if scope["path"] == "/echo":
            await send({"type": "http.response.body", "body": body})
            return
        await send({"type": "http.response.body", "body": b"piece", "more_body": True})
        if scope["path"] == "/gate":
            assert self._gate is not None
            await self._gate.wait()
            self._gate.clear()
            await send({"type": "http.response.body", "body": b" and rest"})
            return
        self._arrived.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        self._stopped.set()


@asynccontextmanager
async def http2_server(authority: trustme.CA, folder: Path) -> AsyncGenerator[Http2Server]:
    """A server with a certificate for 127.0.0.1 that ``authority`` signed; 20 s for the whole test."""
    certificate: Any = authority.issue_cert("127.0.0.1")
    path = folder / "server.pem"
    certificate.private_key_and_cert_chain_pem.write_to_path(str(path))
    with anyio.fail_after(20):
        server = Http2Server(socket.create_server(("127.0.0.1", 0)))
        thread = threading.Thread(target=server.run, args=(path,), daemon=True)
        thread.start()
        try:
            await server.ready()
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                server.stop()
                await anyio.to_thread.run_sync(thread.join, SECONDS)

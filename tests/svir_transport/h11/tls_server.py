"""A TLS server of the operating system's kind: blocking, in a thread, with alerts sent as OpenSSL sends them."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from svir_core.http_message import HttpRequest
from tests.svir_transport.h11.peer import OK

LIMIT = 10.0
"""Seconds for any one wait of the server."""


class TlsServer:
    """Answers every request with ``OK``, one connection after the other."""

    def __init__(self, context: ssl.SSLContext, host: str, handle: Callable[[socket.socket], None] | None) -> None:
        self.family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listening = socket.create_server((host, 0), family=self.family)
        self.port = int(self.listening.getsockname()[1])
        self.names: list[str | None] = []
        self.certificates: list[bytes | None] = []
        self.failures: list[str] = []
        self.requests = 0
        self._context = context
        self._handle = handle or self._answer
        context.sni_callback = self._named
        self.thread = threading.Thread(target=self._serve)

    def request(self, host: str, scheme: str = "https") -> HttpRequest:
        return HttpRequest("GET", scheme, host, self.port, "/secret", (("host", "server.example"), ("x", "s3cr3t")))

    def _named(self, connection: object, name: str | None, context: ssl.SSLContext) -> None:
        self.names.append(name)

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self.listening.accept()
            except OSError:  # closed: the test is over
                return
            accepted.settimeout(LIMIT)
            with accepted:
                self._handle(accepted)

    def _answer(self, accepted: socket.socket) -> None:
        with self._context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as secure:
            try:
                secure.do_handshake()
                self.certificates.append(secure.getpeercert(binary_form=True))
                while self._one(secure):
                    self.requests += 1
            except OSError as error:
                self.failures.append(getattr(error, "reason", None) or type(error).__name__)
                _linger(secure)

    def _one(self, secure: ssl.SSLSocket) -> bool:
        received = b""
        while b"\r\n\r\n" not in received:
            data = secure.recv(65536)
            if not data:
                return False
            received += data
        secure.sendall(OK)
        return True


def _linger(secure: ssl.SSLSocket) -> None:
    """Read below TLS until the client is gone, so that no reset overtakes the alert."""
    with suppress(OSError):
        socket.socket.shutdown(secure, socket.SHUT_WR)
        while socket.socket.recv(secure, 65536):
            pass


class Flight:
    """A server that sends ``at`` bytes of its first flight, and then does what ``then`` says."""

    def __init__(self, context: ssl.SSLContext, then: Callable[[socket.socket], None]) -> None:
        self.at = 0
        self.length = 0
        self._context = context
        self._then = then

    def __call__(self, accepted: socket.socket) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._context.wrap_bio(incoming, outgoing, server_side=True)
        while not outgoing.pending:
            incoming.write(accepted.recv(65536))
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
        flight = outgoing.read()
        self.length = len(flight)
        accepted.sendall(flight[: self.at])
        self._then(accepted)


def closes(accepted: socket.socket) -> None:
    """Ends the connection in order."""
    accepted.close()


def resets(accepted: socket.socket) -> None:
    """Ends it with a reset."""
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    accepted.close()


def stalls(accepted: socket.socket) -> None:
    """Says nothing more until the client is gone."""
    with suppress(ConnectionError):
        while accepted.recv(65536):
            pass


@contextmanager
def serving(
    context: ssl.SSLContext, host: str = "127.0.0.1", handle: Callable[[socket.socket], None] | None = None
) -> Generator[TlsServer]:
    """A running server; on leaving, it has ended."""
    server = TlsServer(context, host, handle)
    server.thread.start()
    try:
        yield server
    finally:
        with suppress(OSError):
            server.listening.shutdown(socket.SHUT_RDWR)
        server.listening.close()
        server.thread.join(LIMIT)
        assert not server.thread.is_alive()

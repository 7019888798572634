"""TLS as it is and as it fails: who is trusted, what a refusal says, and whether anything was sent."""

from __future__ import annotations

import os
import pathlib
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import anyio
import attrs
import pytest
import trustme

from svir_client import AsyncClient
from svir_core import Request
from svir_core.errors import ConfigError, ProtocolError, ResponseTimeoutError, SvirError, TransportError
from svir_core.transport_fault import TLS_REASONS
from svir_transport.h11 import H11Transport
from svir_transport.h11.dial import Phase
from svir_transport.h11.fault import CERTIFICATE as CERTIFICATE_WORDS
from svir_transport.h11.fault import HANDSHAKE
from tests.svir_transport.h11.peer import Talk, Web, failure, pool_of, read, silent, trust
from tests.svir_transport.h11.tls_server import Flight, TlsServer, closes, resets, serving, stalls

pytestmark = pytest.mark.anyio

ROOT = pathlib.Path(__file__).parents[3]
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
PAST = (datetime(2001, 1, 1, tzinfo=UTC), datetime(2002, 1, 1, tzinfo=UTC))
FUTURE = (datetime(2990, 1, 1, tzinfo=UTC), datetime(2991, 1, 1, tzinfo=UTC))
VARYING = 8
"""By so much two flights of one server differ in length: a signature's numbers have no fixed size."""

CERTIFICATE = "the server's certificate was not accepted"


Span = tuple[datetime, datetime]


def server_context(authority: trustme.CA, *names: str, valid: Span | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    before, after = valid or (None, None)
    certificate: Any = authority.issue_cert(*names or ("localhost", "127.0.0.1"), not_before=before, not_after=after)
    certificate.configure_cert(context)
    return context


def client_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    trust(authority, context)
    return context


def only(context: ssl.SSLContext, version: ssl.TLSVersion) -> ssl.SSLContext:
    context.minimum_version = context.maximum_version = version
    return context


def ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@asynccontextmanager
async def using(context: ssl.SSLContext | None, **options: Any) -> AsyncGenerator[H11Transport]:
    transport = H11Transport(ssl_context=context, **options)
    with anyio.fail_after(20):
        yield transport
        assert pool_of(transport).leased == 0
        await transport.aclose()


async def refusal(server: TlsServer, context: ssl.SSLContext | None, host: str = "localhost") -> SvirError:
    """The error of a request that must fail: nothing of the certificate or the host in it."""
    async with using(context) as transport:
        error = await failure(transport.open(server.request(host), None))
    for told in ("localhost", "trustme", "other.example", "::1"):
        assert told not in str(error) + repr(error)
    assert type(error) is TransportError
    return error


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize(
    ("host", "listening", "name"),
    [("localhost", "127.0.0.1", "localhost"), ("127.0.0.1", "127.0.0.1", None), ("::1", "::1", None)],
)
async def test_names_and_addresses_of_the_certificate(
    authority: trustme.CA, host: str, listening: str, name: str | None, version: ssl.TLSVersion
) -> None:
    context = only(server_context(authority, "localhost", "127.0.0.1", "::1"), version)
    if listening == "::1" and not ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    with serving(context, listening) as server:
        async with using(client_context(authority)) as transport:
            for _ in range(2):
                assert await read(await transport.open(server.request(host), None)) == b"ok"
    assert server.names == [name]
    assert server.requests == 2


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize(
    ("names", "valid", "host", "reason"),
    [
        (("localhost",), PAST, "localhost", "it has expired"),
        (("localhost",), FUTURE, "localhost", "it is not valid yet"),
        (("other.example",), None, "localhost", "it is for another host"),
        (("localhost",), None, "127.0.0.1", "it is for another address"),
        (("127.0.0.1",), None, "localhost", "it is for another host"),
    ],
)
async def test_a_certificate_that_does_not_fit(
    authority: trustme.CA,
    names: tuple[str, ...],
    valid: Span | None,
    host: str,
    reason: str,
    version: ssl.TLSVersion,
) -> None:
    with serving(only(server_context(authority, *names, valid=valid), version)) as server:
        error = await refusal(server, client_context(authority), host)
    assert error.unsent
    assert error.detail == f"{CERTIFICATE} ({reason}): SSLCertVerificationError"
    assert server.requests == 0
    assert server.failures[0].startswith(("TLSV1_ALERT_", "SSLV3_ALERT_"))  # the server is told why, too


async def test_another_authority(authority: trustme.CA) -> None:
    with serving(server_context(authority)) as server:
        error = await refusal(server, client_context(trustme.CA()))
    assert error.unsent
    assert error.detail == f"{CERTIFICATE} (its authority is not trusted): SSLCertVerificationError"
    assert server.failures == ["TLSV1_ALERT_UNKNOWN_CA"]


CALL = """
import anyio, sys
from svir_core.errors import SvirError
from svir_core.http_message import HttpRequest
from svir_transport.h11 import H11Transport

async def main():
    request = HttpRequest("GET", "https", "localhost", int(sys.argv[1]), "/", (("host", "localhost"),))
    try:
        response = await H11Transport().open(request, None)
        print(response.head.status)
    except SvirError as error:
        print(error.unsent, error.detail)

anyio.run(main)
"""


@pytest.mark.parametrize("trusted", [True, False])
def test_the_system_says_who_is_trusted(authority: trustme.CA, tmp_path: pathlib.Path, trusted: bool) -> None:
    roots = tmp_path / "roots.pem"
    (authority if trusted else trustme.CA()).cert_pem.write_to_path(str(roots))
    with serving(server_context(authority)) as server:
        done = subprocess.run(
            [sys.executable, "-c", CALL, str(server.port)],
            env=os.environ | {"SSL_CERT_FILE": str(roots), "SSL_CERT_DIR": str(tmp_path / "none")},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    assert done.stdout.strip() == (
        "200" if trusted else f"True {CERTIFICATE} (its authority is not trusted): SSLCertVerificationError"
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_certificate(authority: trustme.CA, version: ssl.TLSVersion) -> None:
    demanding = only(server_context(authority), version)
    demanding.verify_mode = ssl.CERT_REQUIRED
    trust(authority, demanding)
    context = client_context(authority)
    certificate: Any = authority.issue_cert("user@model.example")
    certificate.configure_cert(context)
    with serving(demanding) as server:
        async with using(context) as transport:
            assert await read(await transport.open(server.request("localhost"), None)) == b"ok"
    assert server.certificates[0]


@pytest.mark.parametrize(
    ("version", "authority_of_client", "reason"),
    [
        (
            ssl.TLSVersion.TLSv1_2,
            None,
            "the server refused the handshake: no cipher in common, or no client certificate",
        ),
        (ssl.TLSVersion.TLSv1_3, None, "the server requires a client certificate"),
        (ssl.TLSVersion.TLSv1_2, trustme.CA(), "the server did not accept the client's certificate"),
        (ssl.TLSVersion.TLSv1_3, trustme.CA(), "the server did not accept the client's certificate"),
    ],
)
async def test_a_client_certificate_that_is_missing_or_unknown(
    authority: trustme.CA, version: ssl.TLSVersion, authority_of_client: trustme.CA | None, reason: str
) -> None:
    demanding = only(server_context(authority), version)
    demanding.verify_mode = ssl.CERT_REQUIRED
    trust(authority, demanding)
    context = client_context(authority)
    if authority_of_client is not None:
        certificate: Any = authority_of_client.issue_cert("user@model.example")
        certificate.configure_cert(context)
    with serving(demanding) as server:
        error = await refusal(server, context)
    assert error.detail == f"TLS failed ({reason}): SSLError"
    # By TLS 1.3 the client's handshake ends before the server has looked at its certificate: the request is under way.
    assert error.unsent is (version is ssl.TLSVersion.TLSv1_2)
    assert server.requests == 0


async def test_a_refusal_whose_reset_is_noticed_by_the_upload_first(authority: trustme.CA) -> None:
    """TLS 1.3: while the body goes out, the server says that it wants a certificate, and resets."""
    demanding = only(server_context(authority), ssl.TLSVersion.TLSv1_3)
    demanding.verify_mode = ssl.CERT_REQUIRED
    trust(authority, demanding)
    under_way, over = threading.Event(), threading.Event()

    def refuse(accepted: socket.socket) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = demanding.wrap_bio(incoming, outgoing, server_side=True)
        try:
            while True:
                incoming.write(accepted.recv(65536))
                with suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                if outgoing.pending:
                    accepted.sendall(outgoing.read())
                    assert under_way.wait(10)  # the client is done with the handshake, and sends its request
        except ssl.SSLError:
            accepted.sendall(outgoing.read())
            resets(accepted)
        finally:
            over.set()

    async def body() -> AsyncGenerator[bytes]:
        yield bytes(100_000)
        under_way.set()
        assert over.wait(10)  # the loop itself stands still: refusal and reset are both there when it goes on
        yield bytes(100_000)

    with serving(demanding, handle=refuse) as server:
        request = attrs.evolve(
            server.request("localhost"), method="POST", headers=(("host", "h"), ("content-length", "200000"))
        )
        async with using(client_context(authority)) as transport:
            error = await failure(transport.open(request, body()))
    assert error.detail == "TLS failed (the server requires a client certificate): SSLError"
    assert not error.unsent


async def test_no_version_in_common(authority: trustme.CA) -> None:
    with serving(only(server_context(authority), VERSIONS[0])) as server:
        error = await refusal(server, only(client_context(authority), VERSIONS[1]))
    assert error.unsent
    assert error.detail == "TLS failed (no version in common): SSLError"


@pytest.mark.parametrize("words", [b"220 mail ready\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 20])
async def test_a_server_that_speaks_something_else(authority: trustme.CA, words: bytes) -> None:
    def greet(accepted: socket.socket) -> None:
        accepted.sendall(words)
        stalls(accepted)

    with serving(server_context(authority), handle=greet) as server:
        error = await refusal(server, client_context(authority))
    assert error.unsent
    assert error.detail == "TLS failed (the server does not speak it on this port): SSLError"


async def test_plain_text_to_a_server_that_speaks_tls(authority: trustme.CA) -> None:
    """The request, key and all, was written: that is for ``allow_http`` to keep from happening."""
    with serving(server_context(authority)) as server:
        async with using(None) as transport:
            error = await failure(transport.open(server.request("localhost", "http"), None))
    assert isinstance(error, TransportError | ProtocolError)
    assert not error.unsent
    assert server.failures == ["HTTP_REQUEST"]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize(
    ("then", "words"),
    [
        (closes, "the server closed the connection during the TLS handshake: SSLEOFError"),
        (resets, "the server reset the connection during the TLS handshake: ConnectionResetError"),
    ],
    ids=["closes", "resets"],
)
async def test_a_server_that_leaves_at_every_byte_of_its_first_flight(
    authority: trustme.CA, version: ssl.TLSVersion, then: Callable[[socket.socket], None], words: str
) -> None:
    flight = Flight(only(server_context(authority), version), then)
    said: set[str] = set()
    with serving(server_context(authority), handle=flight) as server:
        async with using(client_context(authority)) as transport:
            await failure(transport.open(server.request("127.0.0.1"), None))
            places = flight.length - VARYING
            for at in (*range(places), *range(-VARYING, 0)):
                flight.at = at
                error = await failure(transport.open(server.request("127.0.0.1"), None))
                said.add(error.detail)
                assert type(error) is TransportError
                assert error.unsent
    assert places > 500
    assert said == {words}


@pytest.mark.parametrize("at", [0, 1, 400, -1])
async def test_a_server_that_stalls_in_the_handshake(authority: trustme.CA, at: int) -> None:
    flight = Flight(server_context(authority), stalls)
    flight.at = at
    with serving(server_context(authority), handle=flight) as server:
        async with using(client_context(authority), connect_timeout=0.2) as transport:
            error = await failure(transport.open(server.request("localhost"), None))
    assert isinstance(error, ResponseTimeoutError)
    assert error.unsent
    assert error.detail == "TLS was not agreed on within 0.2 s"


def test_the_page_has_every_word() -> None:
    page = (ROOT / "docs" / "tls.md").read_text(encoding="utf-8")
    handshake = [words for _, _, words in HANDSHAKE if "reset" not in words]
    phases = [f"{phase.value} within 10 s" for phase in Phase]
    refusals = [TLS_REASONS[reason] for reason in TLS_REASONS if reason != "TLSV1_UNRECOGNIZED_NAME"]
    for words in (*phases, *CERTIFICATE_WORDS.values(), *refusals, *handshake):
        assert words in page


def test_a_context_of_a_server() -> None:
    for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)):
        with pytest.raises(ConfigError, match="ssl_context is a server's"):
            H11Transport(ssl_context=context)


async def test_through_the_client(tls: Web) -> None:
    async def answer(talk: Talk) -> None:
        await talk.request()
        events = (
            b'data: {"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        )
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(events)
        await talk.send(head + events)
        await talk.closed()

    async with tls.serve(answer) as site:
        transport = site.transport()
        async with AsyncClient.openai(f"https://localhost:{site.port}", transport=transport) as client:
            assert (await client.complete(Request("m").user("Hi"))).text == "Hello"


async def test_through_the_client_without_its_authority(tls: Web) -> None:
    async with tls.serve(silent) as site:
        async with AsyncClient.openai(f"https://localhost:{site.port}") as client:
            error = await failure(client.complete(Request("m").user("Hi")))
        assert isinstance(error, TransportError)
        assert error.unsent
        assert error.retryable
        assert site.talks == []

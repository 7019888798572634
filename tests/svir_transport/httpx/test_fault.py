"""Foreign exceptions by name: what each becomes, over each library, and that nothing of them is left."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import anyio
import h2.exceptions
import h11
import pytest
import trustme

from svir_client.testing import MockServer, Reply
from svir_core.errors import (
    ConfigError,
    ProtocolError,
    ResponseLimitError,
    ResponseTimeoutError,
    SvirError,
    TransportError,
)
from svir_core.http_message import HttpRequest
from svir_transport.httpx import HttpxTransport
from svir_transport.httpx.fault import TABLE, translate, write_failed

SECRET = "https://user:s3cr3t@server.example/path"

CASES = {
    "ConnectTimeout": (ResponseTimeoutError, True),
    "PoolTimeout": (ResponseTimeoutError, True),
    "ReadTimeout": (ResponseTimeoutError, False),
    "WriteTimeout": (ResponseTimeoutError, False),
    "ConnectError": (TransportError, True),
    "ProxyError": (TransportError, True),
    "UnsupportedProtocol": (ConfigError, True),
    "InvalidURL": (ConfigError, True),
    "ReadError": (TransportError, False),
    "WriteError": (TransportError, False),
    "CloseError": (TransportError, False),
    "LocalProtocolError": (ProtocolError, False),
    "RemoteProtocolError": (TransportError, False),
    "DecodingError": (TransportError, False),
    "TooManyRedirects": (TransportError, False),
    "CookieConflict": (TransportError, False),
}


@pytest.mark.parametrize("name", CASES)
def test_every_exception_of_both_libraries(httpx: Any, name: str) -> None:
    kind, unsent = CASES[name]
    error = translate(getattr(httpx, name)(SECRET))
    assert type(error) is kind
    assert error.unsent is unsent
    assert error.detail.endswith(f": {name}")
    assert "s3cr3t" not in repr(error) + str(error)


def test_no_exception_of_either_library_is_left_out(httpx: Any) -> None:
    base = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, httpx.CookieConflict)
    found = {name: getattr(httpx, name) for name in httpx.__all__}
    names = {name for name, value in found.items() if isinstance(value, type) and issubclass(value, base)}
    abstract = {"HTTPError", "RequestError", "TransportError", "NetworkError", "ProtocolError", "TimeoutException"}
    by_hooks = {
        "HTTPStatusError",
        "StreamError",
        "StreamConsumed",
        "StreamClosed",
        "ResponseNotRead",
        "RequestNotRead",
        "SSEError",
    }
    assert names - abstract - by_hooks == set(CASES)


@pytest.mark.parametrize(
    "error", [RuntimeError(SECRET), KeyError(SECRET), OSError(SECRET), ExceptionGroup(SECRET, [OSError()])]
)
def test_what_nobody_has_heard_of(error: Exception) -> None:
    translated = translate(error)
    assert type(translated) is TransportError
    assert "s3cr3t" not in repr(translated) + str(translated)


def test_a_read_stream_is_a_hooks_doing(httpx: Any) -> None:
    for error in (httpx.StreamConsumed(), httpx.StreamClosed()):
        assert type(translate(error)) is ConfigError


def test_the_callers_knowledge_of_unsent_is_added() -> None:
    assert translate(RuntimeError(), unsent=True).unsent


def from_parser(httpx: Any, parser: Exception) -> SvirError:
    """As the libraries raise it: the cause hidden by a ``raise ... from None`` on the way."""
    error = httpx.RemoteProtocolError(SECRET)
    try:
        try:
            raise parser
        except h11.RemoteProtocolError:
            raise error from None
    except httpx.RemoteProtocolError as raised:
        return translate(raised)


@pytest.mark.parametrize(
    ("parser", "kind"),
    [
        (h11.RemoteProtocolError("peer closed connection without sending complete message body"), TransportError),
        (h11.RemoteProtocolError("peer unexpectedly closed connection"), TransportError),
        (h11.RemoteProtocolError("illegal chunk header"), ProtocolError),
        (h11.RemoteProtocolError("Receive buffer too long", error_status_hint=431), ResponseLimitError),
    ],
)
def test_what_the_parser_saw(httpx: Any, parser: Exception, kind: type[SvirError]) -> None:
    assert type(from_parser(httpx, parser)) is kind


def test_the_parsers_own_words_for_a_closed_connection() -> None:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab")
    while connection.next_event() is not h11.NEED_DATA:
        pass
    connection.receive_data(b"")
    with pytest.raises(h11.RemoteProtocolError, match="closed connection"):
        connection.next_event()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (h2.exceptions.InvalidBodyLengthError(5, 4), TransportError),
        (h2.exceptions.FrameTooLargeError(), ProtocolError),
        (h2.exceptions.FlowControlError(), ProtocolError),
    ],
)
def test_what_http_2_sees(error: Exception, kind: type[SvirError]) -> None:
    assert type(translate(error)) is kind


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (ssl.SSLCertVerificationError(SECRET), "the certificate was not accepted"),
        (ssl.SSLError(SECRET), "TLS failed"),
        (socket.gaierror(SECRET), "the host name could not be resolved"),
        (ConnectionRefusedError(SECRET), "no connection"),
    ],
)
def test_what_a_connection_failed_of(httpx: Any, origin: Exception, words: str) -> None:
    error = httpx.ConnectError(SECRET)
    error.__cause__ = origin
    assert translate(error).detail == f"{words}: ConnectError"


def test_a_connection_that_was_closed_under_its_reader(httpx: Any) -> None:
    error = httpx.ReadError(SECRET)
    error.__cause__ = anyio.ClosedResourceError(SECRET)
    translated = translate(error)
    assert type(translated) is ConfigError
    assert translated.detail == "the connection was closed on this side: ReadError"


def tls_error() -> ssl.SSLError:
    error = ssl.SSLError(SECRET)
    error.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    return error


@pytest.mark.parametrize("name", ["", "ReadError", "ConnectError"])
def test_what_tls_failed_of_after_the_handshake_too(httpx: Any, name: str) -> None:
    error: Exception = tls_error()
    if name:
        error = getattr(httpx, name)(SECRET)
        error.__cause__ = tls_error()
    translated = translate(error)
    assert type(translated) is TransportError
    assert translated.detail == f"TLS failed (the server requires a client certificate): {name or 'SSLError'}"


def test_a_chunk_header_without_an_end_is_no_head(httpx: Any) -> None:
    error = httpx.RemoteProtocolError("m")
    error.__cause__ = h11.RemoteProtocolError("Receive buffer too long", error_status_hint=431)
    translated = translate(error, in_body=True)
    assert type(translated) is ProtocolError
    assert translated.detail == "the response is not valid HTTP: RemoteProtocolError"


@pytest.mark.anyio
async def test_a_server_that_requires_a_client_certificate(authority: trustme.CA) -> None:
    trust: Any = authority
    here: Any = authority.issue_cert("127.0.0.1")
    context, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    here.configure_cert(context)
    trust.configure_trust(context)
    trust.configure_trust(client)
    context.verify_mode = ssl.CERT_REQUIRED
    with anyio.fail_after(10):
        async with MockServer(Reply.text("never"), tls=context) as server:
            transport = HttpxTransport(ssl_context=client)
            request = HttpRequest("GET", "https", "127.0.0.1", server.port, "/", (("host", "127.0.0.1"),))
            with pytest.raises(TransportError) as caught:
                await transport.open(request, None)
            await transport.aclose()
    assert "the server requires a client certificate" in caught.value.detail


def test_a_chain_that_bites_its_tail() -> None:
    error = OSError()
    error.__context__ = other = OSError()
    other.__context__ = error
    assert type(translate(error)) is TransportError


def test_a_write_that_failed(httpx: Any) -> None:
    assert write_failed(httpx.WriteError(SECRET))
    assert not write_failed(httpx.ReadError(SECRET))


def test_each_name_stands_once() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)

"""A client that the caller gives: its proxy and certificates count, and nothing else of it changes a request."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trustme

from svir_client.testing import Framing, MockServer, Reply
from svir_core.errors import ConfigError, ProtocolError, ResponseLimitError, ResponseTimeoutError, TransportError
from svir_core.http_message import HttpRequest
from svir_transport.httpx import HttpxTransport
from tests.svir_transport.httpx.proxy import proxy

pytestmark = pytest.mark.anyio

HEADERS = (("host", "server.example"), ("x-secret", "s3cr3t"))


def get(port: int, scheme: str = "http", host: str = "127.0.0.1", target: str = "/secret/path?q=1") -> HttpRequest:
    return HttpRequest("GET", scheme, host, port, target, HEADERS)


async def read(transport: HttpxTransport, request: HttpRequest) -> bytes:
    response = await transport.open(request, None, idle_timeout=5)
    return b"".join([data async for data in response])


@pytest.fixture(autouse=True)
async def limit() -> AsyncIterator[None]:
    with anyio.fail_after(20):
        yield


def ok(**settings: Any) -> Reply:
    return Reply(body=(b"ok",), framing=Framing.LENGTH, **settings)


def trust(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    signer: Any = authority
    signer.configure_trust(context)
    return context


def serve_as(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate: Any = authority.issue_cert(name)
    certificate.configure_cert(context)
    return context


async def test_nothing_of_the_client_changes_the_request(httpx: Any) -> None:
    async with (
        MockServer(ok(headers=(("set-cookie", "a=1"),)), ok()) as server,
        httpx.AsyncClient(
            base_url="http://elsewhere.example/base",
            params={"p": "1"},
            headers={"x-client": "1"},
            cookies={"c": "1"},
            auth=("user", "password"),
            follow_redirects=True,
            timeout=0.001,
        ) as client,
    ):
        transport = HttpxTransport(client)
        for _ in range(2):
            assert await read(transport, get(server.port)) == b"ok"
        for request in server.requests:
            assert request.headers == HEADERS
            assert (request.method, request.target) == ("GET", "/secret/path?q=1")


async def test_a_target_goes_out_as_it_is(httpx: Any) -> None:
    targets = ("/a/../b", "/a%2fb/%7Ec", "//two", "/q?x=[1]&y='", "/trailing/?")
    async with MockServer(*[ok() for _ in targets]) as server, httpx.AsyncClient() as client:
        for target in targets:
            await read(HttpxTransport(client), get(server.port, target=target))
        assert tuple(request.target for request in server.requests) == targets


async def test_the_client_stays_open(httpx: Any) -> None:
    async with MockServer(ok(), ok()) as server, httpx.AsyncClient() as client:
        transport = HttpxTransport(client)
        assert await read(transport, get(server.port)) == b"ok"
        await transport.aclose()
        with pytest.raises(ConfigError):
            await transport.open(get(server.port), None)
        assert not client.is_closed
        assert await read(HttpxTransport(client), get(server.port)) == b"ok"


async def test_a_closed_client_is_told(httpx: Any) -> None:
    client = httpx.AsyncClient()
    await client.aclose()
    with pytest.raises(ConfigError, match="is closed"):
        await HttpxTransport(client).open(get(1), None)


async def test_one_of_its_transports_will_do_and_logs_no_url(httpx: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with MockServer(ok(), ok()) as server, httpx.AsyncClient() as client, httpx.AsyncHTTPTransport() as lower:
        assert await read(HttpxTransport(lower), get(server.port)) == b"ok"
        assert caplog.text == ""
        await read(HttpxTransport(client), get(server.port))
        assert "/secret/path" in caplog.text  # as docs/httpx.md says of clients


@pytest.mark.parametrize("client", [object(), "http://proxy.example", 5])
async def test_what_is_no_client(client: object) -> None:
    with pytest.raises(ConfigError, match="AsyncClient"):
        HttpxTransport(client)


async def test_a_blocking_client_is_none(httpx: Any) -> None:
    with httpx.Client() as client, pytest.raises(ConfigError, match="AsyncClient"):
        HttpxTransport(client)


async def test_options_of_a_made_client_beside_a_given_one(httpx: Any) -> None:
    async with httpx.AsyncClient() as client:
        for options in ({"max_connections": 5}, {"http2": True}, {"ssl_context": ssl.create_default_context()}):
            settings: dict[str, Any] = options
            with pytest.raises(ConfigError, match="given client"):
                HttpxTransport(client, **settings)


async def test_a_proxy_tunnels(httpx: Any, authority: trustme.CA) -> None:
    async with (
        MockServer(ok(), tls=serve_as(authority, "127.0.0.1")) as server,
        proxy() as running,
        httpx.AsyncClient(proxy=running.url, verify=trust(authority)) as client,
    ):
        assert await read(HttpxTransport(client), get(server.port, "https")) == b"ok"
        assert running.asked == [b"CONNECT 127.0.0.1:%d HTTP/1.1" % server.port]
        assert server.requests[0].headers == HEADERS


@pytest.mark.parametrize("status", [b"407 Proxy Authentication Required", b"502 Bad Gateway"])
async def test_a_proxy_refuses(httpx: Any, authority: trustme.CA, status: bytes) -> None:
    answer = b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % status
    async with proxy(answer) as running, httpx.AsyncClient(proxy=running.url, verify=trust(authority)) as client:
        with pytest.raises(TransportError, match="the proxy refused") as caught:
            await HttpxTransport(client).open(get(443, "https"), None)
        assert caught.value.unsent
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        await running.closed.wait()


async def test_the_connect_clock_bounds_the_proxy_as_well(httpx: Any) -> None:
    async with proxy(b"") as running, httpx.AsyncClient(proxy=running.url, verify=False) as client:
        with pytest.raises(ResponseTimeoutError, match="no connection within") as caught:
            await HttpxTransport(client).open(get(443, "https"), None, connect_timeout=0.1)
        assert caught.value.unsent
        await running.closed.wait()


async def test_a_proxy_that_ends_the_connection(httpx: Any) -> None:
    async with proxy(b"no http at all\r\n\r\n") as running, httpx.AsyncClient(proxy=running.url) as client:
        with pytest.raises(ProtocolError) as caught:
            await HttpxTransport(client).open(get(443, "https"), None)
        assert caught.value.unsent


async def test_own_roots_and_a_client_certificate(httpx: Any, authority: trustme.CA) -> None:
    server_side = serve_as(authority, "127.0.0.1")
    signer: Any = authority
    signer.configure_trust(server_side)
    server_side.verify_mode = ssl.CERT_REQUIRED
    client_side = trust(authority)
    certificate: Any = authority.issue_cert("client.example")
    certificate.configure_cert(client_side)
    async with MockServer(ok(), tls=server_side) as server:
        async with httpx.AsyncClient(verify=client_side) as client:
            assert await read(HttpxTransport(client), get(server.port, "https")) == b"ok"
        async with httpx.AsyncClient(verify=trust(authority)) as client:
            with pytest.raises(TransportError):
                await read(HttpxTransport(client), get(server.port, "https"))


async def test_a_certificate_for_another_host(httpx: Any, authority: trustme.CA) -> None:
    async with (
        MockServer(ok(), tls=serve_as(authority, "other.example")) as server,
        httpx.AsyncClient(verify=trust(authority)) as client,
    ):
        with pytest.raises(TransportError, match="certificate was not accepted") as caught:
            await read(HttpxTransport(client), get(server.port, "https"))
        assert caught.value.unsent
        assert caught.value.__context__ is None


async def test_hooks_run_and_what_they_raise_is_translated(httpx: Any) -> None:
    seen: list[Any] = []

    async def note(message: Any) -> None:
        seen.append(message)

    async def refuse(response: Any) -> None:
        response.raise_for_status()

    async with (
        MockServer(Reply(500, body=(b"no",), framing=Framing.LENGTH)) as server,
        httpx.AsyncClient(event_hooks={"request": [note], "response": [refuse]}) as client,
    ):
        with pytest.raises(TransportError) as caught:
            await HttpxTransport(client).open(get(server.port), None)
        assert len(seen) == 1
        assert str(server.port) not in repr(caught.value)
        assert caught.value.__context__ is None


async def test_a_hook_that_reads_the_body_is_told_of(httpx: Any) -> None:
    async def read_it(response: Any) -> None:
        await response.aread()

    async with MockServer(ok()) as server, httpx.AsyncClient(event_hooks={"response": [read_it]}) as client:
        with pytest.raises(ConfigError, match="hook"):
            await read(HttpxTransport(client), get(server.port))


async def test_a_client_that_tells_nothing_of_its_steps(httpx: Any) -> None:
    async def answer(request: Any) -> Any:
        await request.aread()
        assert request.headers.raw == [(name.encode(), value.encode()) for name, value in HEADERS]
        if request.url.path == "/large":
            return httpx.Response(200, headers={"x": "y" * 300_000})
        if request.url.path == "/switch":
            return httpx.Response(101)
        if request.url.path == "/silent":
            await anyio.sleep_forever()
        return httpx.Response(200, stream=Endless() if request.url.path == "/endless" else Whole())

    class Whole(httpx.AsyncByteStream):  # type: ignore[misc] # of one library or the other
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b""
            yield b"ok"

    class Endless(httpx.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield bytes(64 * 1024)
                if httpx.__name__ == "httpx":  # which ends its own generators at an await, and at nothing else
                    await anyio.lowlevel.checkpoint()

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        transport = HttpxTransport(client)
        assert await read(transport, get(1)) == b"ok"
        with pytest.raises(ResponseLimitError):
            await read(transport, get(1, target="/large"))
        with pytest.raises(ProtocolError):
            await read(transport, get(1, target="/switch"))
        with pytest.raises(ResponseTimeoutError) as caught:
            await transport.open(get(1, target="/silent"), None, idle_timeout=0.05, connect_timeout=0.05)
        assert not caught.value.unsent
        response = await transport.open(get(1, target="/endless"), None)
        await anext(aiter(response))
        await response.aclose()
        assert not response.complete


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("response", "kind"),
    [
        ({"status_code": 101}, ProtocolError),
        ({"status_code": 200, "headers": {"x": "y" * 300_000}}, ResponseLimitError),
        ({"status_code": 200, "extensions": None}, TransportError),
    ],
)
async def test_a_head_that_is_refused_leaves_nothing_open(
    httpx: Any, response: dict[str, Any], kind: type[Exception], fails: bool
) -> None:
    closed: list[bool] = []

    class Body(httpx.AsyncByteStream):  # type: ignore[misc] # of one library or the other
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b""

        async def aclose(self) -> None:
            closed.append(True)
            if fails:
                raise LookupError

    class Given(httpx.AsyncBaseTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            made = httpx.Response(**{**response, "stream": Body()})
            if "extensions" in response:
                made.extensions = None  # of no library, and so of a transport that somebody wrote
            return made

    transport = HttpxTransport(Given())
    with pytest.raises(kind) as caught:
        await transport.open(get(1), None)
    assert caught.value.__context__ is None
    assert closed == [True]
    assert not transport._sites.here().calls._under_way


class _Slotted:
    __slots__ = ()


@pytest.mark.parametrize("extensions", [{}, {"network_stream": _Slotted()}], ids=["none", "no weak reference"])
async def test_http_2_over_a_transport_that_shows_no_connection(httpx: Any, extensions: dict[str, object]) -> None:
    class Body(httpx.AsyncByteStream):  # type: ignore[misc] # of one library or the other
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"ok"

    class Given(httpx.AsyncBaseTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            return httpx.Response(200, stream=Body(), extensions={"http_version": b"HTTP/2", **extensions})

    transport = HttpxTransport(Given())
    assert await read(transport, get(1)) == b"ok"
    left = await transport.open(get(1), None)
    await left.aclose()
    assert not transport._sites.here().calls._under_way


async def test_a_redirect_to_what_is_no_url(httpx: Any) -> None:
    """httpx's client reads where a redirect points, though it does not follow, and fails of it: docs/httpx.md."""
    location = (("location", "http://h:port/"),)
    async with MockServer(*[ok(status=301, headers=location)] * 2) as server, httpx.AsyncClient() as client:
        made = HttpxTransport()
        assert await read(made, get(server.port)) == b"ok"
        await made.aclose()
        given = HttpxTransport(client)
        if httpx.__name__ == "httpx":
            with pytest.raises(TransportError) as caught:
                await read(given, get(server.port))
            assert not caught.value.unsent
        else:
            assert await read(given, get(server.port)) == b"ok"

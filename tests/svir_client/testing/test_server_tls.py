"""The scripted server over https: the same replies, and ends that are what they are called."""

from __future__ import annotations

import ssl

import anyio
import anyio.abc
import anyio.streams.tls
import pytest
import trustme

from svir_client.testing import End, Framing, Gate, MockServer, Reply

pytestmark = pytest.mark.anyio

REQUEST = b'POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n{"a":1}'


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server_side(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  (pyOpenSSL)
    return context


@pytest.fixture(scope="module")
def client_side(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  (pyOpenSSL)
    return context


async def connect(server: MockServer, context: ssl.SSLContext) -> anyio.streams.tls.TLSStream:
    return await anyio.connect_tcp("127.0.0.1", server.port, tls=True, ssl_context=context)


async def read_all(stream: anyio.abc.ByteStream) -> bytes:
    data = b""
    try:
        while True:
            data += await stream.receive()
    except anyio.EndOfStream:
        return data


async def read_until(stream: anyio.abc.ByteStream, end: bytes) -> None:
    data = b""
    while not data.endswith(end):
        data += await stream.receive()


async def test_https_is_the_same_server(server_side: ssl.SSLContext, client_side: ssl.SSLContext) -> None:
    kept = Reply.stream(b"x" * 200_000, b"c", framing=Framing.CHUNKED)
    with anyio.fail_after(5):
        async with MockServer(kept, Reply.document({"n": 2}), tls=server_side) as server:
            assert server.origin.startswith("https://127.0.0.1:")
            async with await connect(server, client_side) as stream:
                await stream.send(REQUEST + REQUEST)
                data = await read_all(stream)
                assert b"x" * 200_000 + b"\r\n1\r\nc\r\n0\r\n\r\nHTTP/1.1 200" in data
                assert data.endswith(b'{"n": 2}')
            await server.wait_closed()
            assert [request.json() for request in server.requests] == [{"a": 1}] * 2
            assert server.connections[0].fault is None


async def test_a_cut_reply_ends_without_a_close_notify(
    server_side: ssl.SSLContext, client_side: ssl.SSLContext
) -> None:
    with anyio.fail_after(5):
        async with MockServer(Reply.stream(b"abc", cut=2), tls=server_side) as server:
            stream = await connect(server, client_side)
            await stream.send(REQUEST)
            with pytest.raises(anyio.BrokenResourceError):
                await read_all(stream)
            await anyio.aclose_forcefully(stream)
            await server.wait_closed()


async def test_a_reset_is_a_reset(server_side: ssl.SSLContext, client_side: ssl.SSLContext) -> None:
    with anyio.fail_after(5):
        async with MockServer(Reply.stream(b"ab", end=End.RESET), tls=server_side) as server:
            stream = await connect(server, client_side)
            await stream.send(REQUEST)
            with pytest.raises(anyio.BrokenResourceError):
                await read_all(stream)
            await anyio.aclose_forcefully(stream)


@pytest.mark.parametrize("forced", [False, True])
async def test_a_client_that_leaves_is_seen(
    server_side: ssl.SSLContext, client_side: ssl.SSLContext, forced: bool
) -> None:
    gate = Gate()
    replies = Reply.stream(b"ab", gate, b"cd"), Reply.silence()
    with anyio.fail_after(5):
        async with MockServer(*replies, tls=server_side) as server:
            for _ in replies:
                stream = await connect(server, client_side)
                await stream.send(REQUEST)
                await server.wait_requests(server.connection_count)
                if server.connection_count == 1:
                    await read_until(stream, b"ab")
                await (anyio.aclose_forcefully(stream) if forced else stream.aclose())
                await server.wait_closed()
                assert server.open_connections == 0


async def test_a_client_that_does_not_trust_it_is_a_fault(server_side: ssl.SSLContext) -> None:
    with anyio.fail_after(5):
        async with MockServer(tls=server_side) as server:
            with pytest.raises(ssl.SSLCertVerificationError):
                await connect(server, ssl.create_default_context())
            await server.wait_closed()
            assert server.connections[0].fault == "UNEXPECTED_EOF_WHILE_READING"


async def test_plain_http_to_it_is_a_fault(server_side: ssl.SSLContext) -> None:
    with anyio.fail_after(5):
        async with MockServer(tls=server_side) as server, await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(REQUEST)
            assert b"HTTP/1.1" not in await read_all(stream)
            await server.wait_closed()
            assert server.connections[0].fault == "HTTP_REQUEST"


async def test_bytes_after_a_request_are_counted(server_side: ssl.SSLContext, client_side: ssl.SSLContext) -> None:
    with anyio.fail_after(5):
        async with MockServer(Reply.stream(b"ab"), tls=server_side) as server:
            async with await connect(server, client_side) as stream:
                await stream.send(REQUEST + b"more")
                assert (await read_all(stream)).endswith(b"ab")
            await server.wait_closed()
            assert server.requests[0].complete

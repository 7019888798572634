from __future__ import annotations

import errno
import socket
import struct

import anyio
import anyio.abc
import pytest

from svir_client import AsyncClient
from svir_client.testing import End, Framing, Gate, MockServer, Reply
from svir_core import Request, SvirError

pytestmark = pytest.mark.anyio

REQUEST = b'POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n{"a":1}'


async def connect(server: MockServer) -> anyio.abc.SocketStream:
    return await anyio.connect_tcp("127.0.0.1", server.port)


async def read_all(stream: anyio.abc.SocketStream) -> bytes:
    data = bytearray()
    try:
        while True:
            data += await stream.receive()
    except anyio.EndOfStream:
        return bytes(data)


async def test_replies_come_in_order_and_requests_are_recorded() -> None:
    with anyio.fail_after(5):
        async with MockServer(Reply.stream(b"one"), Reply.document({"n": 2}, status=404)) as server:
            for expected in (b"one", b'{"n": 2}'):
                async with await connect(server) as stream:
                    await stream.send(REQUEST)
                    assert (await read_all(stream)).endswith(b"\r\n\r\n" + expected)
            first, second = server.requests
            assert (first.method, first.target, first.header("HOST"), first.json()) == ("POST", "/v1/x", "a", {"a": 1})
            assert first.complete
            assert (first.connection, second.connection) == (0, 1)
            assert first.header("nothing") is None
            assert first.header_values("content-length") == ("7",)
            assert server.unasked == 0
            assert server.unscripted == 0
            await server.wait_closed()


async def test_a_request_beyond_the_script_gets_500_and_is_counted() -> None:
    with anyio.fail_after(5):
        async with MockServer() as server, await connect(server) as stream:
            await stream.send(REQUEST)
            assert (await read_all(stream)).startswith(b"HTTP/1.1 500 ")
            assert server.unscripted == 1


async def test_an_error_says_that_the_script_is_over() -> None:
    async with MockServer() as server, AsyncClient.openai(server.origin) as client:
        with anyio.fail_after(5), pytest.raises(SvirError) as caught:
            await client.complete(Request("m").user("hi"))
    assert caught.value.server_message() == "this request is beyond the script: there were fewer replies"


async def test_a_framed_reply_keeps_the_connection() -> None:
    with anyio.fail_after(5):
        replies = (
            Reply.stream(b"ab", b"c", framing=Framing.LENGTH),
            Reply.stream(b"ab", b"c", framing=Framing.CHUNKED),
            Reply(204),
        )
        async with MockServer(*replies) as server, await connect(server) as stream:
            await stream.send(REQUEST + REQUEST + REQUEST)
            data = await read_all(stream)
            assert b"content-length: 3\r\n\r\nabcHTTP/1.1" in data
            assert b"chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\nHTTP/1.1 204 No Content" in data
            assert len(server.connections) == 1


@pytest.mark.parametrize(
    ("framing", "tail"), [(Framing.CLOSE, b"\r\n\r\nab"), (Framing.CHUNKED, b"2\r\nab\r\n"), (Framing.LENGTH, b"ab")]
)
async def test_a_cut_reply_never_ends_its_body(framing: Framing, tail: bytes) -> None:
    with anyio.fail_after(5):
        reply = Reply.stream(b"abc", framing=framing, cut=2)
        async with MockServer(reply) as server, await connect(server) as stream:
            await stream.send(REQUEST)
            assert (await read_all(stream)).endswith(tail)


async def test_a_stalled_reply_sees_the_client_close() -> None:
    with anyio.fail_after(5):
        async with MockServer(Reply.stream(b"ab", end=End.STALL), Reply.silence()) as server:
            for number in range(2):
                stream = await connect(server)
                await stream.send(REQUEST)
                await server.wait_requests(number + 1)
                assert not server.connections[number].closed.is_set()
                await stream.aclose()
                await server.wait_closed()


async def test_a_reset_is_a_reset() -> None:
    with anyio.fail_after(5):
        async with MockServer(Reply.stream(b"ab", end=End.RESET)) as server, await connect(server) as stream:
            await stream.send(REQUEST)
            with pytest.raises(anyio.BrokenResourceError):
                await read_all(stream)


async def test_a_gate_holds_the_rest_until_it_is_opened() -> None:
    with anyio.fail_after(5):
        gate = Gate()
        async with MockServer(Reply.stream(b"ab", gate, b"cd")) as server, await connect(server) as stream:
            await stream.send(REQUEST)
            data = b""
            while not data.endswith(b"ab"):
                data += await stream.receive()
            await gate.reached()
            gate.open()
            assert await read_all(stream) == b"cd"


async def test_a_client_that_leaves_at_a_gate_is_seen() -> None:
    with anyio.fail_after(5):
        gate = Gate()
        async with MockServer(Reply.stream(b"ab", gate, b"cd")) as server:
            async with await connect(server) as stream:
                await stream.send(REQUEST)
                await gate.reached()
            await server.wait_closed()


async def test_a_client_that_resets_at_a_gate_is_seen() -> None:
    with anyio.fail_after(5):
        gate = Gate()
        async with MockServer(Reply.stream(b"ab", gate, b"cd")) as server:
            stream = await connect(server)
            await stream.send(REQUEST)
            await gate.reached()
            raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await anyio.aclose_forcefully(stream)
            await server.wait_closed()
            assert server.open_connections == 0


async def test_what_a_client_sends_at_a_gate_is_its_next_request() -> None:
    with anyio.fail_after(5):
        gate = Gate()
        replies = Reply.stream(b"ab", gate, b"cd", framing=Framing.CHUNKED), Reply.stream(b"ef")
        async with MockServer(*replies) as server, await connect(server) as stream:
            await stream.send(REQUEST)
            await gate.reached()
            await stream.send(REQUEST)
            gate.open()
            assert (await read_all(stream)).endswith(b"ef")
            assert server.request_count == 2


async def test_a_client_that_leaves_inside_its_body_made_no_request() -> None:
    with anyio.fail_after(5):
        async with MockServer(Reply(204)) as server:
            async with await connect(server) as stream:
                await stream.send(REQUEST[:-3])
            await server.wait_connections(1)
            await server.wait_closed()
            assert (server.request_count, server.open_connections) == (0, 0)


async def test_a_reply_waits_for_a_client_that_reads_later() -> None:
    size = 30_000_000  # more than any buffer between the two takes
    with anyio.fail_after(20):
        async with MockServer(Reply.stream(b"x" * size)) as server, await connect(server) as stream:
            await stream.send(REQUEST)
            await server.wait_requests(1)
            assert len(await read_all(stream)) > size


async def test_an_early_answer_does_not_wait_for_the_body() -> None:
    with anyio.fail_after(5):
        early = Reply(413, before_body=True, informational=(100,))
        async with MockServer(early) as server, await connect(server) as stream:
            await stream.send(REQUEST[:-3])
            data = await read_all(stream)
            assert data.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 ")
            assert not server.requests[0].complete


async def test_bytes_that_are_no_http_are_a_fault_of_the_connection() -> None:
    with anyio.fail_after(5):
        async with MockServer() as server:
            async with await connect(server) as stream:
                await stream.send(b"\x16\x03\x01\x00\xa5\r\n\r\n")
                await server.wait_connections(1)
            await server.wait_closed()
            assert server.connections[0].fault is not None
            assert server.requests == ()


async def test_a_raw_head_is_sent_as_it_is() -> None:
    with anyio.fail_after(5):
        async with MockServer(Reply(raw=b"HTTP/9 nonsense\r\n\r\n")) as server, await connect(server) as stream:
            await stream.send(REQUEST)
            assert await read_all(stream) == b"HTTP/9 nonsense\r\n\r\n"


async def test_an_unknown_status_has_a_phrase_all_the_same() -> None:
    assert Reply(529).head().startswith(b"HTTP/1.1 529 Status\r\n")


async def test_bytes_after_a_request_are_counted() -> None:
    with anyio.fail_after(5):
        async with MockServer(Reply.stream(b"ab")) as server:
            async with await connect(server) as stream:
                await stream.send(REQUEST)
                await read_all(stream)
                await stream.send(b"more")
            await server.wait_closed()
            assert server.connections[0].trailing == 4


async def test_outside_of_its_block_it_has_no_port() -> None:
    with pytest.raises(RuntimeError):
        _ = MockServer().origin
    with pytest.raises(RuntimeError):
        await MockServer().__aexit__(None, None, None)


def failing_accepts(monkeypatch: pytest.MonkeyPatch, *errors: OSError) -> None:
    """The next accepts fail so, one after the other."""
    left = list(errors)
    accept = socket.socket.accept

    def failing(listener: socket.socket) -> tuple[socket.socket, object]:
        if left:
            raise left.pop(0)
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", failing)


async def test_a_client_that_gives_up_before_it_is_accepted_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_accepts(monkeypatch, ConnectionAbortedError(), BlockingIOError())
    with anyio.fail_after(5):
        async with MockServer(Reply.stream(b"one")) as server, await connect(server) as stream:
            await stream.send(REQUEST)
            assert (await read_all(stream)).endswith(b"one")


async def test_a_server_that_cannot_accept_ends_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.EMFILE, "Too many open files")
    failing_accepts(monkeypatch, full)
    with anyio.fail_after(5), pytest.raises(OSError, match="Too many open files") as caught:
        async with MockServer() as server, await connect(server) as stream:
            await stream.receive()  # what would never come
    assert caught.value is full
    assert caught.value.__suppress_context__


async def fail_beside_a_server() -> None:
    async with MockServer() as server:
        try:
            async with await connect(server) as stream:
                await stream.receive()
        finally:
            _ = 1 // 0


async def test_a_failure_of_the_test_itself_comes_before_the_server_s(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_accepts(monkeypatch, OSError(errno.EMFILE, "Too many open files"))
    with anyio.fail_after(5), pytest.raises(ZeroDivisionError) as caught:
        await fail_beside_a_server()
    assert "Too many open files" in caught.value.__notes__[0]

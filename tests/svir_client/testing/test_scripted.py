"""A transport in memory says what a server over sockets would: each reply is read both ways and compared."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, Transport
from svir_client.testing import (
    End,
    Framing,
    Gate,
    MockServer,
    Outcome,
    Pause,
    RecordedRequest,
    Reply,
    ScriptedTransport,
    cancelled_at_every_await,
)
from svir_core.errors import (
    AttachmentError,
    ConfigError,
    ResponseTimeoutError,
    SvirError,
    TransportError,
)
from svir_core.http_message import HttpRequest
from svir_core.request import Request
from svir_transport.h11 import H11Transport

pytestmark = pytest.mark.anyio

HI = Request("m").user("hi")
URL = "http://127.0.0.1:1"


def request(method: str = "POST", length: int | None = 2, port: int = 1) -> HttpRequest:
    headers = (("host", "127.0.0.1"),) + (() if length is None else (("content-length", str(length)),))
    return HttpRequest(method, "http", "127.0.0.1", port, "/v1/x?y", headers)


class Blocks:
    """A body that tells whether it was closed."""

    def __init__(self, *blocks: bytes) -> None:
        self._blocks = list(blocks)
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._blocks:
            raise StopAsyncIteration
        return self._blocks.pop(0)

    async def aclose(self) -> None:
        self.closed = True


async def told(transport: Transport, sent: HttpRequest, idle: float) -> tuple[Any, ...]:
    """What a reader of the response sees: status, bytes, whether it is complete, the class of the error."""
    data = b""
    response = None
    try:
        response = await transport.open(sent, None, idle_timeout=idle)
        async for piece in response:
            assert piece
            data += piece
    except SvirError as error:
        return response and response.head.status, data, response and response.complete, type(error)
    return response.head.status, response.head.headers, data, response.complete, None


BODY = (b"data: a\n\n", b"data: b\n\n")
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: %b\r\n\r\n" % (b"y" * 17_000)
REPLIES = {
    **{f"whole, {framing}": Reply.stream(*BODY, framing=framing) for framing in Framing},
    **{f"cut, {framing}": Reply.stream(*BODY, framing=framing, cut=12) for framing in Framing},
    **{f"cut at 0, {framing}": Reply.stream(*BODY, framing=framing, cut=0) for framing in Framing},
    **{f"reset, {framing}": Reply.stream(*BODY, framing=framing, cut=12, end=End.RESET) for framing in Framing},
    **{f"closed, {framing}": Reply.stream(*BODY, framing=framing, end=End.CLOSE) for framing in Framing},
    **{f"stalled, {framing}": Reply.stream(*BODY, framing=framing, end=End.STALL, cut=3) for framing in Framing},
    "no content": Reply(204, framing=Framing.LENGTH),
    "head alone": Reply(200, {"x-a": "b"}),
    "interim": Reply(200, body=(b"x",), informational=(100, 103)),
    "pauses": Reply.stream(Pause(0.001), b"a", Pause(0.001), b"b", before_head=Pause(0.001)),
    "silence": Reply.silence(),
    "drop": Reply.drop(),
    "drop by reset": Reply.drop(reset=True),
    "no HTTP": Reply(raw=b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    "half a head": Reply(raw=b"HTTP/1.1 200 OK\r\ncontent-"),
    "no chunks": Reply.stream(b"zz\r\n", raw=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
    "more than its length": Reply(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab"),
    "more than 64 interim heads": Reply(200, body=(b"x",), informational=(102,) * 65),
    "a head of 17 KB": Reply(raw=b"", body=(_HEAD[:9000], _HEAD[9000:])),
    "a head that is too large": Reply(
        raw=b"HTTP/1.1 200 OK\r\nx: ", body=(b"y" * 150_000, b"y" * 150_000, b"\r\n\r\n")
    ),
    "another protocol": Reply(raw=b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n"),
    "unscripted": None,
}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
async def test_it_says_what_a_server_says(reply: Reply | None, method: str) -> None:
    script = () if reply is None else (reply,)
    idle = 0.05 if reply and (reply.stall_head or reply.end is End.STALL) else 20.0
    with anyio.fail_after(20):
        async with MockServer(*script) as server:
            transport, scripted = H11Transport(), ScriptedTransport(*script)
            over_sockets = await told(transport, request(method, None, server.port), idle)
            in_memory = await told(scripted, request(method, None), idle)
            await transport.aclose()
    assert in_memory == over_sockets
    assert scripted.open_connections == 0
    assert (scripted.unscripted, scripted.unasked) == (server.unscripted, server.unasked)


@pytest.mark.parametrize("framing", list(Framing))
async def test_pieces_come_one_by_one(framing: Framing) -> None:
    gate = Gate()
    with anyio.fail_after(20):
        transport = ScriptedTransport(Reply.stream(b"ab", gate, b"c", b"d" * 100_000, framing=framing))
        response = await transport.open(request(length=None), None)
        assert await anext(aiter(response)) == b"ab"
        gate.open()
        assert [piece async for piece in response] == [b"c", b"d" * 100_000]
        assert response.complete
        assert [piece async for piece in response] == []


async def test_a_client_needs_no_sockets() -> None:
    transport = ScriptedTransport(Reply.text("Hel", "lo"), Reply.models("a"))
    with anyio.fail_after(20):
        async with AsyncClient.openai(URL, transport=transport) as client:
            assert (await client.complete(HI)).text == "Hello"
            assert len(await client.list_models()) == 1
    first, second = transport.requests
    assert (first.method, first.target, first.json()["model"], first.complete) == (
        "POST",
        "/v1/chat/completions",
        "m",
        True,
    )
    assert (first.connection, second.connection, transport.request_count) == (0, 1, 2)


async def test_the_function_is_asked_and_the_latest_are_remembered() -> None:
    async def answer(seen: RecordedRequest) -> Outcome:
        await anyio.lowlevel.checkpoint()
        return TransportError("enough") if transport.request_count > 3 else Reply.text(seen.json()["model"])

    with anyio.fail_after(20):
        transport = ScriptedTransport(Reply.text("first"), answer=answer, remember=2)
        client = AsyncClient.openai(URL, transport=transport)
        assert [(await client.complete(HI)).text for _ in range(3)] == ["first", "m", "m"]
        with pytest.raises(TransportError, match="enough"):
            await client.complete(HI)
        assert len(await transport.wait_requests(4)) == 2
        assert transport.request_count == 4


async def test_a_scripted_error_is_raised_and_one_that_was_unsent_is_no_request() -> None:
    bodies = Blocks(b"{}"), Blocks(b"{}")
    with anyio.fail_after(20):
        transport = ScriptedTransport()
        transport.add(TransportError("refused", unsent=True), TransportError("reset"))
        for body, unsent in zip(bodies, (True, False), strict=True):
            with pytest.raises(TransportError) as caught:
                await transport.open(request(), body)
            assert caught.value.unsent is unsent
            assert body.closed
    assert [seen.body for seen in transport.requests] == [b"{}"]


@pytest.mark.parametrize("blocks", [(b"{", b"}", b"!"), (b"{",)])
async def test_a_body_has_the_length_it_declares(blocks: tuple[bytes, ...]) -> None:
    body = Blocks(*blocks)
    with anyio.fail_after(20), pytest.raises(AttachmentError):
        await ScriptedTransport(Reply(204)).open(request(), body)
    assert body.closed


async def test_an_early_answer_reads_no_body() -> None:
    body = Blocks(b"{}")
    with anyio.fail_after(20):
        transport = ScriptedTransport(Reply(413, before_body=True))
        response = await transport.open(request(), body)
        assert response.head.status == 413
        assert await anext(body) == b"{}"
        await response.aclose()
    assert not transport.requests[0].complete


@pytest.mark.parametrize("settings", [{"idle_timeout": 0}, {"connect_timeout": -1}])
async def test_timeouts_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="timeout"):
        await ScriptedTransport(Reply(204)).open(request(length=None), None, **settings)


async def test_a_closed_transport_closes_its_responses() -> None:
    with anyio.fail_after(20):
        transport = ScriptedTransport(Reply.stream(b"a", end=End.STALL))
        response = await transport.open(request(length=None), None, connect_timeout=1)
        assert transport.open_connections == 1
        await transport.aclose()
        assert transport.open_connections == 0
        with pytest.raises(ConfigError, match="closed"):
            await anext(aiter(response))
        with pytest.raises(ConfigError, match="closed"):
            await transport.open(request(length=None), None)


async def test_closing_the_transport_ends_a_read_that_waits() -> None:
    with anyio.fail_after(20):
        transport = ScriptedTransport(Reply.stream(b"a", Pause(30), b"b"))
        response = await transport.open(request(length=None), None)
        assert await anext(aiter(response)) == b"a"

        async def read() -> None:
            with pytest.raises(ConfigError, match="closed on this side"):
                await anext(aiter(response))

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await transport.aclose()


@pytest.mark.parametrize(
    ("reply", "limit", "complete"),
    [
        (Reply.stream(b"abc", b"d", framing=Framing.CHUNKED), 10, True),
        (Reply.stream(b"abc", b"d", framing=Framing.CHUNKED), 2, False),
        (Reply.stream(b"abc", end=End.STALL), 10, False),
        (Reply.stream(b"abc", framing=Framing.CHUNKED, end=End.RESET), 10, False),
    ],
)
async def test_draining_ends(reply: Reply, limit: int, complete: bool) -> None:
    with anyio.fail_after(20):
        transport = ScriptedTransport(reply)
        response = await transport.open(request(length=None), None)
        await response.drain(limit, 0.01)
        assert response.complete is complete
        assert transport.open_connections == 0


async def test_a_cancelled_call_leaves_no_response_open() -> None:
    @asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, None]]:
        transport = ScriptedTransport(Reply.stream(b"a", b"b", framing=Framing.CHUNKED, informational=(100,)))
        body = Blocks(b"{}")

        async def call() -> None:
            response = await transport.open(request(), body)
            assert [piece async for piece in response] == [b"a", b"b"]

        yield call()
        assert transport.open_connections == 0
        assert body.closed

    with anyio.fail_after(20):
        assert await cancelled_at_every_await(attempt) >= 5


async def test_an_idle_timeout_counts_pauses_together() -> None:
    with anyio.fail_after(20):
        transport = ScriptedTransport(Reply.stream(b"a", Pause(30), b"b"))
        response = await transport.open(request(length=None), None, idle_timeout=0.01)
        assert await anext(aiter(response)) == b"a"
        with pytest.raises(ResponseTimeoutError, match=r"0\.01 s"):
            await anext(aiter(response))
        assert transport.open_connections == 0

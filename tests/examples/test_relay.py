from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import orjson
import pytest

from examples import relay
from svir_client import files
from svir_client.testing import End, Framing, Gate, MockServer, Reply
from svir_core import Body, Endpoint, HttpRequest, TransportError
from svir_core.response import Completion, Timing, Usage
from svir_transport.h11 import H11Transport

pytestmark = pytest.mark.anyio

TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"a secret"}}]}\n\n'
END = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    b"data: [DONE]\n\n"
)
AFTER = b": and a comment after the end\n\n"
ASKED = b'{"model": "m",  "stream": true, "unknown": [1]}'


class Reports:
    """What the relay tells, and a wait for it."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[str](10)

    def __call__(self, text: str) -> None:
        self._send.send_nowait(text)

    async def next(self) -> str:
        with anyio.fail_after(5):
            return await self._receive.receive()

    def close(self) -> None:
        self._send.close()
        self._receive.close()


class Relay:
    """A relay before ``server``, and a caller of it."""

    def __init__(self, url: str, reports: Reports, transport: H11Transport) -> None:
        self.endpoint = Endpoint.parse(url)
        self.reports = reports
        self.transport = transport

    async def ask(self, method: str = "POST", path: str = "/v1/chat/completions", body: bytes = ASKED) -> Any:
        request: HttpRequest = self.endpoint.request(
            method, self.endpoint.at_base(path), "text/event-stream", body=Body((body,))
        )
        assert request.body is not None
        with anyio.fail_after(5):
            return await self.transport.open(request, files.stream(request.body))

    async def told(self, **options: Any) -> tuple[int, bytes]:
        response = await self.ask(**options)
        with anyio.fail_after(5):
            data = b"".join([data async for data in response])
        await response.aclose()
        return response.head.status, data


@asynccontextmanager
async def relaying(origin: str, key: str | None = None) -> AsyncGenerator[Relay]:
    reports, transport = Reports(), H11Transport()
    async with anyio.create_task_group() as group:
        group.start_soon(relay.run, Endpoint.parse(origin, api_key=key), 0, reports)
        words = await reports.next()
        yield Relay(words.removeprefix("listening on "), reports, transport)
        group.cancel_scope.cancel()
    await transport.aclose()
    reports.close()


async def test_bytes_pass_unchanged_and_the_outcome_is_told() -> None:
    reply = Reply.stream(TEXT, END + AFTER, framing=Framing.CHUNKED)
    async with MockServer(reply) as server, relaying(server.origin, "hunter2") as caller:
        assert await caller.told() == (200, TEXT + END + AFTER)
        assert await caller.reports.next() == "stop, 3 + 2 tokens"
        (request,) = server.requests
        assert request.body == ASKED
        assert request.target == "/v1/chat/completions"
        assert request.header("authorization") == "Bearer hunter2"


async def test_each_piece_is_passed_on_at_once() -> None:
    gate = Gate()
    async with MockServer(Reply.stream(TEXT, gate, END)) as server, relaying(server.origin) as caller:
        response = await caller.ask()
        with anyio.fail_after(5):
            assert await anext(response) == TEXT
            gate.open()
            rest = b"".join([data async for data in response])
        assert rest == END
        await response.aclose()


async def test_what_the_decoder_cannot_read_passes_all_the_same() -> None:
    async with MockServer(Reply.stream(b"data: {]\n\ndata: 1\n\n")) as server, relaying(server.origin) as caller:
        assert await caller.told() == (200, b"data: {]\n\ndata: 1\n\n")
        assert (await caller.reports.next()).startswith("truncated_stream: ")


async def test_a_refusal_passes_with_its_status() -> None:
    reply = Reply.document({"error": {"message": "a secret"}}, 429)
    async with MockServer(reply) as server, relaying(server.origin) as caller:
        status, body = await caller.told()
        assert (status, orjson.loads(body)) == (429, {"error": {"message": "a secret"}})
        assert await caller.reports.next() == "status 429"


async def test_an_answer_that_breaks_off_breaks_off_for_the_caller_too() -> None:
    reply = Reply.stream(TEXT, END, framing=Framing.CHUNKED, cut=len(TEXT), end=End.CLOSE)
    async with MockServer(reply) as server, relaying(server.origin) as caller:
        response = await caller.ask()
        with anyio.fail_after(5):
            assert await anext(response) == TEXT
            with pytest.raises(TransportError):
                await anext(response)
        await response.aclose()
        assert (await caller.reports.next()).startswith("cut off, transport: ")


async def test_a_caller_that_leaves_ends_the_upstream_call() -> None:
    async with MockServer(Reply.stream(TEXT, end=End.STALL)) as server, relaying(server.origin) as caller:
        response = await caller.ask()
        with anyio.fail_after(5):
            assert await anext(response) == TEXT
            await response.aclose()
            assert await caller.reports.next() == "the caller left"
            await server.connections[0].closed.wait()


async def test_a_server_that_is_not_there() -> None:
    async with MockServer() as server:
        origin = server.origin
    async with relaying(origin) as caller:
        status, body = await caller.told()
        assert status == 502
        assert orjson.loads(body)["error"]["type"] == "relay_error"
        assert (await caller.reports.next()).startswith("transport: ")


async def test_other_requests_are_refused() -> None:
    async with MockServer() as server, relaying(server.origin) as caller:
        assert (await caller.told(path="/v1/models"))[0] == 404
        assert (await caller.told(method="PUT"))[0] == 404
        async with await anyio.connect_tcp("127.0.0.1", caller.endpoint.port) as stream:
            await stream.send(b"nonsense\r\n\r\n")
            with anyio.fail_after(5):
                assert (await stream.receive()).startswith(b"HTTP/1.1 400 ")
        assert server.requests == ()


async def test_a_body_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MOST", 10)
    async with MockServer() as server, relaying(server.origin) as caller:
        assert (await caller.told())[0] == 413


async def test_a_caller_may_wait_for_100_continue() -> None:
    async with (
        MockServer(Reply.stream(TEXT, END)) as server,
        relaying(server.origin) as caller,
        await anyio.connect_tcp("127.0.0.1", caller.endpoint.port) as stream,
    ):
        await stream.send(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        )
        with anyio.fail_after(5):
            assert (await stream.receive()).startswith(b"HTTP/1.1 100 ")
            await stream.send(b"{}")
            assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")
            assert await caller.reports.next() == "stop, 3 + 2 tokens"


def test_the_line_tells_the_speed_where_it_is_honest() -> None:
    timing = Timing(0.0, 1.0, 1.0, 11)
    assert relay.line(Completion("length", timing=timing)) == "length, tokens not reported, 10.0 tokens/s"
    assert relay.line(Completion("stop", usage=Usage(1, 2))) == "stop, 1 + 2 tokens"
    assert relay.line(None) == "no answer"

"""Relays: the bytes as they came, and a tap that decodes them beside."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, RawStream
from svir_client.testing import End, Framing, Gate, MockServer, Reply
from svir_core.errors import (
    ConfigError,
    ResponseTimeoutError,
    SvirError,
    TransportError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.request import Effort
from svir_core.response import Completion
from svir_core.tap import Tap
from svir_core.wire import openai_chat
from tests.svir_client.chat import HELLO, REQUEST, SECONDS, cancelled_everywhere, hello, text

pytestmark = pytest.mark.anyio

ODD = b": comment\r\n\r\n" + b"".join(HELLO) + b"after the end \xff\x00"
"""Bytes that a decoder would refuse or never look at, and a relay passes on."""


@contextlib.asynccontextmanager
async def connected(*replies: Reply, **options: Any) -> AsyncGenerator[tuple[MockServer, AsyncClient]]:
    with anyio.fail_after(SECONDS):
        async with MockServer(*replies) as server, AsyncClient.openai(server.origin, **options) as client:
            yield server, client


async def relay(raw: RawStream, tap: Tap) -> tuple[bytes, SvirError | None]:
    received = b""
    try:
        async for data in raw:
            received += data
            tap.push(data)
    except SvirError as error:
        return received, error
    finally:
        tap.finish()
    return received, None


@pytest.mark.parametrize("framing", list(Framing))
async def test_the_bytes_as_they_came_and_a_tap_beside(framing: Framing) -> None:
    async with connected(Reply.stream(*HELLO, ODD, framing=framing)) as (_, client):
        tap = Tap(openai_chat.Decoder())
        async with client.send(REQUEST) as raw:
            assert raw.status == 200
            assert raw.head.get("Content-Type") == "text/event-stream"
            received, error = await relay(raw, tap)
            with pytest.raises(StopAsyncIteration):
                await anext(raw)
        assert (received, error) == (b"".join(HELLO) + ODD, None)
        assert isinstance(tap.outcome, Completion)
        assert tap.outcome.text == "Hello"


async def test_a_stream_that_no_decoder_takes_is_relayed_whole() -> None:
    async with connected(Reply.stream(b"nonsense: \xff\n\n", text("Hel"))) as (_, client):
        tap = Tap(openai_chat.Decoder())
        async with client.send(REQUEST) as raw:
            received, error = await relay(raw, tap)
        assert (received, error) == (b"nonsense: \xff\n\n" + text("Hel"), None)
        assert isinstance(tap.outcome, UnsupportedError)


async def test_bytes_come_as_the_server_sends_them() -> None:
    gate = Gate()
    async with connected(Reply.stream(text("a"), gate, text("b"))) as (_, client), client.send(REQUEST) as raw:
        assert await anext(raw) == text("a")
        gate.open()
        assert await anext(raw) == text("b")


async def test_a_refusal_is_its_error_and_nothing_is_relayed() -> None:
    async with connected(Reply.document({"error": {"message": "no such model"}}, status=404)) as (server, client):
        with pytest.raises(UnsupportedError) as caught:
            await client.send(REQUEST).__aenter__()
        assert caught.value.status == 404
        await server.wait_closed()


async def test_the_lean_retry_is_made_here_too_and_remembered() -> None:
    refusal = Reply.document({"error": {"message": "bad reasoning_effort", "param": "reasoning_effort"}}, status=400)
    async with connected(refusal, hello(), hello()) as (server, client):
        request = REQUEST.replace(effort=Effort.LOW)
        for _ in range(2):
            async with client.send(request) as raw:
                received, _ = await relay(raw, Tap(openai_chat.Decoder()))
            assert received == b"".join(HELLO)
        assert ["reasoning_effort" in request.json() for request in server.requests] == [True, False, False]


async def test_what_is_no_event_stream_is_refused() -> None:
    async with connected(Reply.document({"choices": []})) as (_, client):
        with pytest.raises(UnsupportedError):
            await client.send(REQUEST).__aenter__()


@pytest.mark.parametrize("framing", [Framing.CHUNKED, Framing.LENGTH])
async def test_a_cut_body_is_a_transport_error_after_what_came(framing: Framing) -> None:
    reply = Reply.stream(text("Hel"), text("lo"), framing=framing, cut=len(text("Hel")))
    async with connected(reply) as (server, client):
        tap = Tap(openai_chat.Decoder())
        async with client.send(REQUEST) as raw:
            received, error = await relay(raw, tap)
            await server.wait_closed()
            with pytest.raises(TransportError) as caught:
                await anext(raw)
        assert received == text("Hel")
        assert isinstance(error, TransportError)
        assert caught.value is error
        assert isinstance(tap.outcome, TruncatedStreamError)


async def test_silence_is_a_timeout_after_what_came() -> None:
    async with connected(Reply.stream(text("Hel"), end=End.STALL)) as (server, client):
        async with client.send(REQUEST, idle_timeout=0.2) as raw:
            received, error = await relay(raw, Tap(openai_chat.Decoder()))
        assert received == text("Hel")
        assert isinstance(error, ResponseTimeoutError)
        await server.wait_closed()


async def test_leaving_early_closes_at_once() -> None:
    async with connected(Reply.stream(text("Hel"), end=End.STALL)) as (server, client):
        async with client.send(REQUEST) as raw:
            await anext(raw)
        with anyio.fail_after(1):
            await server.wait_closed()
        with pytest.raises(ConfigError, match="after it was closed"):
            await anext(raw)


async def test_a_relay_that_ended_keeps_the_connection() -> None:
    async with connected(hello(framing=Framing.CHUNKED), hello()) as (server, client):
        for _ in range(2):
            async with client.send(REQUEST) as raw:
                await relay(raw, Tap(openai_chat.Decoder()))
        assert [request.connection for request in server.requests] == [0, 0]


async def test_an_aclose_by_another_task_ends_the_reader() -> None:
    async with connected(Reply.stream(text("Hel"), end=End.STALL)) as (server, client):

        async def reader(raw: RawStream) -> None:
            with pytest.raises(ConfigError, match="after it was closed"):
                await anext(raw)

        async with client.send(REQUEST) as raw:
            await anext(raw)
            async with anyio.create_task_group() as group:
                group.start_soon(reader, raw)
                await anyio.wait_all_tasks_blocked()
                await raw.aclose()
        await server.wait_closed()


async def test_a_read_that_is_cancelled_ends_the_relay() -> None:
    async with connected(Reply.stream(text("Hel"), end=End.STALL)) as (server, client), client.send(REQUEST) as raw:
        await anext(raw)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(raw)
        await server.wait_closed()
        for _ in range(2):
            with pytest.raises(ConfigError, match="an earlier read of the RawStream was cancelled, which ended it"):
                await anext(raw)


async def test_cancelled_everywhere_nothing_stays_open() -> None:
    async def work(client: AsyncClient) -> None:
        async with client.send(REQUEST) as raw:
            async for _ in raw:
                await anyio.lowlevel.checkpoint()

    assert await cancelled_everywhere(lambda: [hello()], work) > 3

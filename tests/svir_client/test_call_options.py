"""What one call may cost and how it is asked for: limits, encodings, addresses and keys, over real sockets."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, Compatibility
from svir_client.testing import End, MockServer, Reply
from svir_client.transport import TransportResponse
from svir_core.errors import (
    ConfigError,
    ContextOverflowError,
    ResponseLimitError,
    ResponseTimeoutError,
    SvirError,
    TransportError,
    UnsupportedError,
)
from svir_core.http_message import HttpRequest
from svir_core.limits import DOCUMENT_BYTES, ERROR_BODY_BYTES, Limits
from svir_core.request import Tool, ToolChoice
from svir_core.secret import Secret
from tests.svir_client.chat import HELLO, REQUEST, SECONDS, hello

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:1"
LISTING = Reply.document({"data": [{"id": "m"}]})


# --- encodings -----------------------------------------------------------------------------------


async def test_only_the_identity_encoding_is_asked_for() -> None:
    with anyio.fail_after(SECONDS):
        async with MockServer(hello(), LISTING) as server, AsyncClient.openai(server.origin) as client:
            await client.complete(REQUEST)
            await client.list_models()
            assert [request.header_values("accept-encoding") for request in server.requests] == [("identity",)] * 2


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "GZIP"])
@pytest.mark.parametrize("status", [200, 400])
async def test_a_body_with_another_encoding_is_unsupported(coding: str, status: int) -> None:
    body = gzip.compress(b"".join(HELLO))
    headers = {"content-type": "text/event-stream", "content-encoding": coding}
    with anyio.fail_after(SECONDS):
        replies = [Reply(status, headers, (body,)) for _ in range(3)]
        async with MockServer(*replies) as server, AsyncClient.openai(server.origin, include_usage=False) as client:
            for call in (client.complete(REQUEST), client.send(REQUEST).__aenter__(), client.list_models()):
                with pytest.raises(UnsupportedError):
                    await call
            await server.wait_closed()


async def test_a_compressed_body_that_does_not_say_so_is_unsupported() -> None:
    with anyio.fail_after(SECONDS):
        reply = Reply.stream(gzip.compress(b"".join(HELLO)))
        async with MockServer(reply) as server, AsyncClient.openai(server.origin) as client:
            with pytest.raises(UnsupportedError):
                await client.complete(REQUEST)


# --- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, -math.inf, True, False, 1.5, "1", None])
@pytest.mark.parametrize("bound", ["wire_bytes", "event_bytes", "tool_calls"])
def test_a_limit_is_a_positive_integer(bound: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=bound):
        Limits(**{bound: value})


@pytest.mark.parametrize("value", [0, -1, 0.0, math.nan, -math.inf, True, False, "1", []])
@pytest.mark.parametrize("clock", ["connect_timeout", "idle_timeout"])
def test_a_clock_is_a_positive_number_of_seconds(clock: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=clock):
        AsyncClient.openai(URL, **{clock: value})


@pytest.mark.parametrize("value", [0, -1, 0.0, math.nan, -math.inf, True, False, "1", []])
async def test_the_clock_of_a_call_is_a_positive_number_of_seconds(value: Any) -> None:
    async with AsyncClient.openai(URL) as client:
        with pytest.raises(ConfigError, match="idle_timeout"):
            await client.complete(REQUEST, idle_timeout=value)
        for call in (client.stream, client.send):
            with pytest.raises(ConfigError, match="idle_timeout"):
                call(REQUEST, idle_timeout=value)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, 1.5, "1"])
def test_a_context_is_a_positive_number_of_tokens(value: Any) -> None:
    with pytest.raises(ConfigError, match="context_tokens"):
        AsyncClient.openai(URL, context_tokens=value)


class Watched:
    """A transport that connects to nobody and keeps the clocks it was asked for."""

    def __init__(self) -> None:
        self.clocks: list[tuple[float | None, float]] = []

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 0.0,
        connect_timeout: float | None = None,
    ) -> TransportResponse:
        self.clocks.append((connect_timeout, idle_timeout))
        raise TransportError(f"{request.method} goes nowhere", unsent=True)

    async def aclose(self) -> None:
        raise AssertionError("a given transport is the caller's to close")


@pytest.mark.parametrize("make", [AsyncClient.openai, AsyncClient.responses, AsyncClient.anthropic, AsyncClient.gemini])
async def test_the_clocks_of_a_client_have_their_defaults(make: Callable[..., AsyncClient]) -> None:
    transport = Watched()
    for options in ({}, {"connect_timeout": 1.0, "idle_timeout": 2.0}):
        async with make(URL, transport=transport, **options) as client:
            with pytest.raises(TransportError):
                await client.complete(REQUEST)
    assert transport.clocks == [(10.0, 300.0), (1.0, 2.0)]


async def test_the_idle_limit_of_a_call_replaces_the_clients() -> None:
    with anyio.fail_after(SECONDS):
        replies = (Reply.silence(), Reply.silence(), hello())
        async with MockServer(*replies) as server, AsyncClient.openai(server.origin) as client:
            with pytest.raises(ResponseTimeoutError, match=r"0\.1 s"):
                await client.complete(REQUEST, idle_timeout=0.1)
            with pytest.raises(ResponseTimeoutError, match=r"0\.1 s"):
                async with client.send(REQUEST, idle_timeout=0.1):
                    pass
            assert (await client.complete(REQUEST)).text == "Hello"


async def test_a_listing_of_16_mib_is_read_and_one_byte_more_is_not() -> None:
    listing = json.dumps({"data": [{"id": "m"}]}).encode()
    whole = listing + b" " * (DOCUMENT_BYTES - len(listing))
    head = {"content-type": "application/json"}
    with anyio.fail_after(SECONDS):
        replies = (Reply(200, head, (whole,)), Reply(200, head, (whole, b" ")))
        async with MockServer(*replies) as server, AsyncClient.openai(server.origin) as client:
            assert [model.id for model in await client.list_models()] == ["m"]
            with pytest.raises(ResponseLimitError):
                await client.list_models()


async def test_a_document_of_more_than_16_mib_is_not_read() -> None:
    body = b'{"choices":[{"index":0,"message":{"content":"' + b"x" * DOCUMENT_BYTES
    with anyio.fail_after(SECONDS):
        reply = Reply(200, {"content-type": "application/json"}, (body,), end=End.STALL)
        async with MockServer(reply) as server, AsyncClient.openai(server.origin, mode="lenient") as client:
            with pytest.raises(ResponseLimitError):
                await client.complete(REQUEST)
            await server.wait_closed()


@pytest.mark.parametrize(("before", "error"), [(0, ContextOverflowError), (1, UnsupportedError)])
async def test_an_error_body_is_read_up_to_64_kib(before: int, error: type[SvirError]) -> None:
    words = b"context length"
    body = b"x" * (ERROR_BODY_BYTES - len(words) + before) + words
    with anyio.fail_after(SECONDS):
        reply = Reply(400, {"content-type": "text/plain"}, (body, b"y" * 500_000), end=End.STALL)
        async with MockServer(reply) as server, AsyncClient.openai(server.origin, include_usage=False) as client:
            with pytest.raises(SvirError) as caught:
                await client.complete(REQUEST)
            assert type(caught.value) is error
            assert caught.value.server_message() == "x" * 4096
            await server.wait_closed()


# --- what is never learned -----------------------------------------------------------------------


@pytest.mark.parametrize("field", ["tools", "tool_choice", "response_format"])
@pytest.mark.parametrize("usage", [False, True])
async def test_a_requirement_that_is_refused_is_neither_dropped_nor_learned(field: str, usage: bool) -> None:
    request = REQUEST.replace(
        tools=[Tool("f", "does")], tool_choice=ToolChoice.tool("f"), response_format="json", include_usage=usage
    )
    words = {"detail": [{"loc": ["body", field], "msg": "Extra inputs are not permitted"}]}
    compat = Compatibility()
    with anyio.fail_after(SECONDS):
        refused = [Reply.document(words, 422) for _ in range(2)]
        async with MockServer(*refused) as server, AsyncClient.openai(server.origin, compat=compat) as client:
            with pytest.raises(UnsupportedError):
                await client.complete(request)
            assert [field in sent.json() for sent in server.requests] == [True] * (1 + usage)
            assert (server.unscripted, compat) == (0, Compatibility())


async def test_a_field_named_by_its_place_is_the_one_that_is_learned() -> None:
    request = REQUEST.replace(effort="low")
    refused = Reply.document({"detail": [{"loc": ["body", "reasoning_effort"], "msg": "no", "type": "x"}]}, 422)
    compat = Compatibility()
    with anyio.fail_after(SECONDS):
        async with MockServer(refused, hello(), hello()) as server:
            for _ in range(2):  # two clients, one memory
                async with AsyncClient.openai(server.origin, compat=compat) as client:
                    await client.complete(request)
            optional = {"reasoning_effort", "stream_options"}
            assert [optional & set(sent.json()) for sent in server.requests] == [optional, set(), {"stream_options"}]
    assert compat.explain() == "reasoning_effort: refused by the server, left out of requests"


# --- keys ----------------------------------------------------------------------------------------


async def _later() -> str:
    await anyio.lowlevel.checkpoint()
    return "sk-later"


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("sk-plain", "sk-plain"),
        (Secret("sk-secret"), "sk-secret"),
        (lambda: "sk-asked", "sk-asked"),
        (lambda: Secret("sk-asked"), "sk-asked"),
        (_later, "sk-later"),
    ],
)
async def test_a_key_of_every_form_is_sent(key: Any, sent: str) -> None:
    with anyio.fail_after(SECONDS):
        async with MockServer(hello()) as server, AsyncClient.openai(server.origin, api_key=key) as client:
            await client.complete(REQUEST)
            assert server.requests[0].header_values("authorization") == (f"Bearer {sent}",)

"""A transport that is closed under a response which is being read: this side ended it, and every error says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import httpx
import httpx2
import pytest

from svir_client import AsyncClient, Transport
from svir_client.testing import End, MockServer, Reply, ScriptedTransport
from svir_core.errors import ConfigError
from svir_transport.h11 import H11Transport
from svir_transport.httpx import HttpxTransport
from tests.svir_client.chat import REQUEST, SECONDS, text

pytestmark = pytest.mark.anyio

REPLY = Reply.stream(text("Hel"), end=End.STALL)
Closable = tuple[Transport, Callable[[], Awaitable[None]]]


def of_the_transport(transport: Transport) -> Closable:
    return transport, transport.aclose


def of_the_library(client: httpx.AsyncClient | httpx2.AsyncClient) -> Closable:
    return HttpxTransport(client), client.aclose


WAYS: dict[str, Callable[[], Closable]] = {
    "h11": lambda: of_the_transport(H11Transport()),
    "httpx": lambda: of_the_transport(HttpxTransport()),
    "scripted": lambda: of_the_transport(ScriptedTransport(REPLY)),
    "httpx's client": lambda: of_the_library(httpx.AsyncClient()),
    "httpx2's client": lambda: of_the_library(httpx2.AsyncClient()),
}


@pytest.mark.parametrize("waiting", [True, False])
@pytest.mark.parametrize("call", ["stream", "send"])
@pytest.mark.parametrize("way", WAYS)
async def test_the_reader_is_told_that_this_side_closed_it(way: str, call: str, waiting: bool) -> None:
    transport, close = WAYS[way]()
    errors: list[ConfigError] = []
    with anyio.fail_after(SECONDS):
        async with MockServer(REPLY) as server:
            client = AsyncClient.openai(server.origin, transport=transport)
            async with client.stream(REQUEST) if call == "stream" else client.send(REQUEST) as response:
                await anext(response)

                async def read() -> None:
                    with pytest.raises(ConfigError, match="closed") as caught:
                        await anext(response)
                    errors.append(caught.value)

                async with anyio.create_task_group() as group:
                    if waiting:
                        group.start_soon(read)
                        await anyio.wait_all_tasks_blocked()
                    await close()
                    if not waiting:
                        group.start_soon(read)
            await transport.aclose()
    (error,) = errors
    if call == "stream":
        assert error.partial is not None
        assert error.partial.text == "Hel"

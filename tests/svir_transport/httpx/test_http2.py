"""HTTP/2 by ALPN, over a client that asks for it: what is shared, what is closed, and when."""

from __future__ import annotations

import gc
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme

from svir_client.testing import cancelled_at_every_await
from svir_core.errors import ConfigError, ResponseTimeoutError
from svir_transport.httpx import HttpxTransport
from tests.svir_transport.httpx.http2_server import Http2Server, http2_server

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(authority: trustme.CA, tmp_path: Path) -> AsyncIterator[Http2Server]:
    async with http2_server(authority, tmp_path) as server:
        yield server


@pytest.fixture
async def transport(httpx: Any, authority: trustme.CA) -> AsyncIterator[HttpxTransport]:
    context = ssl.create_default_context()
    trust: Any = authority
    trust.configure_trust(context)
    async with httpx.AsyncClient(http2=True, verify=context, trust_env=False) as client:
        transport = HttpxTransport(client)
        yield transport
        await transport.aclose()


async def blocks(*data: bytes) -> AsyncIterator[bytes]:
    for block in data:
        yield block


async def test_it_is_http_2_and_carries_the_request_as_given(server: Http2Server, transport: HttpxTransport) -> None:
    response = await transport.open(server.request("/echo", 6), blocks(b"abc", b"def"))
    assert b"".join([data async for data in response]) == b"abcdef"
    assert response.complete
    assert server.versions == ["2"]
    assert dict(server.headers) == {
        b"host": b"127.0.0.1:%d" % server.port,
        b"x-secret": b"s3cr3t",
        b"content-length": b"6",
    }


async def test_pieces_arrive_before_the_end(server: Http2Server, transport: HttpxTransport) -> None:
    response = await transport.open(server.request("/gate"), None)
    body = aiter(response)
    assert await anext(body) == b"piece"
    server.open_gate()
    assert b"".join([data async for data in body]) == b" and rest"
    await response.aclose()


async def test_calls_share_a_connection_and_get_their_own_answers(
    server: Http2Server, transport: HttpxTransport
) -> None:
    answers: dict[int, bytes] = {}

    async def call(number: int) -> None:
        data = b"%03d" % number * 50_000
        response = await transport.open(server.request("/echo", len(data)), blocks(data[:70_000], data[70_000:]))
        answers[number] = b"".join([data async for data in response])

    await call(0)
    async with anyio.create_task_group() as group:
        for number in range(1, 20):
            group.start_soon(call, number)
    assert answers == {number: b"%03d" % number * 50_000 for number in range(20)}
    assert len(set(server.clients)) == 1


async def test_leaving_the_only_call_stops_the_server_and_the_next_call_is_served(
    server: Http2Server, transport: HttpxTransport
) -> None:
    for _ in range(2):  # the second time on a connection made after one that was closed here
        response = await transport.open(server.request("/endless"), None)
        assert await anext(aiter(response)) == b"piece"
        await response.aclose()
        assert not response.complete
        await server.stopped()
    response = await transport.open(server.request("/echo", 3), blocks(b"abc"))
    assert b"".join([data async for data in response]) == b"abc"


async def test_a_cancelled_read_stops_the_server(server: Http2Server, transport: HttpxTransport) -> None:
    response = await transport.open(server.request("/endless"), None)
    body = aiter(response)
    assert await anext(body) == b"piece"
    with anyio.move_on_after(0.05):
        await anext(body)
    await server.stopped()
    with pytest.raises(ConfigError):
        await anext(body)


async def test_a_call_that_is_cancelled_before_its_head_stops_the_server(
    server: Http2Server, transport: HttpxTransport
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(transport.open, server.request("/silent"), None)
        await server.arrived()
        group.cancel_scope.cancel()
    await server.stopped()
    response = await transport.open(server.request("/echo", 3), blocks(b"abc"))
    assert b"".join([data async for data in response]) == b"abc"


async def test_a_call_that_is_cancelled_at_any_await_leaves_the_others_of_its_connection_alone(
    server: Http2Server, transport: HttpxTransport
) -> None:
    data = b"x" * 40_000

    async def call() -> None:
        response = await transport.open(server.request("/echo", len(data)), blocks(data[:100], data[100:]))
        try:
            assert b"".join([piece async for piece in response]) == data
        finally:
            await response.aclose()

    @asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, None]]:
        other = await transport.open(server.request("/gate"), None)
        body = aiter(other)
        assert await anext(body) == b"piece"
        yield call()
        server.open_gate()
        assert b"".join([piece async for piece in body]) == b" and rest"
        await other.aclose()

    assert await cancelled_at_every_await(attempt) > 10


async def test_calls_at_once_after_one_that_was_left(server: Http2Server, transport: HttpxTransport) -> None:
    response = await transport.open(server.request("/endless"), None)
    assert await anext(aiter(response)) == b"piece"
    await response.aclose()
    answers: list[bytes] = []

    async def call(number: int) -> None:
        data = b"%d" % number
        opened = await transport.open(server.request("/echo", 1), blocks(data))
        answers.append(b"".join([data async for data in opened]))

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(call, number)
    assert sorted(answers) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_call_beside_others_leaves_them_alone_and_its_server_stops_after_them(
    server: Http2Server, transport: HttpxTransport
) -> None:
    other = await transport.open(server.request("/gate"), None)
    left = await transport.open(server.request("/endless"), None)
    assert await anext(aiter(left)) == b"piece"
    await left.aclose()
    assert server.still_at_work
    server.open_gate()
    assert b"".join([data async for data in other]) == b"piece and rest"
    await server.stopped()
    assert len(set(server.clients)) == 1


async def test_the_idle_clock_of_one_call_leaves_another_alone(server: Http2Server, transport: HttpxTransport) -> None:
    other = await transport.open(server.request("/gate"), None)
    impatient = await transport.open(server.request("/endless"), None, idle_timeout=0.05)
    body = aiter(impatient)
    assert await anext(body) == b"piece"
    with pytest.raises(ResponseTimeoutError):
        await anext(body)
    server.open_gate()
    assert b"".join([data async for data in other]) == b"piece and rest"


async def test_connections_that_are_gone_are_not_remembered(
    server: Http2Server, httpx: Any, authority: trustme.CA
) -> None:
    context = ssl.create_default_context()
    trust: Any = authority
    trust.configure_trust(context)
    transport = HttpxTransport(ssl_context=context, http2=True, idle_expiry=1e-9)
    for _ in range(8):
        response = await transport.open(server.request("/echo", 1), blocks(b"x"))
        assert [data async for data in response] == [b"x"]
    assert len(set(server.clients)) == 8
    gc.collect()
    (networks,) = transport._sites.here().calls._shared.values()
    assert len(networks) <= 2
    response = await transport.open(server.request("/endless"), None)
    await response.aclose()
    await server.stopped()
    await transport.aclose()


async def test_a_dropped_response_stops_the_server(server: Http2Server, transport: HttpxTransport) -> None:
    held = [await transport.open(server.request("/endless"), None)]
    with pytest.warns(ResourceWarning, match="dropped without aclose"):
        held.clear()
    await server.stopped()
    response = await transport.open(server.request("/echo", 3), blocks(b"abc"))
    assert b"".join([data async for data in response]) == b"abc"


async def test_http_2_is_offered_only_when_asked_for(server: Http2Server, httpx: Any, authority: trustme.CA) -> None:
    context = ssl.create_default_context()
    trust: Any = authority
    trust.configure_trust(context)
    for http2, version in ((False, "1.1"), (True, "2")):
        transport = HttpxTransport(ssl_context=context, http2=http2)
        response = await transport.open(server.request("/echo"), None)
        assert [data async for data in response] == []
        assert server.versions[-1] == version
        await transport.aclose()

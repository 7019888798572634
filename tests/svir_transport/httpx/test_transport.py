"""A client of our own making: options, event loops, forks, bodies, and what is left open."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import signal
import ssl
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import AsyncClient
from svir_client.testing import Framing, Gate, MockServer, Reply
from svir_core import Request
from svir_core.counted_body import CountedBody
from svir_core.errors import ConfigError, SvirError, TransportError
from svir_core.http_message import HttpRequest
from svir_transport.httpx import HttpxResponse, HttpxTransport
from svir_transport.httpx.blocks import Blocks
from svir_transport.httpx.progress import Progress

pytestmark = pytest.mark.anyio

HELLO = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
)


@pytest.fixture
async def transport(httpx: Any) -> AsyncIterator[HttpxTransport]:
    transport = HttpxTransport()
    with anyio.fail_after(10):
        yield transport
        await transport.aclose()


def request_to(port: int, length: int | None = None, **changes: Any) -> HttpRequest:
    headers: tuple[tuple[str, str], ...] = (("host", "server.example"),)
    if length is not None:
        headers += (("content-length", str(length)),)
    settings: dict[str, Any] = {"scheme": "http", "target": "/", "headers": headers, **changes}
    return HttpRequest("GET" if length is None else "POST", host="127.0.0.1", port=port, **settings)


def ok(*pieces: bytes | Gate, **settings: Any) -> Reply:
    return Reply(body=pieces or (b"ok",), framing=Framing.LENGTH, **settings)


async def read(response: HttpxResponse) -> bytes:
    return b"".join([data async for data in response])


async def test_the_client_end_to_end(transport: HttpxTransport) -> None:
    gate = Gate()
    listing = {"data": [{"id": "m"}]}
    replies = [Reply.stream(*HELLO, framing=Framing.CHUNKED) for _ in range(3)]
    endless = Reply.stream(HELLO[0], gate, HELLO[1], framing=Framing.CHUNKED)
    async with MockServer(*replies, Reply.document(listing, framing=Framing.LENGTH), endless) as server:
        client = AsyncClient.openai(server.origin, api_key="s3cr3t", transport=transport)
        request = Request("m").user("hi")
        assert (await client.complete(request)).text == "Hello"
        async with client.stream(request) as stream:
            assert "".join([text async for text in stream.text()]) == "Hello"
        assert stream.completion.text == "Hello"
        async with client.send(request) as raw:
            assert b"".join([data async for data in raw]) == b"".join(HELLO)
        assert [model.id for model in await client.list_models()] == ["m"]
        assert len(server.connections) == 1
        async with client.stream(request) as stream:
            async for text in stream.text():
                assert text == "Hel"
                break
        await server.wait_closed()
        for seen in server.requests:
            names = [name for name, _ in seen.headers]
            assert seen.headers[1] == ("user-agent", "svir/0.1.0")
            assert ("accept-encoding", "identity") in seen.headers
            assert len(names) == len(set(names)) <= 7


async def test_bytes_in_a_coding_are_handed_over_as_they_are(transport: HttpxTransport) -> None:
    async with MockServer(ok(b"\x1f\x8bxx", headers=(("content-encoding", "gzip"),))) as server:
        assert await read(await transport.open(request_to(server.port), None)) == b"\x1f\x8bxx"


async def test_cookies_are_not_kept(transport: HttpxTransport) -> None:
    async with MockServer(ok(headers=(("set-cookie", "a=1"),)), ok()) as server:
        for _ in range(2):
            await read(await transport.open(request_to(server.port), None))
        assert server.requests[1].headers == (("host", "server.example"),)


@pytest.mark.usefixtures("httpx")
@pytest.mark.parametrize(
    "options",
    [
        {"connect_timeout": 0},
        {"max_connections": 0},
        {"max_idle": -1},
        {"idle_expiry": float("nan")},
        {"ssl_context": "system"},
        {"ssl_context": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)},
        {"http2": "yes"},
        {"http2": 1},
    ],
)
async def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        HttpxTransport(**options)


async def test_no_library_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(ConfigError, match=r"pip install 'svir-transport-httpx\[httpx2\]'"):
        HttpxTransport()
    with pytest.raises(ConfigError, match="pip install h2"):
        HttpxTransport(http2=True)


async def test_a_closed_transport_in_a_loop_that_it_never_served(transport: HttpxTransport) -> None:
    await transport.aclose()
    await transport.aclose()
    with pytest.raises(ConfigError):
        await transport.open(request_to(1), None)


async def test_what_a_body_raises_comes_as_it_is(transport: HttpxTransport) -> None:
    cause = OSError("disk")

    async def body() -> AsyncIterator[bytes]:
        yield b"first"
        raise ValueError("mine") from cause

    async with MockServer(ok()) as server:
        with pytest.raises(ValueError, match="mine") as caught:
            await transport.open(request_to(server.port, 10), body())
        assert caught.value.__cause__ is cause
        await server.wait_closed()


async def test_a_body_is_not_sent_twice() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"first"
        yield b"second"

    upload = CountedBody(body())
    upload.declare(request_to(1, 11))
    blocks = Blocks(upload, await upload.pull(), Progress(deadline=anyio.current_time() + 1, connect=1, idle=1))
    states: list[bool] = []
    assert await anext(aiter(blocks)) == b"first"
    states.append(blocks.whole)
    assert [data async for data in blocks] == [b"first", b"second"]
    states.append(blocks.whole)
    assert states == [True, False]
    with pytest.raises(TransportError, match="turned the request away"):
        aiter(blocks)
    assert isinstance(blocks.failure, TransportError)
    await upload.aclose(anyio.CancelScope(shield=True))


async def test_two_tasks_cannot_read_one_response(transport: HttpxTransport) -> None:
    gate = Gate()
    async with MockServer(ok(b"a", gate, b"b")) as server:
        response = await transport.open(request_to(server.port), None)
        assert await anext(response) == b"a"
        async with anyio.create_task_group() as group:
            group.start_soon(anext, response)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(TransportError, match="another task"):
                await anext(response)
            gate.open()
        await response.aclose()


async def test_closing_under_a_reader(transport: HttpxTransport) -> None:
    failures: list[SvirError] = []
    async with MockServer(ok(b"a", Gate(), b"b")) as server, anyio.create_task_group() as group:
        response = await transport.open(request_to(server.port), None)
        assert await anext(response) == b"a"

        async def reader() -> None:
            try:
                await anext(response)
            except SvirError as error:
                failures.append(error)

        group.start_soon(reader)
        await anyio.wait_all_tasks_blocked()
        await response.aclose()
        await server.wait_closed()
    assert [str(failure) for failure in failures] == ["the response was closed before its end"]


async def test_what_has_arrived_whole_leaves_its_connection_to_the_next_call(transport: HttpxTransport) -> None:
    async with MockServer(ok(b"abc"), ok()) as server:
        response = await transport.open(request_to(server.port), None)
        assert await anext(response) == b"abc"
        await response.aclose()
        assert response.complete
        assert await read(await transport.open(request_to(server.port), None)) == b"ok"
        assert len(server.connections) == 1


@pytest.mark.parametrize("thread", [False, True], ids=["here", "another thread"])
@pytest.mark.usefixtures("httpx")
async def test_a_response_that_is_dropped_is_told_of_and_gives_its_slot_to_the_call_that_waits(thread: bool) -> None:
    with anyio.fail_after(10):
        async with MockServer(ok(b"a", Gate(), b"b"), ok(), ok()) as server:
            transport = HttpxTransport(max_connections=1, connect_timeout=5)
            held = [await transport.open(request_to(server.port), None)]
            waiting: list[bytes] = []

            async def call() -> None:
                waiting.append(await read(await transport.open(request_to(server.port), None)))

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await anyio.wait_all_tasks_blocked()
                assert not waiting
                with pytest.warns(ResourceWarning, match="dropped without aclose"):
                    in_threads(held.clear, 1) if thread else held.clear()
            assert waiting == [b"ok"]
            assert await read(await transport.open(request_to(server.port), None)) == b"ok"
            assert not transport._sites.here().calls._under_way
            assert server.connections[0].closed.is_set()
            await transport.aclose()


@pytest.mark.usefixtures("httpx")
def test_a_response_that_outlives_its_event_loop_is_dropped_in_peace(anyio_backend: str) -> None:
    async def opened() -> HttpxResponse:
        async with MockServer(ok(b"a", Gate(), b"b")) as server:
            transport = HttpxTransport()
            response = await transport.open(request_to(server.port), None)
            await response._response.aclose()  # the socket's part, which nobody could do later
            await transport._sites.here().client.aclose()
        return response

    held = [anyio.run(opened, backend=anyio_backend)]
    held.clear()
    with pytest.warns(ResourceWarning, match="dropped without aclose"):
        gc.collect()  # the loop's last task is a cycle, and had it as its result


async def test_nothing_foreign_stands_behind_an_error(transport: HttpxTransport) -> None:
    async with MockServer(ok(b"0123456789", cut=3)) as server:
        response = await transport.open(request_to(server.port), None)
        with pytest.raises(TransportError) as caught:
            await read(response)
        text = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
        assert str(server.port) not in text
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def in_threads(work: Callable[[], None], count: int) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not failures


@pytest.mark.usefixtures("httpx")
def test_each_event_loop_has_a_client_of_its_own_and_all_have_one_trust(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = HttpxTransport()

    async def calls() -> None:
        async with MockServer(ok(), ok()) as server:
            for _ in range(2):
                assert await read(await transport.open(request_to(server.port), None)) == b"ok"
            assert len(server.connections) == 1
            await anyio.lowlevel.checkpoint()
        await transport._sites.here().client.aclose()

    made: list[ssl.SSLContext] = []
    create = ssl.create_default_context

    def counted() -> ssl.SSLContext:
        made.append(create())
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(ssl, "create_default_context", counted)
        anyio.run(calls, backend=anyio_backend)
        in_threads(lambda: anyio.run(calls, backend=anyio_backend), 4)
    assert len(made) == 1


def test_a_given_client_serves_one_event_loop(httpx: Any, anyio_backend: str) -> None:
    client = httpx.AsyncClient()
    transport = HttpxTransport(client)

    async def call() -> None:
        async with MockServer(ok()) as server:
            assert await read(await transport.open(request_to(server.port), None)) == b"ok"
        await client.aclose()

    async def call_elsewhere() -> None:
        with pytest.raises(ConfigError, match="one event loop") as caught:
            await transport.open(request_to(1), None)
        assert caught.value.unsent
        await transport.aclose()  # no harm, though the client is of the other loop

    anyio.run(call, backend=anyio_backend)
    anyio.run(call_elsewhere, backend=anyio_backend)


def in_child(work: Callable[[], None]) -> None:
    """Run ``work`` in a fork; fails with it."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - told by the exit code, and by what is printed
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_after_a_fork_the_child_makes_its_own_and_a_given_one_is_refused(httpx: Any) -> None:
    client = httpx.AsyncClient()
    made, given = HttpxTransport(), HttpxTransport(client)

    async def call(transport: HttpxTransport) -> None:
        async with MockServer(ok()) as server:
            assert await read(await transport.open(request_to(server.port), None)) == b"ok"

    async def refused() -> None:
        with pytest.raises(ConfigError, match="fork"):
            await given.open(request_to(1), None)

    async def main() -> None:
        await call(made)
        await call(given)
        await client.aclose()

    def child() -> None:
        asyncio.run(refused())
        asyncio.run(call(made))

    with asyncio.Runner() as runner:
        runner.run(main())
        in_child(child)
        runner.run(made.aclose())

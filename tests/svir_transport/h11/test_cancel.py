"""A call cancelled at each of its awaits, one after the other: nothing stays open, no slot is lost.

The awaits of the tasks inside a call count too. Each test names the waits that it must have been cancelled in.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from soak import measure
from svir_client.testing import cancelled_at_every_await
from svir_core.counted_body import CountedBody
from svir_core.errors import ConfigError
from svir_transport.h11 import H11Response, H11Transport, dial, lookup, pool, roundtrip
from svir_transport.h11.channel import TcpChannel, TlsChannel
from svir_transport.h11.connection import Connection
from svir_transport.h11.lookup import Address
from svir_transport.h11.pool import Slots
from tests.svir_transport.h11.peer import OK, Body, Talk, Web, blocks, echo, pool_of, read

pytestmark = pytest.mark.anyio

SECONDS = 10
BIG = bytes(256 * 1024)
HUGE = bytes(3 * 1024 * 1024)
"""Three of it are more than the kernel takes on both ends of a connection."""

WAITS: dict[str, tuple[Any, str]] = {
    "slot": (Slots, "acquire"),
    "name": (lookup._Lookup, "run"),
    "address": (dial, "_connect_one"),
    "handshake": (TlsChannel, "handshake"),
    "quiet": (Connection, "speaks_within"),
    "block": (CountedBody, "pull"),
    "writer": (roundtrip.RoundTrip, "_write"),
    "reader": (roundtrip.RoundTrip, "_read"),
    "head": (roundtrip.RoundTrip, "head"),
    "body": (H11Response, "_read"),
    "read": (TcpChannel, "readable"),
    "write": (TcpChannel, "writable"),
}
"""What a call may wait for, and where."""


@pytest.fixture
def cancelled(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Which of ``WAITS`` a cancellation has come out of."""
    seen: set[str] = set()

    def watch(name: str, owner: Any, method: str) -> None:
        inner = getattr(owner, method)

        async def watched(*arguments: Any, **options: Any) -> Any:
            try:
                return await inner(*arguments, **options)
            except anyio.get_cancelled_exc_class():
                seen.add(name)
                raise

        monkeypatch.setattr(owner, method, watched)

    for name, (owner, method) in WAITS.items():
        watch(name, owner, method)
    return seen


async def others_first() -> None:
    """Let the others come to where they wait."""
    for _ in range(12):
        await anyio.lowlevel.checkpoint()


class Closing:
    """A server's script, with a count of the connections that it has open."""

    def __init__(self, script: Callable[[Talk], Awaitable[None]]) -> None:
        self._script = script
        self.open = 0

    async def __call__(self, talk: Talk) -> None:
        self.open += 1
        try:
            await self._script(talk)
            await talk.closed()
        finally:
            self.open -= 1


async def walk(
    transport: H11Transport,
    server: Closing,
    call: Callable[[], Coroutine[Any, Any, None]],
    around: Callable[[], Any] | None = None,
) -> int:
    """Cancel ``call`` at each of its awaits. Each time no slot is held, the server has no connection open but the
    kept one, and there are as many descriptors and tasks as before."""
    await anyio.wait_all_tasks_blocked()
    descriptors, tasks = measure.open_descriptors(), measure.tasks()

    def left() -> tuple[int, int, int, int]:
        kept = pool_of(transport).idle
        return (
            pool_of(transport).leased,
            server.open - kept,
            measure.open_descriptors() - descriptors - 2 * kept,
            measure.tasks() - tasks - kept,
        )

    @asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        if around is None:
            yield call()
        else:
            async with around():
                yield call()
        for _ in range(10_000):
            if left() == (0, 0, 0, 0):
                return
            await anyio.lowlevel.checkpoint()
        assert left() == (0, 0, 0, 0)

    return await cancelled_at_every_await(attempt)


async def walk_uploads(web: Web, script: Callable[[Talk], Awaitable[None]], size: int, *, fresh: bool) -> None:
    server = Closing(script)
    bodies: list[Body] = []

    async with web.serve(server) as site:
        transport = site.transport(max_connections=1, max_idle=0 if fresh else 1)

        async def call() -> None:
            body = Body(*[HUGE[:size]] * 3)
            bodies.append(body)
            response = await transport.open(site.post(3 * size), body)
            assert len(await read(response)) in (3 * size, 2)
            await response.aclose()
            if not fresh:  # at once, so that the kept connection is watched for a moment
                assert await read(await transport.open(site.post(1), blocks(b"x"))) == b"x"

        steps = await walk(transport, server, call)
        assert [body.closed for body in bodies] == [1] * (steps + 1)


@pytest.mark.parametrize("size", [3, len(BIG)])
async def test_an_upload_and_its_answer(web: Web, size: int, cancelled: set[str]) -> None:
    await walk_uploads(web, echo, size, fresh=True)
    expected = {"address", "head", "reader", "read"} | ({"body"} if size == len(BIG) else set[str]())
    assert cancelled >= (expected | {"handshake"} if web.server else expected)


@pytest.mark.parametrize("size", [3, len(BIG)])
async def test_an_upload_and_its_answer_on_a_kept_connection(
    web: Web, size: int, cancelled: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "QUIET_SECONDS", 0.02)  # a busy machine may take more than 2 ms to come back
    await walk_uploads(web, echo, size, fresh=False)
    # Over TLS the session tickets are unread, so that the connection is not quiet, and is not watched.
    assert cancelled >= {"head", "reader", "read"} | ({"quiet"} if web.server is None else set[str]())


async def test_an_upload_that_the_server_is_slow_to_take(web: Web, cancelled: set[str]) -> None:
    async def slow(talk: Talk) -> None:
        await talk.head()
        for _ in range(3):
            await others_first()
            await talk.exactly(len(HUGE))
        await talk.send(OK)

    await walk_uploads(web, slow, len(HUGE), fresh=True)
    assert cancelled >= {"writer", "write", "reader", "read"}


async def test_a_body_that_is_slow_to_come(web: Web, cancelled: set[str]) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
            yield b"block"

    server = Closing(echo)
    async with web.serve(server) as site:
        transport = site.transport(max_connections=1)

        async def call() -> None:
            assert await read(await transport.open(site.post(15), slowly())) == b"block" * 3

        await walk(transport, server, call)
    assert cancelled >= {"block", "writer", "reader"}


async def test_an_early_error(web: Web, cancelled: set[str]) -> None:
    async def refuse(talk: Talk) -> None:
        await talk.head()
        await talk.send(OK.replace(b"200 OK", b"429 Slow Down"))

    await walk_uploads(web, refuse, len(BIG), fresh=True)
    assert cancelled >= {"reader", "writer"}


async def test_a_head_after_informational_ones(web: Web, cancelled: set[str]) -> None:
    async def script(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        await talk.exactly(9)
        await others_first()
        await talk.send(b"HTTP/1.1 103 Early Hints\r\n\r\n", OK[:20])
        await others_first()
        await talk.send(OK[20:])

    await walk_uploads(web, script, 3, fresh=True)
    assert cancelled >= {"head", "reader", "read"}


async def test_a_drain(web: Web, cancelled: set[str]) -> None:
    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.send(OK[:-2])
            await others_first()
            await talk.send(OK[-2:-1])
            await others_first()
            await talk.send(OK[-1:])

    server = Closing(script)
    async with web.serve(server) as site:
        transport = site.transport(max_connections=1)

        async def call() -> None:
            response = await transport.open(site.get(), None)
            await response.drain(seconds=5)
            assert response.complete

        assert await walk(transport, server, call) >= 2
    assert cancelled >= {"body", "read"}


async def test_one_read_inside_a_call_that_lives_on(web: Web) -> None:
    """Only the read is cancelled: it closes the connection, and every later read says so."""

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(OK[:-1])
        await talk.closed()

    server = Closing(script)
    async with web.serve(server) as site:
        transport = site.transport(max_connections=1)
        response: H11Response | None = None

        @asynccontextmanager
        async def opened() -> AsyncGenerator[None]:
            nonlocal response
            response = await transport.open(site.get(), None)
            assert await anext(response) == b"o"
            yield
            for _ in range(2):
                with pytest.raises(ConfigError, match="closed before its end"):
                    await anext(response)
            assert not response.complete

        async def call() -> None:
            assert response is not None
            with anyio.move_on_after(0.05):
                await anext(response)

        assert await walk(transport, server, call, opened) >= 1


@pytest.mark.parametrize("waiting", [False, True], ids=["free", "in use"])
async def test_connecting(web: Web, monkeypatch: pytest.MonkeyPatch, waiting: bool, cancelled: set[str]) -> None:
    """A slot, a name with several addresses, of which the first answers nothing, TCP, TLS, and the call."""
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))

    name_known = threading.Event()

    def ask(host: str, port: int, flags: int = 0) -> list[Address]:
        name_known.wait(SECONDS)
        refused = Address(socket.AF_INET, silent.getsockname())
        return [refused, *[Address(socket.AF_INET, ("127.0.0.1", port))] * 3]

    monkeypatch.setattr(lookup, "ask", ask)
    server = Closing(echo)
    async with web.serve(server) as site:
        transport = site.transport(max_connections=1, max_idle=0)
        host = "localhost"

        async def call() -> None:
            assert await read(await transport.open(site.get(host=host), None)) == b""

        @asynccontextmanager
        async def slowly() -> AsyncGenerator[None]:
            """The only slot, when it is in use, comes free when everything waits, and the name is found later still."""
            name_known.set()
            held = await transport.open(site.post(len(BIG), host=host), blocks(BIG)) if waiting else None
            name_known.clear()

            async def release() -> None:
                await others_first()
                if held is not None:
                    await held.aclose()
                    await others_first()
                name_known.set()

            async with anyio.create_task_group() as group:
                group.start_soon(release)
                yield

        assert await walk(transport, server, call, slowly) > 4
    silent.close()
    expected = {"name", "address", "head", "read"} | ({"slot"} if waiting else set[str]())
    assert cancelled >= (expected | {"handshake"} if web.server else expected)


async def test_a_slot_given_to_a_waiter_that_is_cancelled_goes_on() -> None:
    slots = Slots(1)
    order: list[str] = []

    async def wait(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            await slots.acquire()
            order.append(name)
            slots.release()

    scopes = [anyio.CancelScope() for _ in range(4)]
    with anyio.fail_after(5):
        await slots.acquire()
        async with anyio.create_task_group() as group:
            for number, scope in enumerate(scopes):
                group.start_soon(wait, str(number), scope)
                await anyio.wait_all_tasks_blocked()
            scopes[2].cancel()  # still waiting
            slots.release()
            scopes[0].cancel()  # just handed over
        assert order in (["1", "3"], ["0", "1", "3"])
        await slots.acquire()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancellation_at_the_moment_of_the_hand_over() -> None:
    slots = Slots(1)
    with anyio.fail_after(5):
        await slots.acquire()
        first = asyncio.create_task(slots.acquire())
        second = asyncio.create_task(slots.acquire())
        await anyio.wait_all_tasks_blocked()
        slots.release()
        first.cancel()
        await second
        assert first.cancelled()


async def test_slots_are_handed_over_in_the_order_asked() -> None:
    slots = Slots(1)
    order: list[int] = []

    async def wait(number: int) -> None:
        await slots.acquire()
        order.append(number)
        await anyio.lowlevel.checkpoint()
        slots.release()

    with anyio.fail_after(5):
        await slots.acquire()
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(wait, number)
                await anyio.wait_all_tasks_blocked()
            slots.release()
    assert order == list(range(10))

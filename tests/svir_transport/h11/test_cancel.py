"""A call cancelled at each of its awaits, one after the other: nothing stays open, no slot is lost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import anyio
import pytest

from svir_transport.h11 import H11Transport, lookup
from svir_transport.h11.lookup import Address
from svir_transport.h11.pool import Slots
from tests.svir_transport.h11.peer import OK, Body, Site, Talk, Web, blocks, echo, pool_of, read

pytestmark = pytest.mark.anyio

BIG = bytes(256 * 1024)


class CancelledAt:
    """Awaits ``inner``, and cancels ``scope`` when it gives way for the ``step``-th time."""

    def __init__(self, inner: Coroutine[Any, Any, None], scope: anyio.CancelScope, step: int) -> None:
        self.inner = inner
        self.scope = scope
        self.left = step

    def __await__(self) -> Generator[Any, Any, None]:
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                given = self.inner.send(value) if error is None else self.inner.throw(error)
            except StopIteration:
                return
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()
            value = error = None
            try:
                value = yield given
            except BaseException as thrown:  # noqa: BLE001 - handed to the coroutine, as an await does
                error = thrown


async def at_every_await(call: Callable[[], Coroutine[Any, Any, None]], after: Callable[[int], Awaitable[None]]) -> int:
    """Run ``call`` cancelled at its first await, its second, until it ends before; returns how many there are."""
    step = 0
    while True:
        step += 1
        with anyio.CancelScope() as scope:
            await CancelledAt(call(), scope, step)
        await after(step)
        if not scope.cancel_called:
            return step


class Closing:
    """A server's scripts, with a record of which connections have ended."""

    def __init__(self, script: Callable[[Talk], Awaitable[None]]) -> None:
        self._script = script
        self.open = 0
        self.changed = anyio.Event()

    async def __call__(self, talk: Talk) -> None:
        self.open += 1
        try:
            await self._script(talk)
            await talk.closed()
        finally:
            self.open -= 1
            self.changed.set()

    async def all_closed(self) -> None:
        while self.open:
            self.changed = anyio.Event()
            await self.changed.wait()


async def cancel_everywhere(web: Web, script: Callable[[Talk], Awaitable[None]], size: int, *, fresh: bool) -> int:
    server = Closing(script)
    bodies: list[Body] = []

    async def call(transport: H11Transport, site: Site) -> None:
        body = Body(*[BIG[:size]] * 3)
        bodies.append(body)
        response = await transport.open(site.post(3 * size), body)
        assert len(await read(response)) in (3 * size, 2)
        await response.aclose()

    async with web.serve(server) as site:
        transport = site.transport(max_connections=1, max_idle=0 if fresh else 1)

        async def after(step: int) -> None:
            assert [body.closed for body in bodies] == [1] * step
            assert pool_of(transport).leased == 0
            if not pool_of(transport).idle:
                await server.all_closed()

        steps = await at_every_await(lambda: call(transport, site), after)
        assert await read(await transport.open(site.post(1), blocks(b"x"))) in (b"x", b"ok")
        return steps


@pytest.mark.parametrize("size", [3, len(BIG)])
@pytest.mark.parametrize("fresh", [True, False])
async def test_an_upload_and_its_answer(web: Web, fresh: bool, size: int) -> None:
    assert await cancel_everywhere(web, echo, size, fresh=fresh) > 3


async def test_an_early_error(web: Web) -> None:
    async def refuse(talk: Talk) -> None:
        await talk.head()
        await talk.send(OK.replace(b"200 OK", b"429 Slow Down"))

    assert await cancel_everywhere(web, refuse, len(BIG), fresh=True) > 3


async def test_a_drain(web: Web) -> None:
    async def script(talk: Talk) -> None:
        while True:
            await talk.request()
            await talk.send(OK[:-2])
            await talk.send(OK[-2:-1])
            await talk.send(OK[-1:])

    server = Closing(script)
    async with web.serve(server) as site:
        transport = site.transport(max_connections=1)

        async def call() -> None:
            response = await transport.open(site.get(), None)
            await response.drain(seconds=5)
            assert response.complete

        async def after(step: int) -> None:
            assert pool_of(transport).leased == 0

        assert await at_every_await(call, after) >= 2


async def test_a_race_of_addresses(plain: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(host: str, port: int) -> list[Address]:
        return [Address(socket.AF_INET, ("127.0.0.1", port))] * 3

    monkeypatch.setattr(lookup, "ask", ask)
    server = Closing(echo)
    async with plain.serve(server) as site:
        transport = site.transport(max_idle=0)

        async def call() -> None:
            await read(await transport.open(site.get(host="model.example"), None))

        async def after(step: int) -> None:
            assert pool_of(transport).leased == 0
            await server.all_closed()

        assert await at_every_await(call, after) > 2


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

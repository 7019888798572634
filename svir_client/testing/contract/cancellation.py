"""Clauses about cancellation, at each await of each method: the server sees the close, the next call is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel

from svir_client.testing.cancel import cancelled_at_every_await
from svir_client.testing.contract.bench import SOON, Bench, Blocks, answer, expect, soon
from svir_client.testing.reply import Framing, Reply
from svir_client.testing.server import MockServer
from svir_client.testing.wait import Gate

OK: Final = answer(b"ok")
LAST: Final = answer(b"a" * 1000, b"b" * 1000, framing=Framing.CLOSE)
"""It ends with its connection, which no transport can keep: so it must be closed, wherever the call is cancelled."""

BLOCK: Final = bytes(64 * 1024)


async def _walk(
    bench: Bench,
    work: Callable[[MockServer], Coroutine[Any, Any, object]],
    replies: Callable[[], tuple[Reply, ...]],
    *,
    kept: bool = False,
) -> None:
    """Cancel ``work`` at each of its awaits; ``kept``: on a connection that has served a call."""
    step = 0

    @asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        nonlocal step
        async with MockServer(*[OK] * kept, *replies()) as server:
            if kept:
                await bench.whole(server)
            yield work(server)
            after = f"after the cancellation at await {step}"
            async with MockServer(OK) as other:
                with soon(f"the next call {after}"):
                    expect(await bench.whole(other) == b"ok", f"another body {after}")
            if kept and server.request_count == 1:
                # Cancelled before the kept connection was taken: it is still good for a call, or closed.
                with soon(f"a call to the same server {after}"):
                    response = await bench.open(server)
                    await response.aclose()
            with soon(f"the server sees the close {after}"):
                await server.wait_closed()
            step += 1

    await cancelled_at_every_await(attempt)


def _last() -> tuple[Reply, ...]:
    return (LAST,)


async def cancelled_open(bench: Bench) -> None:
    """``open`` cancelled at any await, on a new connection and on a kept one."""
    for kept in (False, True):

        async def work(server: MockServer) -> None:
            response = await bench.open(server)
            await response.aclose()

        await _walk(bench, work, lambda: (answer(b"x", Gate(), b"y"),), kept=kept)


async def cancelled_upload(bench: Bench) -> None:
    """``open`` cancelled at any await while a body is being sent: the body is closed all the same."""
    for kept in (False, True):
        bodies: list[Blocks] = []

        async def work(server: MockServer, bodies: list[Blocks] = bodies) -> None:
            bodies.append(Blocks(BLOCK, anyio.lowlevel.checkpoint, BLOCK, b"end"))
            response = await bench.open(server, bodies[-1], length=2 * len(BLOCK) + 3)
            await response.aclose()

        await _walk(bench, work, lambda: (answer(b"x", Gate(), b"y"),), kept=kept)
        left = sum(not body.closed for body in bodies)
        expect(not left, f"{left} of {len(bodies)} bodies were not closed")


async def cancelled_read(bench: Bench) -> None:
    """Reading cancelled at any await closes the connection, without ``aclose``."""
    for kept in (False, True):

        async def work(server: MockServer) -> None:
            async for _ in await bench.open(server):
                pass

        await _walk(bench, work, _last, kept=kept)


async def cancelled_wait_for_the_head(bench: Bench) -> None:
    """A call cancelled while the server is silent closes its connection."""
    async with MockServer(Reply.silence(), OK) as server:
        await _cancelled_when(partial(server.wait_requests, 1), bench.open(server))
        with soon("the server sees the close"):
            await server.wait_closed()
        expect(await bench.whole(server) == b"ok", "another body")


async def cancelled_wait_for_the_body(bench: Bench) -> None:
    """A read cancelled while nothing comes closes its connection, and a later one of it raises: it is no end."""
    gate = Gate()
    async with MockServer(answer(b"piece", gate, b"never"), OK) as server:
        body = aiter(await bench.open(server))
        await anext(body)
        await _cancelled_when(gate.reached, anext(body))
        with soon("the server sees the close"):
            await server.wait_closed()
        expect(await bench.whole(server) == b"ok", "another body")


async def _cancelled_when(happened: Callable[[], Awaitable[object]], call: Awaitable[object]) -> None:
    """Run ``call``, and cancel it when ``happened`` is over and nothing else can go on."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await happened()
                await anyio.wait_all_tasks_blocked()
                scope.cancel()

            group.start_soon(cancel)
            await call
    expect(scope.cancelled_caught, "the call was over before it was cancelled")


async def cancelled_task_of_asyncio(bench: Bench) -> None:
    """On asyncio, what ``Task.cancel`` ends (so ``asyncio.timeout`` and ``wait_for``) closes its connection too."""
    if not isinstance(anyio.lowlevel.current_token().native_token, asyncio.AbstractEventLoop):
        return
    gate = Gate()
    async with MockServer(Reply.silence(), answer(b"piece", gate, b"never"), OK) as server:

        async def read_on() -> None:
            async for _ in await bench.open(server):
                pass

        for happened in (partial(server.wait_requests, 1), gate.reached):
            task = asyncio.create_task(read_on())
            await happened()
            await anyio.wait_all_tasks_blocked()
            task.cancel()
            with soon("the server sees the close"):
                await asyncio.wait([task])
                await server.wait_closed()
            expect(task.cancelled(), "the cancellation did not come through")
        expect(await bench.whole(server) == b"ok", "another body")


async def cancelled_drain(bench: Bench) -> None:
    """``drain`` cancelled at any await closes the connection."""

    async def work(server: MockServer) -> None:
        response = await bench.open(server)
        await response.drain(seconds=SOON)

    for kept in (False, True):
        await _walk(bench, work, _last, kept=kept)


async def cancelled_aclose(bench: Bench) -> None:
    """``aclose`` cancelled at any await closes the connection."""

    async def work(server: MockServer) -> None:
        response = await bench.open(server)
        await anext(aiter(response))
        await response.aclose()

    await _walk(bench, work, lambda: (answer(b"piece", Gate(), b"never"),))


CLAUSES: Final = (
    cancelled_open,
    cancelled_upload,
    cancelled_read,
    cancelled_wait_for_the_head,
    cancelled_wait_for_the_body,
    cancelled_task_of_asyncio,
    cancelled_drain,
    cancelled_aclose,
)

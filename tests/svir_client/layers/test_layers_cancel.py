"""Calls through layers, cancelled at each of their awaits: no connection, no slot, no task is left."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import AsyncClient, Fallback, Layer, Limit, Next, Retry, Stream, Timeout
from svir_client.testing import End, Framing, MockServer, Pause, Reply, ScriptedTransport, cancelled_at_every_await
from svir_core.errors import SvirError
from svir_core.request import Request
from tests.svir_client.chat import HELLO, REQUEST, SECONDS, cancelled_everywhere, hello, text
from tests.svir_client.layers.calls import URL

pytestmark = pytest.mark.anyio

MOMENT = 0.005
"""A pause of the server, in seconds: long enough that the client waits there."""

SLOW = Reply.stream(HELLO[0], Pause(MOMENT), *HELLO[1:], framing=Framing.CHUNKED, before_head=Pause(MOMENT))
DOWN = Reply.document({}, status=503, before_head=Pause(MOMENT))
CUT = Reply.stream(b": hold on\n\n", Pause(MOMENT), end=End.RESET)


async def shortly(seconds: float) -> None:
    await anyio.sleep(MOMENT)


async def looking(request: Request, next: Next) -> Stream:
    stream = await next(request)
    await stream.peek()
    return stream


async def hedging(request: Request, next: Next) -> Stream:
    """Two calls at once; the first answer wins."""
    won: list[Stream] = []
    async with anyio.create_task_group() as tasks:

        async def one() -> None:
            won.append(await next(request))
            tasks.cancel_scope.cancel()

        tasks.start_soon(one)
        tasks.start_soon(one)
    return won[0]


CLOCKS: list[Layer] = [
    Timeout.total(SECONDS),
    Timeout.first_token(SECONDS),
    Timeout.idle(SECONDS),
    Timeout.stalled(SECONDS),
]

LAYERS: dict[str, tuple[Callable[[], list[Layer]], list[Reply]]] = {
    "a retry": (lambda: [Retry.transient(2, sleep=shortly)], [DOWN, SLOW]),
    "a retry up to the first event": (
        lambda: [Retry.transient(2, until="first_event", sleep=shortly)],
        [DOWN, CUT, SLOW],
    ),
    "clocks": (lambda: CLOCKS, [SLOW]),
    "a limit": (lambda: [Limit(concurrency=1, rate=(1, MOMENT))], [SLOW]),
    "a look at the first event": (lambda: [looking], [SLOW]),
    "all together": (
        lambda: [
            *CLOCKS,
            Retry.transient(2, until="first_event", sleep=shortly),
            Limit(concurrency=1, rate=(1, MOMENT)),
            looking,
        ],
        [DOWN, CUT, SLOW],
    ),
}


async def complete(client: AsyncClient) -> None:
    with contextlib.suppress(SvirError):
        await client.complete(REQUEST)


async def stream(client: AsyncClient) -> None:
    with contextlib.suppress(SvirError):
        async with client.stream(REQUEST) as events:
            async for _ in events:
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("call", [complete, stream])
@pytest.mark.parametrize("name", LAYERS)
async def test_cancelled_at_any_await(name: str, call: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    make, script = LAYERS[name]
    assert await cancelled_everywhere(lambda: script, call, layers=make()) > 3


async def test_two_at_once_cancelled_at_any_await() -> None:
    """In memory: over a pool of one connection the two would wait for each other."""

    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        with anyio.fail_after(SECONDS):
            async with contextlib.aclosing(ScriptedTransport(SLOW, SLOW)) as transport:
                yield AsyncClient.openai(URL, transport=transport, layers=[hedging]).complete(REQUEST)
                assert transport.open_connections == 0

    assert await cancelled_at_every_await(attempt) > 5


async def test_a_fallback_cancelled_at_any_await() -> None:
    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        with anyio.fail_after(SECONDS):
            async with MockServer(CUT) as first, MockServer(SLOW) as second:
                async with AsyncClient.openai(second.origin) as other:
                    layers = [Fallback(other, until="first_event")]
                    async with AsyncClient.openai(first.origin, layers=layers) as client:
                        yield client.complete(REQUEST)
                    await first.wait_closed()
                await second.wait_closed()

    assert await cancelled_at_every_await(attempt) > 5


@pytest.mark.parametrize("holding", ["a stream", "the time"])
async def test_a_limit_that_is_waited_for_loses_no_slot(holding: str) -> None:
    """Each time the next call begins at once after the one that held the slot, and in its turn."""

    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        limit = Limit(concurrency=1) if holding == "a stream" else Limit(concurrency=1, rate=(1, 4 * MOMENT))
        with anyio.fail_after(SECONDS):
            async with contextlib.aclosing(ScriptedTransport(answer=lambda _: hello())) as transport:
                client = AsyncClient.openai(URL, transport=transport, layers=[limit])

                async def hold(started: Callable[[], Awaitable[None] | None]) -> None:
                    async with client.stream(REQUEST):
                        started()
                        await anyio.sleep(2 * MOMENT)

                async with anyio.create_task_group() as tasks:
                    begun = anyio.Event()
                    tasks.start_soon(hold, begun.set)
                    await begun.wait()
                    yield client.complete(REQUEST)
                assert limit._slots is not None
                assert (limit._slots._free, limit._turn._free) == (1, 1)
                assert (await client.complete(REQUEST)).text == "Hello"

    assert await cancelled_at_every_await(attempt) >= 3


async def test_one_read_with_clocks_cancelled_at_any_await() -> None:
    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        reply = Reply.stream(text("Hel"), Pause(MOMENT), text("lo"), end=End.STALL)
        with anyio.fail_after(SECONDS):
            async with contextlib.aclosing(ScriptedTransport(reply)) as transport:
                client = AsyncClient.openai(URL, transport=transport, layers=CLOCKS)
                async with client.stream(REQUEST) as events:
                    await anext(events)
                    yield anext(events)
                    if transport.open_connections == 0:
                        with pytest.raises(SvirError, match="was cancelled, which ended it"):
                            await anext(events)
                assert transport.open_connections == 0

    assert await cancelled_at_every_await(attempt) >= 1

"""Limit: every row of its tables, in order, with nothing lost."""

from __future__ import annotations

import contextlib
import gc
import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, Fallback, Limit, Next, Retry, Stream
from svir_client.testing import End, Gate, Reply
from svir_core.errors import ConfigError, SvirError, TransportError
from svir_core.request import Request
from tests.svir_client.chat import REQUEST, hello, text
from tests.svir_client.layers.calls import Clock, read, scripted

pytestmark = pytest.mark.anyio

OPEN = Reply.stream(text("Hel"), end=End.STALL)
DENIED = Reply.document({}, status=401)


def said(**headers: str) -> Reply:
    return hello(headers={name.replace("_", "-"): value for name, value in headers.items()})


async def waits(client: AsyncClient) -> bool:
    """Whether a further call has to wait."""
    sent = False

    async with anyio.create_task_group() as tasks:

        async def call() -> None:
            nonlocal sent
            async with client.stream(REQUEST):
                sent = True

        tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    return not sent


# --- concurrency ---------------------------------------------------------------------------------


async def test_so_many_streams_at_once() -> None:
    layers = [Limit(concurrency=2)]
    async with scripted(OPEN, OPEN, OPEN, layers=layers) as (transport, client), client.stream(REQUEST):
        async with client.stream(REQUEST):
            assert await waits(client)
            assert transport.request_count == 2
        async with client.stream(REQUEST):
            assert transport.request_count == 3


async def test_a_slot_is_held_until_the_stream_is_closed_though_it_was_read_to_its_end() -> None:
    layers = [Limit(concurrency=1)]
    async with scripted(hello(), hello(), layers=layers) as (_, client), client.stream(REQUEST) as stream:
        async for _ in stream:
            pass
        assert await waits(client)
        await stream.aclose()
        assert not await waits(client)


async def by_break(client: AsyncClient) -> None:
    async with client.stream(REQUEST) as stream:
        async for _ in stream:
            break


async def by_exception(client: AsyncClient) -> None:
    async with client.stream(REQUEST):
        raise ZeroDivisionError


async def by_cancellation(client: AsyncClient) -> None:
    with anyio.CancelScope() as scope:
        async with client.stream(REQUEST) as stream:
            await anext(stream)
            scope.cancel()
            await anext(stream)


async def by_complete(client: AsyncClient) -> None:
    with anyio.move_on_after(0.02):
        await client.complete(REQUEST)


WAYS: list[tuple[Any, Any]] = [
    (by_break, OPEN),
    (by_exception, OPEN),
    (by_cancellation, OPEN),
    (by_complete, OPEN),
    (by_complete, hello()),
    (by_complete, DENIED),
    (by_complete, TransportError("reset")),
    (by_complete, Reply.silence()),
    (by_complete, Reply.stream(text("Hel"), end=End.RESET)),
    (by_complete, Reply.document({}, status=429, headers={"retry-after": "0"})),
]


@pytest.mark.parametrize(("way", "outcome"), WAYS)
async def test_a_slot_is_given_back(way: Any, outcome: Any) -> None:
    limit = Limit(concurrency=1)
    async with scripted(outcome, hello(), layers=[limit]) as (_, client):
        with contextlib.suppress(SvirError, ZeroDivisionError):
            await way(client)
        assert not await waits(client)


async def test_a_layer_that_raises_around_it_gives_the_slot_back() -> None:
    async def broken(request: Request, next: Next) -> Stream:
        await next(request)
        raise ZeroDivisionError

    limit = Limit(concurrency=1)
    async with scripted(OPEN, OPEN, layers=[broken, limit]) as (_, client):
        for _ in range(2):
            assert isinstance((await read(client))[1], ZeroDivisionError)


@pytest.mark.parametrize("order", ["outside", "inside"])
async def test_with_a_retry(order: str) -> None:
    clock = Clock()
    limit, retry = Limit(concurrency=1, clock=clock, sleep=clock.sleep), Retry.transient(2, sleep=clock.sleep)
    layers = [limit, retry] if order == "outside" else [retry, limit]
    async with scripted(TransportError("reset"), TransportError("reset"), hello(), layers=layers) as (_, client):
        assert (await client.complete(REQUEST)).text == "Hello"


async def test_those_that_wait_begin_in_their_order() -> None:
    order: list[str] = []
    layers = [Limit(concurrency=1)]
    async with (
        scripted(*[hello() for _ in range(11)], layers=layers) as (_, client),
        anyio.create_task_group() as tasks,
        client.stream(REQUEST),
    ):

        async def one(name: str) -> None:
            async with client.stream(Request(name).user("hi")):
                order.append(name)

        for number in range(10):
            tasks.start_soon(one, str(number))
            await anyio.wait_all_tasks_blocked()
    assert order == [str(number) for number in range(10)]


async def test_one_that_waits_and_is_cancelled_takes_nothing() -> None:
    clock = Clock()
    limit = Limit(concurrency=1, rate=(2, 10.0), clock=clock, sleep=clock.sleep)
    async with scripted(hello(), hello(), layers=[limit]) as (_, client):
        async with client.stream(REQUEST):
            assert await waits(client)
            assert await waits(client)
        assert not await waits(client)
    assert clock.waits == []


# --- rate ----------------------------------------------------------------------------------------


async def test_so_many_calls_in_so_many_seconds() -> None:
    clock = Clock()
    starts: list[float] = []

    async def noted(request: Request, next: Next) -> Stream:
        starts.append(clock.now - 1000)
        return await next(request)

    limit = Limit(rate=(2, 10.0), clock=clock, sleep=clock.sleep)
    async with scripted(*[hello() for _ in range(6)], layers=[limit, noted]) as (_, client):
        await client.complete(REQUEST)
        clock.now += 4
        for _ in range(5):
            await client.complete(REQUEST)
    assert starts == [0, 4, 10, 14, 20, 24]
    assert clock.waits == [6, 4, 6, 4]


async def test_a_call_that_failed_counts_for_the_rate() -> None:
    clock = Clock()
    limit = Limit(rate=(1, 10.0), clock=clock, sleep=clock.sleep)
    async with scripted(DENIED, hello(), layers=[limit]) as (_, client):
        await read(client)
        await read(client)
    assert clock.waits == [10]


# --- what the server says ------------------------------------------------------------------------

ROWS: list[tuple[Reply, float | None]] = [
    (said(x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="2m59.5s"), 179.5),
    (said(x_ratelimit_remaining_tokens="0", x_ratelimit_reset_tokens="17ms"), 0.017),
    (
        said(
            x_ratelimit_remaining_requests="0",
            x_ratelimit_reset_requests="1s",
            x_ratelimit_remaining_tokens="0",
            x_ratelimit_reset_tokens="6s",
        ),
        6.0,
    ),
    (said(x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="9d"), 3600.0),
    (said(x_ratelimit_remaining_requests="1", x_ratelimit_reset_requests="6s"), None),
    (said(x_ratelimit_remaining_requests="0"), None),
    (said(x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="soon"), None),
    (
        said(
            anthropic_ratelimit_output_tokens_remaining="0",
            anthropic_ratelimit_output_tokens_reset="9999-01-01T00:00:00Z",
        ),
        3600.0,
    ),
    (
        said(anthropic_ratelimit_requests_remaining="0", anthropic_ratelimit_requests_reset="1999-01-01T00:00:00Z"),
        None,
    ),
    (Reply.document({}, status=429, headers={"retry-after": "7"}), 7.0),
    (Reply.document({}, status=429), None),
    (Reply.document({}, status=503, headers={"retry-after": "7"}), None),
    (hello(), None),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"row {number}" for number in range(len(ROWS))])
async def test_the_next_call_waits_for_what_an_answer_said(row: tuple[Reply, float | None]) -> None:
    clock = Clock()
    async with scripted(row[0], hello(), layers=[Limit(clock=clock, sleep=clock.sleep)]) as (_, client):
        await read(client)
        await read(client)
    assert clock.waits == ([] if row[1] is None else [pytest.approx(row[1])])


async def test_a_shorter_wait_does_not_end_a_longer_one() -> None:
    clock = Clock()
    replies = [
        Reply.document({}, status=429, headers={"retry-after": seconds}, before_head=gate)
        for seconds, gate in (("9", Gate()), ("3", Gate()))
    ]
    async with scripted(*replies, hello(), layers=[Limit(clock=clock, sleep=clock.sleep)]) as (_, client):
        async with anyio.create_task_group() as tasks:
            for reply in replies:
                tasks.start_soon(read, client)
                assert isinstance(reply.before_head, Gate)
                await reply.before_head.reached()
            for reply in replies:
                assert isinstance(reply.before_head, Gate)
                reply.before_head.open()
        await read(client)
    assert clock.waits == [9]


async def test_what_is_said_while_a_call_waits_counts_for_it() -> None:
    clock = Clock()
    gate = Gate()
    first = Reply.document({}, status=429, headers={"retry-after": "25"}, before_head=gate)

    async def sleep(seconds: float) -> None:
        if not clock.waits:
            gate.open()
            await anyio.wait_all_tasks_blocked()
        await clock.sleep(seconds)

    limit = Limit(rate=(1, 10.0), clock=clock, sleep=sleep)
    async with scripted(first, hello(), layers=[limit]) as (_, client), anyio.create_task_group() as tasks:
        tasks.start_soon(read, client)
        await gate.reached()
        tasks.start_soon(read, client)
    assert clock.waits == [10, 15]


async def test_a_wait_for_the_time_that_is_cancelled_leaves_slot_and_turn() -> None:
    clock = Clock()
    cancelled = anyio.CancelScope()

    async def sleep(seconds: float) -> None:
        if cancelled.cancel_called:
            return await clock.sleep(seconds)
        cancelled.cancel()
        await anyio.sleep_forever()

    limit = Limit(concurrency=1, rate=(1, 10.0), clock=clock, sleep=sleep)
    async with scripted(hello(), hello(), layers=[limit]) as (_, client):
        await client.complete(REQUEST)
        with cancelled:
            await client.complete(REQUEST)
        assert cancelled.cancelled_caught
        await client.complete(REQUEST)
    assert clock.waits == [10]


async def test_one_object_limits_every_client_that_has_it() -> None:
    limit = Limit(concurrency=1)
    async with (
        scripted(OPEN, layers=[limit]) as (_, client),
        scripted(layers=[limit]) as (_, other),
        client.stream(REQUEST),
    ):
        assert await waits(other)


def wrong(value: Any) -> Any:
    """A value of another type, as a caller without a checker may give it."""
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limit(concurrency=0),
        lambda: Limit(concurrency=True),
        lambda: Limit(rate=(0, 1.0)),
        lambda: Limit(rate=(1, 0.0)),
        lambda: Limit(rate=(1, math.nan)),
        lambda: Limit(rate=wrong(60)),
        lambda: Limit(rate=wrong((1, 2, 3))),
        lambda: Limit(clock=wrong(1.0)),
        lambda: Limit(sleep=wrong(1.0)),
    ],
)
def test_wrong_options(make: Callable[[], Limit]) -> None:
    with pytest.raises(ConfigError):
        make()


def test_the_name() -> None:
    assert repr(Limit()) == "Limit(concurrency=None, rate=None)"
    assert repr(Limit(concurrency=3, rate=(60, 60))) == "Limit(concurrency=3, rate=(60, 60))"


@pytest.mark.parametrize("collected", ["here", "on a thread"])
async def test_a_stream_that_is_dropped_gives_its_slot_back(collected: str) -> None:
    async with scripted(OPEN, hello(), layers=[Limit(concurrency=1)]) as (transport, client):

        async def dropping() -> None:
            await anext(await client.stream(REQUEST).__aenter__())

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the transport's: it was not closed
            await dropping()
            if collected == "here":
                gc.collect()
            else:
                thread = threading.Thread(target=gc.collect)
                thread.start()
                thread.join()
        assert (await client.complete(REQUEST)).text == "Hello"
        assert transport.request_count == 2


@pytest.mark.parametrize("options", [{"concurrency": 1}, {"rate": (1, 60.0)}])
async def test_a_call_holds_one_slot_though_it_comes_to_its_limit_again(options: dict[str, Any]) -> None:
    clock = Clock()
    limit = Limit(**options, clock=clock, sleep=clock.sleep)
    async with (
        scripted(hello(), hello(), layers=[limit]) as (_, spare),
        scripted(Reply.document({}, status=503), layers=[limit, limit, Fallback(spare)]) as (_, client),
    ):
        async with client.stream(REQUEST) as stream:
            assert [piece async for piece in stream.text()] == ["Hel", "lo"]
            if "concurrency" in options:
                assert await waits(spare)
        assert clock.waits == []
        assert (await spare.complete(REQUEST)).text == "Hello"
        assert clock.waits == ([] if "concurrency" in options else [60.0])


async def test_a_task_that_a_layer_left_running_is_no_part_of_the_call() -> None:
    limit = Limit(concurrency=1)
    gate = Gate()
    texts: list[str] = []

    async with (
        scripted(hello(), layers=[limit]) as (later, spare),
        anyio.create_task_group() as tasks,
    ):

        async def background() -> None:
            await gate.pass_through()
            texts.append((await spare.complete(REQUEST)).text)

        async def spawning(request: Request, next: Next) -> Stream:
            tasks.start_soon(background)
            return await next(request)

        async with scripted(OPEN, layers=[limit, spawning]) as (_, client), client.stream(REQUEST):
            gate.open()
            await anyio.wait_all_tasks_blocked()
            assert later.request_count == 0
    assert texts == ["Hello"]

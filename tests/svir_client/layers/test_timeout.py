"""Timeout: what each of the four clocks ends, and what it does not."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from svir_client import Next, Retry, Stream, Timeout
from svir_client.shape import Deadline, Idle, Stalled
from svir_client.testing import End, Gate, Pause, Reply
from svir_core.errors import ConfigError, ResponseTimeoutError
from svir_core.event import TextDelta
from svir_core.request import Request
from tests.svir_client.chat import FINISH, HELLO, REQUEST, chunk, hello, text
from tests.svir_client.layers.calls import Clock, opened, read, scripted, streaming

pytestmark = pytest.mark.anyio

SHORT = 0.05
"""Seconds of real time that a clock may take to run out in a test: nothing comes before it does."""

LONG = 60.0

KINDS: dict[str, Callable[..., Timeout]] = {
    "first_token": Timeout.first_token,
    "idle": Timeout.idle,
    "total": Timeout.total,
    "stalled": Timeout.stalled,
}
PING = b": ping\n\n"
DRIP = [piece for _ in range(200) for piece in (PING, Pause(SHORT / 10))]
"""Keep-alives, for twenty times as long as the clock allows."""

CALL = chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}]})
WORDS = {
    "first_token": "nothing of the answer came in time",
    "idle": "nothing came from the server for 0.05 s",
    "total": "the answer was not whole in time",
    "stalled": "the server sent no output for 0.05 s",
}

TABLE: dict[str, tuple[Reply, list[str]]] = {
    "from the call to the response's head": (Reply.silence(), ["first_token", "idle", "total"]),
    "a wait without a byte": (Reply.stream(PING, end=End.STALL), ["first_token", "idle", "total", "stalled"]),
    "a wait without a byte, later": (Reply.stream(text("Hel"), end=End.STALL), ["idle", "total", "stalled"]),
    "after a piece of a call": (Reply.stream(CALL, end=End.STALL), ["idle", "total", "stalled"]),
    "keep-alives, but no output": (Reply.stream(*DRIP, end=End.STALL), ["first_token", "total", "stalled"]),
    "keep-alives, later": (Reply.stream(text("Hel"), *DRIP, end=End.STALL), ["total", "stalled"]),
    "output that goes on": (Reply.stream(*[p for _ in range(200) for p in (text("x"), Pause(0.005))]), ["total"]),
}
"""What takes too long, and the clocks that end it."""


@pytest.mark.parametrize(("row", "kind"), [(row, kind) for row, (_, ends) in TABLE.items() for kind in ends])
async def test_the_table(row: str, kind: str) -> None:
    reply = TABLE[row][0]
    async with scripted(reply, layers=[KINDS[kind](SHORT)]) as (_, client):
        events, error = await read(client)
    assert isinstance(error, ResponseTimeoutError)
    assert isinstance(error, TimeoutError)
    assert (error.retryable, error.detail) == (True, WORDS[kind])
    if reply.stall_head:
        assert error.partial is None
    else:
        assert error.partial is not None
        assert error.partial.text == "".join(event.text for event in events if isinstance(event, TextDelta))


def test_a_first_token_ends_its_clock_and_no_other() -> None:
    clock = Clock()
    first, total = (
        Deadline(clock.now + 10, clock, "", until_output=True),
        Deadline(clock.now + 10, clock, "", until_output=False),
    )
    clock.now += 4
    assert (first.left(0), total.left(0)) == (6, 6)
    assert (first.left(1), total.left(1)) == (math.inf, 6)


def test_each_read_may_take_as_long() -> None:
    idle = Idle(10)
    for output in (0, 0, 1):
        assert idle.left(output) == 10
        idle.waited()


def test_the_reads_without_output_share_their_seconds() -> None:
    clock = Clock()
    stalled = Stalled(10, clock)
    for output, left in ((0, 10), (0, 6), (0, 2), (1, 10), (1, 6), (7, 10)):
        assert stalled.left(output) == left
        clock.now += 4
        stalled.waited()
        clock.now += 100


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_in_time(kind: str) -> None:
    async with scripted(hello(), layers=[KINDS[kind](LONG)]) as (_, client):
        assert (await client.complete(REQUEST)).text == "Hello"


def test_the_table_of_the_docstring_has_a_column_for_each() -> None:
    head = re.findall(r"``(\w+)`` \|", (Timeout.__doc__ or "").splitlines()[2])
    assert head == list(KINDS)


# --- by a clock that the test moves --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["first_token", "total"])
async def test_counted_from_the_call(kind: str) -> None:
    clock = Clock()

    async def slow(request: Request, next: Next) -> Stream:
        stream = await next(request)
        clock.now += 10.1
        return stream

    async with streaming(hello(), layers=[KINDS[kind](10, clock=clock), slow]) as stream:
        with pytest.raises(ResponseTimeoutError, match=WORDS[kind]):
            await anext(stream)
        with pytest.raises(ResponseTimeoutError, match=WORDS[kind]):
            await anext(stream)
        with pytest.raises(ResponseTimeoutError):
            _ = stream.completion


async def test_stalled_counts_from_the_response() -> None:
    clock = Clock()

    async def slow(request: Request, next: Next) -> Stream:
        clock.now += 11
        return await next(request)

    async with scripted(hello(), layers=[Timeout.stalled(10, clock=clock), slow]) as (_, client):
        assert (await client.complete(REQUEST)).text == "Hello"


async def test_after_the_first_token_its_clock_stands() -> None:
    clock = Clock()
    async with streaming(hello(), layers=[Timeout.first_token(10, clock=clock)]) as stream:
        assert await anext(stream) == TextDelta("Hel")
        clock.now += 11
        assert [piece async for piece in stream.text()] == ["lo"]


async def test_what_was_read_in_time_is_handed_over_however_late() -> None:
    clock = Clock()
    async with streaming(Reply.stream(b"".join(HELLO)), layers=[Timeout.total(10, clock=clock)]) as stream:
        assert await anext(stream) == TextDelta("Hel")
        clock.now += 11
        assert [piece async for piece in stream.text()] == ["lo"]
        assert stream.completion.text == "Hello"


async def test_what_the_reader_does_between_two_reads_does_not_stall_the_server() -> None:
    clock = Clock()
    async with streaming(hello(), layers=[Timeout.stalled(10, clock=clock)]) as stream:
        async for _ in stream:
            clock.now += 100


async def test_waits_without_output_add_up() -> None:
    clock = Clock()
    gates = [Gate() for _ in range(3)]
    reply = Reply.stream(PING, gates[0], PING, gates[1], text("Hel"), gates[2], PING, FINISH)

    async def passing(seconds: float, gate: Gate) -> None:
        await gate.reached()
        clock.now += seconds
        gate.open()

    async with streaming(reply, layers=[Timeout.stalled(10, clock=clock)]) as stream:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(passing, 6.0, gates[0])
            tasks.start_soon(passing, 3.9, gates[1])
            assert await anext(stream) == TextDelta("Hel")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(passing, 10.1, gates[2])
            with pytest.raises(ResponseTimeoutError, match="no output for 10 s"):
                await anext(stream)


async def test_several_clocks_the_first_to_run_out_counts() -> None:
    clock = Clock()
    layers = [Timeout.total(30, clock=clock), Timeout.first_token(10, clock=clock), Timeout.total(20, clock=clock)]
    async with scripted(hello(), hello(), layers=layers) as (_, client):
        for late, words in ((11, "first_token"), (21, "first_token")):
            async with client.stream(REQUEST) as stream:
                clock.now += late
                with pytest.raises(ResponseTimeoutError, match=WORDS[words]):
                    await anext(stream)


# --- with other layers ---------------------------------------------------------------------------


async def test_each_repeat_of_a_retry_outside_has_its_own_clock() -> None:
    clock = Clock()
    layers = [Retry.transient(2, until="first_event", sleep=clock.sleep), Timeout.first_token(SHORT)]
    replies = [Reply.silence(), Reply.stream(PING, end=End.STALL), hello()]
    async with scripted(*replies, layers=layers) as (transport, client):
        assert (await client.complete(REQUEST)).text == "Hello"
        assert transport.request_count == 3


async def test_the_waits_of_a_retry_inside_count() -> None:
    async def forever(seconds: float) -> None:
        await anyio.sleep_forever()

    busy = Reply.document({}, status=503)
    async with scripted(busy, layers=[Timeout.total(SHORT), Retry.transient(1, sleep=forever)]) as (_, client):
        with pytest.raises(ResponseTimeoutError, match="not whole in time"):
            await opened(client.stream(REQUEST))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0, -1, float("nan"), "1", None, True])
def test_wrong_options(kind: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"Timeout\.{kind} must be a positive number of seconds"):
        KINDS[kind](value)


def test_the_name() -> None:
    assert [repr(make(1.5)) for make in KINDS.values()] == [f"Timeout.{kind}(1.5)" for kind in KINDS]

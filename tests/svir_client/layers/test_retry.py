"""Retry: every row of its table, for every way it is made; how long it waits; what it sends."""

from __future__ import annotations

import functools
import math
import pathlib
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client import Next, Retry, Stream
from svir_client.layers.attempt import Failure, Phase
from svir_client.testing import End, Gate, Reply
from svir_core.errors import (
    ConfigError,
    RateLimitedError,
    ResponseTimeoutError,
    ServerError,
    SvirError,
    TransportError,
    TruncatedStreamError,
)
from svir_core.event import TextDelta
from svir_core.message import Message, Text, TextFile
from svir_core.request import Request
from svir_core.response import Partial
from tests.svir_client.chat import REQUEST, hello, text
from tests.svir_client.layers.calls import (
    Clock,
    Outcome,
    became,
    inspected,
    opened,
    read,
    read_one,
    read_whole,
    repeated_inside,
    scripted,
)

pytestmark = pytest.mark.anyio

UNSENT = TransportError("refused", unsent=True)
SENT = TransportError("reset")
BROKEN = Reply.stream(b": hold on\n\n", end=End.RESET)
CUT = Reply.stream(text("Hel"), end=End.RESET)
QUOTA = Reply.document({"error": {"message": "no credit", "code": "insufficient_quota"}}, status=429)
BUSY = Reply.document({"error": {"message": "slow down"}}, status=429)
DENIED = Reply.document({"error": {"message": "who?"}}, status=401)

KINDS: dict[str, Callable[..., Retry]] = {
    "connect": Retry.connect,
    "transient": Retry.transient,
    "first_event": functools.partial(Retry.transient, until="first_event"),
}

REPEATS: list[tuple[Outcome, str, str, str]] = [
    (UNSENT, "repeated", "repeated", "repeated"),
    (SENT, "raised", "repeated", "repeated"),
    (BUSY, "raised", "repeated", "repeated"),
    (Reply.document({}, status=503), "raised", "repeated", "repeated"),
    (ResponseTimeoutError("late"), "raised", "repeated", "repeated"),
    (BROKEN, "given on", "given on", "repeated"),
    (Reply.stream(), "given on", "given on", "repeated"),
    (CUT, "given on", "given on", "given on"),
    (QUOTA, "raised", "raised", "raised"),
    (DENIED, "raised", "raised", "raised"),
    (ConfigError("closed", unsent=True), "raised", "raised", "raised"),
    (Reply.stream(b'data: {"error":{"message":"kaput"}}\n\n'), "given on", "given on", "raised"),
]
"""Outcomes, and what becomes of each under the three: the table of the docstring, row by row."""


def made(kind: str, n: int, clock: Clock, **options: Any) -> Retry:
    return KINDS[kind](n, sleep=clock.sleep, random=lambda: 0.0, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", REPEATS, ids=[f"row {number}" for number in range(len(REPEATS))])
async def test_the_table(row: tuple[Outcome, str, str, str], kind: str) -> None:
    outcome, verdict = row[0], row[1 + list(KINDS).index(kind)]
    clock = Clock()
    async with scripted(outcome, layers=[made(kind, 2, clock)]) as (transport, client):
        if verdict == "repeated":
            transport.add(hello())
        assert await became(client, "repeated") == verdict
        assert len(clock.waits) == (verdict == "repeated")


def test_the_table_is_that_of_the_docstring() -> None:
    rows = re.findall(r"^    \| ([\w` ,()-]+) \| (\w[\w ]*) \| (\w[\w ]*) \| (\w[\w ]*) \|$", Retry.__doc__ or "", re.M)
    assert {row[1:] for row in rows} == {row[1:] for row in REPEATS}
    assert len(rows) == 9


@pytest.mark.parametrize("kind", KINDS)
async def test_up_to_n_repeats(kind: str) -> None:
    clock = Clock()
    async with scripted(*[UNSENT] * 3, layers=[made(kind, 2, clock)]) as (_, client):
        with pytest.raises(TransportError, match="refused"):
            await client.complete(REQUEST)
    assert clock.waits == [0.5, 1.0]


async def test_what_is_no_error_of_ours_is_not_repeated() -> None:
    async def broken(request: Request, next: Next) -> Stream:
        raise ZeroDivisionError

    clock = Clock()
    async with scripted(layers=[made("first_event", 3, clock), broken]) as (_, client):
        assert isinstance((await read(client))[1], ZeroDivisionError)
    assert clock.waits == []


async def test_the_error_leads_to_no_other_try() -> None:
    async with scripted(UNSENT, SENT, layers=[made("transient", 1, Clock())]) as (_, client):
        _, error = await read(client)
    assert error is not None
    assert (str(error), error.__cause__, error.__context__) == ("reset", None, None)


# --- the first event -----------------------------------------------------------------------------


async def test_the_first_event_is_looked_at_and_not_taken() -> None:
    async with scripted(BROKEN, hello(), layers=[made("first_event", 1, Clock())]) as (transport, client):
        events, error = await read(client)
        assert ([event for event in events if isinstance(event, TextDelta)], error) == (
            [TextDelta("Hel"), TextDelta("lo")],
            None,
        )
        assert transport.request_count == 2


async def test_entering_waits_for_the_first_event_only() -> None:
    gate = Gate()
    reply = Reply.stream(text("Hel"), gate, end=End.RESET)
    layers = [made("first_event", 1, Clock())]
    async with scripted(reply, layers=layers) as (_, client), client.stream(REQUEST) as stream:
        assert await anext(stream) == TextDelta("Hel")
        gate.open()
        with pytest.raises(TruncatedStreamError) as caught:
            await anext(stream)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hel"


async def test_a_failure_in_the_stream_that_is_repeated_is_closed_first() -> None:
    async with scripted(BROKEN, layers=[made("first_event", 1, Clock())]) as (transport, client):
        gate = Gate()
        transport.add(hello(before_head=gate))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.complete, REQUEST)
            await gate.reached()
            assert transport.open_connections == 1
            gate.open()


# --- waits ---------------------------------------------------------------------------------------


async def test_the_backoff_doubles_up_to_a_cap() -> None:
    clock = Clock()
    async with scripted(*[SENT] * 9, layers=[made("transient", 8, clock)]) as (_, client):
        await read(client)
    assert clock.waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_up_to_one_half_of_a_wait_is_left_out(repeats: int, number: float) -> None:
    retry = Retry.transient(1, random=lambda: number)
    longest = min(0.5 * 2 ** min(repeats, 100), 30.0)
    assert longest / 2 <= retry._wait(Failure(Phase.UNSENT, UNSENT), repeats) <= longest


LATER = datetime.now(UTC) + timedelta(hours=1)


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("86400", 30.0),
        pytest.param(LATER.strftime("%a, %d %b %Y %H:%M:%S GMT"), 30.0, id="a date to come"),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("soon", 0.5),
    ],
)
async def test_retry_after(header: str, wait: float) -> None:
    clock = Clock()
    busy = Reply.document({}, status=503, headers={"retry-after": header})
    async with scripted(busy, hello(), layers=[made("transient", 1, clock)]) as (_, client):
        await client.complete(REQUEST)
    assert clock.waits == [wait]


async def test_a_layer_inside_may_ask_for_no_more_either() -> None:
    clock = Clock()
    error = RateLimitedError("mine", retry_after=4000.0)
    async with scripted(error, hello(), layers=[made("transient", 1, clock)]) as (_, client):
        await client.complete(REQUEST)
    assert clock.waits == [30.0]


async def test_no_repeat_begins_after_within() -> None:
    clock = Clock()
    layers = [Retry.transient(9, within=4.0, clock=clock, sleep=clock.sleep, random=lambda: 0.0)]
    async with scripted(*[SENT] * 4, layers=layers) as (_, client):
        assert (await read(client))[1] == SENT
    assert clock.waits == [0.5, 1.0, 2.0]


async def test_a_wait_that_is_cancelled_ends_the_call() -> None:
    async def forever(seconds: float) -> None:
        scope.cancel()
        await anyio.sleep_forever()

    async with scripted(SENT, layers=[Retry.transient(3, sleep=forever)]) as (transport, client):
        with anyio.CancelScope() as scope:
            await client.complete(REQUEST)
        assert scope.cancelled_caught
        assert transport.request_count == 1


# --- what is sent again --------------------------------------------------------------------------


async def test_a_file_is_measured_and_read_again(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("first")

    async def rewritten(seconds: float) -> None:
        await anyio.Path(path).write_text("second, and longer")

    request = Request("m").message(Message.user("Read.", TextFile.path(path)))
    layers = [Retry.transient(1, sleep=rewritten)]
    async with scripted(BUSY, hello(), layers=layers) as (transport, client):
        await client.complete(request)
        bodies = [request.body for request in transport.requests]
    assert b"first" in bodies[0]
    assert b"second, and longer" in bodies[1]


async def test_the_key_is_asked_for_again() -> None:
    keys = iter(["sk-1", "sk-2"])
    layers = [made("transient", 1, Clock())]
    async with scripted(BUSY, hello(), layers=layers, api_key=lambda: next(keys)) as (transport, client):
        await client.complete(REQUEST)
        sent = [dict(request.headers)["authorization"] for request in transport.requests]
    assert sent == ["Bearer sk-1", "Bearer sk-2"]


async def test_a_client_that_is_closed_meanwhile_is_not_asked_again() -> None:
    async def closing(seconds: float) -> None:
        await client.aclose()

    async with scripted(SENT, layers=[Retry.transient(3, sleep=closing)]) as (_, client):
        with pytest.raises(ConfigError, match="the client is closed"):
            await opened(client.stream(REQUEST))


# --- options -------------------------------------------------------------------------------------


def wrong(value: Any) -> Any:
    """A value of another type, as a caller without a checker may give it."""
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry.connect(0),
        lambda: Retry.transient(-1),
        lambda: Retry.transient(True),
        lambda: Retry.transient(1, until="last_event"),
        lambda: Retry.transient(1, within=0),
        lambda: Retry.transient(1, within=math.nan),
        lambda: Retry.transient(1, sleep=wrong(None)),
        lambda: Retry.transient(1, random=wrong(0.5)),
        lambda: Retry.transient(1, clock=wrong(0.5)),
    ],
)
def test_wrong_options(make: Callable[[], Retry]) -> None:
    with pytest.raises(ConfigError):
        make()


def test_the_name() -> None:
    assert [repr(make(3)) for make in KINDS.values()] == [
        "Retry.connect(3)",
        "Retry.transient(3)",
        'Retry.transient(3, until="first_event")',
    ]


async def test_an_answer_with_a_failure_of_the_server_before_its_first_event_is_raised() -> None:
    kaput = Reply.stream(b'data: {"error":{"message":"kaput"}}\n\n')
    async with scripted(kaput, layers=[made("first_event", 3, Clock())]) as (_, client):
        with pytest.raises(ServerError):
            await opened(client.stream(REQUEST))


READERS: list[tuple[Callable[..., Any], list[Outcome]]] = [
    (inspected, [hello()]),
    (read_whole, [CUT]),
    (repeated_inside, [CUT, UNSENT]),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layer", "outcomes"), READERS, ids=[layer.__name__ for layer, _ in READERS])
async def test_nothing_is_repeated_after_an_event_whoever_read_it(
    layer: Callable[..., Any], outcomes: list[Outcome], kind: str
) -> None:
    clock = Clock()
    async with scripted(*outcomes, layers=[made(kind, 2, clock), layer]) as (_, client):
        _, error = await read(client)
        assert isinstance(error, SvirError)
        assert error.retryable
    assert clock.waits == []


async def test_what_follows_an_event_that_a_layer_took_is_not_repeated() -> None:
    clock = Clock()
    async with scripted(CUT, layers=[made("first_event", 2, clock), read_one]) as (_, client):
        with pytest.raises(TruncatedStreamError):
            await opened(client.stream(REQUEST))
    assert clock.waits == []


async def test_an_error_that_brings_what_was_shown_elsewhere_is_not_repeated() -> None:
    async def elsewhere(request: Request, next: Next) -> Stream:
        error = TransportError("cut")
        error.partial = Partial((Text("Hel"),))
        raise error

    clock = Clock()
    async with scripted(layers=[made("transient", 2, clock), elsewhere]) as (_, client):
        with pytest.raises(TransportError, match="cut"):
            await client.complete(REQUEST)
    assert clock.waits == []

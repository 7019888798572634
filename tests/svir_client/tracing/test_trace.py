"""Every call is reported once at its start and once at its end, with what it was and never with what was said."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import logging
import sys
import warnings
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, Client, Fallback, Next, Retry, Stream, Timeout, Trace
from svir_client.testing import End, MockServer, Pause, Reply, ScriptedTransport
from svir_client.tracing import Level, Outcome, ProviderStart, TraceEvent, function, memory
from svir_client.tracing.sink import Sinks
from svir_core.errors import ConfigError, ErrorKind, RateLimitedError, TransportError
from svir_core.request import Request, Tool
from svir_core.response import FinishReason, Usage
from tests.svir_client.chat import DONE, FINISH, REQUEST, SECONDS, USAGE, chunk, hello, text
from tests.svir_client.layers.calls import URL, Clock, read, scripted, streaming
from tests.svir_client.tracing.traced import START, end_of, pairs, traced

pytestmark = pytest.mark.anyio

COUNTED = Reply.stream(text("Hel"), text("lo"), FINISH, USAGE, DONE, headers={"x-request-id": "req-1"})
DOWN = Reply.document({"error": {"message": "canary"}}, status=503, headers={"x-request-id": "req-2"})
CUT = Reply.stream(text("Hel"), end=End.RESET)


class Ticking(Clock):
    """A clock that goes on by a second whenever it is looked at."""

    def __call__(self) -> float:
        self.now += 1
        return self.now


async def test_a_call_that_was_answered() -> None:
    sink = memory()
    trace = Trace(sink, clock=Ticking(), now=lambda: 1735689600.0)
    end = await traced(COUNTED, layers=[trace], sink=sink)
    start, over = sink.events
    assert start.attributes == ProviderStart(api="openai_chat", model="m", message_count=1, tool_count=0)
    assert (start.level, start.name, start.time, start.session_id, start.operation_id) == (
        Level.INFO,
        "m",
        1735689600.0,
        None,
        None,
    )
    assert (over.level, over.name, over.time) == (Level.INFO, "m", 1735689602.0)
    assert (end.outcome, end.seconds, end.first_token_seconds) == (Outcome.COMPLETED, 2.0, 1.0)
    assert (end.finish_reason, end.requires_continuation, end.tool_call_count) == (FinishReason.STOP, False, 0)
    assert end.usage == Usage(input=3, output=2, total=5)
    assert (end.answered_model, end.response_id, end.provider_request_id, end.status) == ("m", "c", "req-1", 200)
    assert (end.retries, end.anomaly_count, end.tokens_per_second) == (0, 0, None)
    assert (end.error_kind, end.error_class, end.retryable) == (None, None, None)


async def test_what_was_not_reported_is_none() -> None:
    sink = memory()
    end = await traced(hello(), layers=[Trace(sink)], sink=sink)
    assert (end.usage, end.provider_request_id) == (None, None)
    assert "usage" not in sink.events[-1].document()["attributes"]


async def test_the_rate_is_that_of_the_completion() -> None:
    sink = memory()
    slow = Reply.stream(text("a"), Pause(0.06), text("b"), FINISH, USAGE, DONE)
    async with scripted(slow, layers=[Trace(sink)]) as (_, client), client.stream(REQUEST) as stream:
        async for _event in stream:
            pass
    assert stream.completion.tokens_per_second is not None
    assert end_of(sink).tokens_per_second == stream.completion.tokens_per_second


async def test_calls_of_tools_are_counted_and_an_answer_without_text_has_no_first_token() -> None:
    sink = memory()
    call = {"index": 0, "id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    end = await traced(
        Reply.stream(chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), DONE), layers=[Trace(sink)], sink=sink
    )
    assert (end.tool_call_count, end.finish_reason) == (1, FinishReason.TOOL_CALLS)
    assert end.first_token_seconds is not None
    sink.clear()
    assert (await traced(Reply.stream(FINISH, DONE), layers=[Trace(sink)], sink=sink)).first_token_seconds is None


async def test_messages_and_tools_are_counted() -> None:
    sink = memory()
    request = Request("m", system="s", tools=[Tool("a"), Tool("b")]).user("hi")
    async with scripted(hello(), layers=[Trace(sink)]) as (_, client):
        await client.complete(request)
    start = sink.events[0].attributes
    assert isinstance(start, ProviderStart)
    assert (start.message_count, start.tool_count) == (1, 2)


async def test_a_call_that_was_refused() -> None:
    sink = memory()
    end = await traced(DOWN, layers=[Trace(sink)], sink=sink)
    assert sink.events[-1].level is Level.ERROR
    assert (end.outcome, end.error_kind, end.error_class) == (Outcome.FAILED, ErrorKind.TRANSPORT, "TransportError")
    assert (end.status, end.retryable, end.provider_request_id) == (503, True, "req-2")
    assert (end.finish_reason, end.tool_call_count, end.first_token_seconds, end.usage) == (None, None, None, None)


async def test_a_stream_that_failed() -> None:
    sink = memory()
    end = await traced(CUT, layers=[Trace(sink)], sink=sink)
    assert (end.outcome, end.error_kind, end.status) == (Outcome.FAILED, ErrorKind.TRUNCATED_STREAM, 200)
    assert (end.answered_model, end.response_id, end.anomaly_count) == ("m", "c", 0)
    assert end.first_token_seconds is not None


async def test_a_mistake_of_this_side_and_what_is_no_error_of_ours() -> None:
    sink = memory()
    end = await traced(ConfigError("mine"), layers=[Trace(sink)], sink=sink)
    assert (end.error_kind, end.retries, end.status) == (ErrorKind.CONFIG, 0, None)
    sink.clear()

    def broken() -> str:
        raise LookupError("canary")

    async with scripted(layers=[Trace(sink)], api_key=broken) as (_, client):
        assert isinstance((await read(client))[1], LookupError)
    end = end_of(sink)
    assert (end.outcome, end.error_kind, end.error_class) == (Outcome.FAILED, None, "LookupError")
    assert (end.retryable, end.anomaly_count) == (None, None)


async def test_retries_inside_are_counted_and_outside_are_calls_of_their_own() -> None:
    inner, outer, clock = memory(), memory(), Clock()
    layers = [Trace(outer), Retry.transient(3, sleep=clock.sleep, random=lambda: 0), Trace(inner)]
    end = await traced(DOWN, TransportError("x", unsent=True), COUNTED, layers=layers, sink=outer)
    assert (end.outcome, end.retries, end.provider_request_id) == (Outcome.COMPLETED, 2, "req-1")
    starts, ends = pairs(inner)
    outcomes = [event.document()["attributes"]["outcome"] for event in ends]
    assert outcomes == ["failed", "failed", "completed"]
    assert len({event.run_id for event in starts}) == 3
    assert [event.run_id for event in starts] == [event.run_id for event in ends]


async def test_a_repeat_up_to_the_first_event() -> None:
    inner, outer, clock = memory(), memory(), Clock()
    broken = Reply.stream(b": hold on\n\n", end=End.RESET)
    layers = [Trace(outer), Retry.transient(1, until="first_event", sleep=clock.sleep), Trace(inner)]
    end = await traced(broken, hello(), layers=layers, sink=outer)
    assert (end.outcome, end.retries) == (Outcome.COMPLETED, 1)
    assert end.first_token_seconds is not None
    assert [event.document()["attributes"]["outcome"] for event in pairs(inner)[1]] == ["failed", "completed"]


async def test_a_fallback_inside() -> None:
    sink = memory()
    async with (
        contextlib.aclosing(ScriptedTransport(COUNTED)) as transport,
        AsyncClient.openai(URL, transport=transport) as other,
    ):
        end = await traced(DOWN, layers=[Trace(sink), Fallback(other)], sink=sink)
    assert (end.outcome, end.retries, end.status, end.provider_request_id) == (Outcome.COMPLETED, 0, 200, "req-1")


async def test_a_timeout_on_either_side() -> None:
    for order in (slice(None), slice(None, None, -1)):
        sink = memory()
        layers = [Trace(sink), Timeout.total(0.02)][order]
        end = await traced(Reply.stream(text("a"), end=End.STALL), layers=layers, sink=sink)
        assert (end.outcome, end.error_kind) == (Outcome.FAILED, ErrorKind.TIMEOUT)
        sink.clear()


async def test_a_timeout_outside_that_ends_the_opening_abandons_the_call() -> None:
    sink = memory()

    async def stuck(request: Request, next: Next) -> Stream:
        await anyio.sleep_forever()
        raise AssertionError

    async with scripted(layers=[Timeout.total(0.02), Trace(sink), stuck]) as (_, client):
        await read(client)
    end = end_of(sink)
    assert end.outcome is Outcome.ABANDONED
    assert end.error_class in {"CancelledError", "Cancelled"}
    assert sink.events[-1].level is Level.WARNING


@pytest.mark.parametrize("way", ["break", "raise", "close", "cancel", "drop"])
async def test_a_stream_that_was_left_is_abandoned_once(way: str) -> None:
    sink = memory()
    endless = Reply.stream(text("a"), end=End.STALL)
    async with contextlib.aclosing(ScriptedTransport(endless)) as transport:
        client = AsyncClient.openai(URL, transport=transport, layers=[Trace(sink)])
        with anyio.fail_after(SECONDS), contextlib.suppress(LookupError):
            if way == "drop":
                stream = await client.stream(REQUEST).__aenter__()
                await anext(stream)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ResourceWarning)  # the transport's: it was not closed
                    del stream
                    gc.collect()
            else:
                async with client.stream(REQUEST) as stream:
                    await anext(stream)
                    if way == "raise":
                        raise LookupError
                    if way == "close":
                        await stream.aclose()
                    if way == "cancel":
                        with anyio.move_on_after(0.01):
                            await anext(stream)
    end = end_of(sink)
    assert (end.outcome, end.error_kind, end.usage) == (Outcome.ABANDONED, None, None)
    assert end.first_token_seconds is not None


async def test_an_answer_that_came_whole_is_one_however_far_it_was_read() -> None:
    sink = memory()
    whole = Reply.stream(b"".join((text("Hel"), text("lo"), FINISH, DONE)))
    async with streaming(whole, layers=[Trace(sink)]) as stream:
        await anext(stream)
    assert end_of(sink).outcome is Outcome.COMPLETED


async def test_what_a_layer_throws_away_has_an_end_too() -> None:
    sink = memory()

    async def twice(request: Request, next: Next) -> Stream:
        await next(request)
        return await next(request)

    async with scripted(hello(), hello(), layers=[twice, Trace(sink)]) as (_, client):
        await read(client)
    starts, ends = pairs(sink)
    assert len(starts) == 2
    assert {event.run_id for event in starts} == {event.run_id for event in ends}
    assert [event.document()["attributes"]["outcome"] for event in ends] == ["abandoned", "completed"]


async def test_a_long_name_is_cut() -> None:
    sink = memory()
    long = "x" * 10_000
    reply = Reply.stream(
        *(b"data: " + json.dumps({"id": long, "model": long, "choices": [c]}).encode() + b"\n\n" for c in CHOICES), DONE
    )
    async with scripted(reply, layers=[Trace(sink)]) as (_, client):
        await client.complete(Request(long).user("hi"))
    end = end_of(sink)
    assert [len(name or "") for name in (end.model, end.answered_model, end.response_id)] == [256] * 3


CHOICES: list[dict[str, Any]] = [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]


async def test_a_sink_that_fails_breaks_nothing_and_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        content = True

        def write(self, event: TraceEvent) -> None:
            raise LookupError("canary")

    good = memory()
    trace = Trace(Broken(), good, capture=True)
    with caplog.at_level(logging.DEBUG):
        async with scripted(hello(), DOWN, layers=[trace]) as (_, client):
            assert (await client.complete(REQUEST)).text == "Hello"
            with pytest.raises(TransportError):
                await client.complete(REQUEST)
    assert len(good.events) == 4
    assert trace.failures == 4
    assert [(record.name, record.levelname) for record in caplog.records] == [("svir.tracing", "WARNING")]
    assert "Broken failed: LookupError" in caplog.text
    assert "canary" not in caplog.text


async def test_several_clients_share_one() -> None:
    sink = memory()
    trace = Trace(sink)
    for _ in range(2):
        async with scripted(hello(), layers=[trace]) as (_, client):
            await client.complete(REQUEST)
    assert len({event.run_id for event in sink.events}) == 2


async def test_the_blocking_client() -> None:
    sink = memory()
    async with MockServer(answer=lambda _: COUNTED) as server:
        origin = server.origin

        def call() -> None:
            with Client.openai(origin, layers=[Trace(sink)]) as client:
                assert client.complete(REQUEST).text == "Hello"
                with client.stream(REQUEST) as stream:
                    for _ in stream:
                        break

        with anyio.fail_after(SECONDS):
            await anyio.to_thread.run_sync(call)
    starts, ends = pairs(sink)
    assert len(starts) == len(ends) == 2
    assert ends[0].document()["attributes"]["usage"] == {"input": 3, "output": 2, "total": 5}


ANY: Any = Trace
"""For mistakes that a checker would find."""


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (ANY, "Trace needs a sink"),
        (lambda: ANY(print), "a sink has write"),
        (lambda: ANY(memory(), capture=1), "capture must be a bool"),
        (lambda: ANY(memory(), secrets="sk-canary"), "secrets is a collection"),
        (lambda: ANY(memory(), secrets=[1]), "each of secrets"),
        (lambda: ANY(memory(), clock=1), "clock must be callable"),
        (lambda: ANY(memory(), now=1), "now must be callable"),
    ],
)
def test_mistakes(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


def test_it_shows_its_sinks_by_their_class() -> None:
    assert repr(Trace(memory(), function(print))) == "Trace(MemorySink, FunctionSink)"


async def test_a_rate_limit_is_told_by_its_kind() -> None:
    sink = memory()
    end = await traced(RateLimitedError("x", retryable=False), layers=[Trace(sink)], sink=sink)
    assert (end.error_kind, end.retryable) == (ErrorKind.RATE_LIMITED, False)


class Raising:
    """A sink, and a clock, that raises."""

    content = False

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def write(self, event: TraceEvent) -> None:
        raise self.error

    def __call__(self) -> float:
        raise self.error


CONTAINED = [ValueError("canary"), asyncio.CancelledError(), BaseExceptionGroup("canary", [asyncio.CancelledError()])]
PASSING = [KeyboardInterrupt(), SystemExit(1), BaseExceptionGroup("", [KeyboardInterrupt()])]


@pytest.mark.parametrize("error", CONTAINED, ids=lambda error: type(error).__name__)
async def test_a_sink_that_raises_harms_nobody(error: BaseException) -> None:
    sink = memory()
    trace = Trace(Raising(error), sink)
    async with scripted(hello(), layers=[trace]) as (_, client):
        assert (await client.complete(REQUEST)).text == "Hello"
    assert end_of(sink).outcome is Outcome.COMPLETED
    assert trace.failures == 2


@pytest.mark.parametrize("error", CONTAINED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("name", ["clock", "now"])
async def test_a_clock_that_raises_harms_nobody(
    name: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    sink = memory()
    clocks: dict[str, Any] = {name: Raising(error)}
    trace = Trace(sink, **clocks)
    async with scripted(hello(), layers=[trace]) as (_, client):
        assert (await client.complete(REQUEST)).text == "Hello"
    end = end_of(sink)
    assert end.outcome is Outcome.COMPLETED
    assert trace.failures == (3 if name == "clock" else 1)
    assert (end.seconds == 0) is (name == "clock")
    assert sink.events[0].time > 1_700_000_000
    assert [record.message for record in caplog.records] == [
        f"a clock of a Trace failed: {type(error).__name__}; from now on that is only counted"
    ]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["sink", "clock"])
async def test_what_ends_the_process_passes(where: str, error: BaseException) -> None:
    raising = Raising(error)
    sinks = Sinks([raising])
    tell = (
        functools.partial(sinks.write, START, START) if where == "sink" else functools.partial(sinks.read, raising, 0)
    )
    with pytest.raises(type(error)):
        tell()


RUN_ID = """
import anyio
from svir_client import Trace
from svir_client.tracing import memory
from tests.svir_client.chat import hello
from tests.svir_client.tracing.traced import traced

sink = memory()
anyio.run(lambda: traced(hello(), layers=[Trace(sink)], sink=sink))
print(sink.events[0].run_id)
"""


async def test_a_run_has_an_id_of_its_own() -> None:
    sinks = [memory() for _ in range(3)]
    for sink in sinks:
        await traced(hello(), layers=[Trace(sink)], sink=sink)
    with anyio.fail_after(SECONDS):
        elsewhere = await anyio.run_process([sys.executable, "-c", RUN_ID])
    ids = {event.run_id for sink in sinks for event in sink.events}
    assert len({*ids, elsewhere.stdout.decode().strip()}) == 4

"""Calls of a model inside a generation are part of it, in whatever way they are made."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Generator
from types import coroutine
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, Fallback, Next, Retry, Stream, Trace
from svir_client.testing import Reply, ScriptedTransport
from svir_client.tracing import EventType, MemorySink, ProviderEnd, ProviderStart, memory
from svir_client.tracing.run import Enclosing, enclosing, inside
from svir_client.tracing.traced_generation import TracedGeneration
from svir_core.generation import Progress
from svir_core.message import Message
from svir_core.redact import REDACTED, Redactor
from svir_core.request import Request
from tests.svir_client.chat import DONE, FINISH, REQUEST, SECONDS, hello, text
from tests.svir_client.layers.calls import URL, Clock, read, scripted

pytestmark = pytest.mark.anyio

KEY = "sk-canary-key-7f3a"
INPUT = Message.user("hi")


def begun(trace: Trace, run_id: str = "run") -> TracedGeneration:
    traced = TracedGeneration([trace], "openai_chat", "m", "s", run_id, redactor=Redactor())
    traced.start(INPUT, Request("m").message(INPUT))
    return traced


def types(sink: MemorySink) -> list[EventType]:
    return [event.type for event in sink.events]


async def test_calls_of_a_round_are_part_of_it() -> None:
    sink = memory()
    trace = Trace(sink)
    async with scripted(hello(), hello(), hello(), layers=[trace]) as (_, client):
        traced = begun(trace)
        for number in (1, 2):
            with traced.round(number):
                stream = client.stream(REQUEST)
                await stream.__aenter__()
            async for _event in stream:
                assert enclosing() is None
            await stream.aclose()
        traced.failed(None, Progress())
        await client.complete(REQUEST)
    calls = [event for event in sink.events if event.type in {EventType.PROVIDER_START, EventType.PROVIDER_END}]
    seen: list[Any] = []
    for event in calls:
        assert isinstance(event.attributes, ProviderStart | ProviderEnd)
        seen.append((event.run_id == "run", event.session_id, event.operation_id, event.attributes.round))
    inside = [(True, "s", "round-1", 1)] * 2 + [(True, "s", "round-2", 2)] * 2
    assert seen == [*inside, *[(False, None, None, None)] * 2]
    whole = sink.events[0].span_id
    assert [event.parent_id for event in calls] == [whole] * 4 + [None] * 2
    spans = [event.span_id for event in calls]
    assert spans[::2] == spans[1::2]
    assert len({whole, *spans}) == 4


async def test_each_try_of_a_round_is_a_span_of_its_own() -> None:
    sink = memory()
    trace = Trace(sink)
    down = Reply.document({"error": {"message": "x"}}, status=503)
    layers: list[Any] = [Retry.transient(2, sleep=Clock().sleep), trace]
    async with scripted(down, down, hello(), layers=layers) as (_, client):
        traced = begun(trace)
        with traced.round(1):
            await client.complete(REQUEST)
        traced.failed(None, Progress())
    calls = [event for event in sink.events if event.operation_id == "round-1"]
    assert len(calls) == 6
    spans = [event.span_id for event in calls]
    assert spans[::2] == spans[1::2]
    assert len(set(spans)) == 3


async def test_a_trace_of_another_client_tells_which_generation_its_calls_are_part_of() -> None:
    own, others = memory(), memory()
    trace = Trace(own)
    down = Reply.document({"error": {"message": "x"}}, status=503)
    async with (
        contextlib.aclosing(ScriptedTransport(hello())) as transport,
        AsyncClient.openai(URL, transport=transport, layers=[Trace(others)]) as other,
        scripted(down, layers=[trace, Fallback(other)]) as (_, client),
    ):
        traced = begun(trace)
        with traced.round(1):
            await client.complete(REQUEST)
        traced.failed(None, Progress())
    assert [event.run_id for event in others.events] == ["run", "run"]
    assert types(others) == [EventType.PROVIDER_START, EventType.PROVIDER_END]


async def test_rounds_of_two_generations_at_once() -> None:
    sink = memory()
    trace = Trace(sink)

    async def generate(client: AsyncClient, run_id: str) -> None:
        traced = begun(trace, run_id=run_id)
        with traced.round(1):
            await client.complete(REQUEST)
        traced.failed(None, Progress())

    async with scripted(hello(), hello(), layers=[trace]) as (_, client):
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(generate, client, "one")
                tasks.start_soon(generate, client, "two")
    for run in ("one", "two"):
        start, *calls, end = [event for event in sink.events if event.run_id == run]
        assert (start.type, end.type) == (EventType.GENERATION_START, EventType.GENERATION_END)
        assert [event.parent_id for event in calls] == [start.span_id] * 2


async def test_a_generation_inside_the_model_of_another_one_is_part_of_that() -> None:
    sink = memory()
    trace = Trace(sink)

    async def model(request: Request, next: Next) -> Stream:
        inner = begun(trace, run_id="inner")
        with inner.round(1):
            stream = await next(request)
        inner.failed(None, Progress())
        return stream

    async with scripted(hello(), layers=[model, trace]) as (_, client):
        outer = begun(trace, run_id="outer")
        with outer.round(1):
            await read(client)
        outer.failed(None, Progress())
    runs = {event.run_id: event for event in sink.events if event.type is EventType.GENERATION_START}
    assert runs["inner"].parent_id == runs["outer"].span_id
    (call,) = [event for event in sink.events if event.type is EventType.PROVIDER_START]
    assert (call.run_id, call.parent_id) == ("inner", runs["inner"].span_id)


async def test_a_key_of_a_call_is_known_from_then_on() -> None:
    sink = memory(content=True)
    trace = Trace(sink, capture=True)
    async with scripted(Reply.stream(text("a"), FINISH, DONE), layers=[trace], api_key=KEY) as (_, client):
        traced = begun(trace)
        with traced.round(1):
            await client.complete(REQUEST)
        traced.failed(LookupError(f"canary {KEY}"), Progress())
    assert sink.events[-1].document()["content"] == {"exception": f"LookupError: canary {REDACTED}"}


def test_a_coroutine_that_is_closed_in_another_context() -> None:
    """As the collector closes those of an event loop that is over."""

    @coroutine
    def switch() -> Generator[None]:
        yield

    async def work() -> None:
        with inside(Enclosing("span")):
            await switch()

    pending = work()
    contextvars.Context().run(pending.send, None)
    pending.close()
    assert enclosing() is None

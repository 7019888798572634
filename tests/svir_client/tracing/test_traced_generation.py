"""A generation is reported once at its start and once at its end, and what it calls as part of it."""

from __future__ import annotations

import gc
from typing import Any

import anyio
import attrs
import pytest

from svir_client import AsyncClient, Fallback, Retry, Trace
from svir_client.testing import ScriptedTransport
from svir_client.tracing import (
    EventType,
    GenerationEnd,
    GenerationFailure,
    GenerationStart,
    Level,
    MemorySink,
    Outcome,
    TraceEvent,
    memory,
)
from svir_client.tracing.traced_generation import TracedGeneration
from svir_core.errors import ErrorKind, MaxRoundsError
from svir_core.generation import Generation, GenerationOutcome, Progress
from svir_core.message import Message, Role, Text
from svir_core.redact import REDACTED, Redactor
from svir_core.request import Request, Tool
from svir_core.response import Completion, FinishReason, Usage
from tests.svir_client.layers.calls import URL, Clock

pytestmark = pytest.mark.anyio

KEY = "sk-canary-key-7f3a"
INPUT = Message.user(f"canary {KEY}")
ASKED = Request("m", tools=[Tool("a"), Tool("b")]).user("before").message(INPUT)
ANSWERED = Completion(FinishReason.STOP, (Text("canary"),))


def begun(*layers: Any, redactor: Redactor | None = None, **ids: Any) -> TracedGeneration:
    known: dict[str, Any] = {"session_id": "s", "run_id": "run", "model": "m"} | ids
    traced = TracedGeneration(
        layers, "openai_chat", known["model"], known["session_id"], known["run_id"], redactor=redactor or Redactor()
    )
    traced.start(INPUT, ASKED)
    return traced


def generation(outcome: GenerationOutcome = GenerationOutcome.ANSWERED, usage: Usage | None = None) -> Generation:
    return Generation(ANSWERED, (INPUT,), usage or Usage(), rounds=3, tool_calls=2, outcome=outcome)


def types(sink: MemorySink) -> list[EventType]:
    return [event.type for event in sink.events]


async def test_a_generation_that_was_answered() -> None:
    sink, clock = memory(), Clock()
    traced = begun(Trace(sink, clock=clock, now=lambda: 1735689600.0))
    clock.now += 4
    traced.end(generation(usage=Usage(input=7, output=0)))
    start, end = sink.events
    assert start.attributes == GenerationStart(
        api="openai_chat", model="m", input_role=Role.USER, message_count=2, tool_count=2
    )
    assert end.attributes == GenerationEnd(
        api="openai_chat",
        model="m",
        outcome=GenerationOutcome.ANSWERED,
        seconds=4.0,
        model_rounds=3,
        tool_calls=2,
        finish_reason=FinishReason.STOP,
        usage=Usage(input=7, output=0),
    )
    assert [(event.type, event.level, event.time) for event in (start, end)] == [
        (EventType.GENERATION_START, Level.INFO, 1735689600.0),
        (EventType.GENERATION_END, Level.INFO, 1735689604.0),
    ]
    for event in (start, end):
        assert (event.name, event.session_id, event.run_id, event.operation_id) == ("m", "s", "run", None)
        assert (event.parent_id, event.content) == (None, None)
    assert start.span_id == end.span_id
    assert end.document()["attributes"]["usage"] == {"input": 7, "output": 0}


@pytest.mark.parametrize("outcome", list(GenerationOutcome))
async def test_what_stopped_or_waits_is_a_warning(outcome: GenerationOutcome) -> None:
    sink = memory()
    begun(Trace(sink)).end(generation(outcome))
    end = sink.events[-1]
    assert end.document()["attributes"]["outcome"] == outcome.value
    assert end.level is (Level.INFO if outcome is GenerationOutcome.ANSWERED else Level.WARNING)


async def test_tokens_that_nobody_reported_are_not_there() -> None:
    sink = memory()
    begun(Trace(sink)).end(generation())
    assert "usage" not in sink.events[-1].document()["attributes"]


async def test_a_generation_that_failed() -> None:
    sink, clock = memory(), Clock()
    traced = begun(Trace(sink, clock=clock))
    clock.now += 2
    come = Progress(ANSWERED, (INPUT,), Usage(input=1), rounds=8, tool_calls=5)
    traced.failed(MaxRoundsError("canary"), come)
    assert types(sink) == [EventType.GENERATION_START, EventType.ERROR]
    assert sink.events[-1].level is Level.ERROR
    assert sink.events[-1].attributes == GenerationFailure(
        api="openai_chat",
        model="m",
        category="exception",
        seconds=2.0,
        model_rounds=8,
        tool_calls=5,
        usage=Usage(input=1),
        error_kind=ErrorKind.MAX_ROUNDS,
        error_class="MaxRoundsError",
    )


async def test_what_is_no_error_of_ours() -> None:
    sink = memory()
    begun(Trace(sink)).failed(LookupError("canary"), Progress(rounds=2))
    end = sink.events[-1].attributes
    assert isinstance(end, GenerationFailure)
    assert (end.category, end.error_kind, end.error_class) == ("unknown_exception", None, "LookupError")
    assert (end.model_rounds, end.tool_calls, end.usage) == (2, 0, None)
    assert "canary" not in repr(sink.events)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), None])
async def test_one_that_was_left_is_abandoned(error: BaseException | None) -> None:
    sink = memory()
    begun(Trace(sink)).failed(error, Progress(ANSWERED, (), Usage(output=1), rounds=1, tool_calls=1))
    assert types(sink) == [EventType.GENERATION_START, EventType.GENERATION_END]
    end = sink.events[-1]
    assert end.level is Level.WARNING
    assert isinstance(end.attributes, GenerationEnd)
    assert attrs.evolve(end.attributes, seconds=0) == GenerationEnd(
        api="openai_chat",
        model="m",
        outcome=Outcome.ABANDONED,
        seconds=0,
        model_rounds=1,
        tool_calls=1,
        finish_reason=FinishReason.STOP,
        usage=Usage(output=1),
    )


async def test_one_that_was_cancelled_is_abandoned() -> None:
    sink = memory()
    traced = begun(Trace(sink))
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            traced.failed(error, Progress())
            raise
    assert sink.events[-1].document()["attributes"]["outcome"] == "abandoned"


async def test_one_that_was_dropped_is_abandoned_and_knows_no_figures() -> None:
    sink = memory()
    traced = begun(Trace(sink))
    del traced
    gc.collect()
    (start, end) = sink.events
    assert start.span_id == end.span_id
    assert list(end.document()["attributes"]) == ["api", "model", "outcome", "seconds"]
    assert end.document()["attributes"]["outcome"] == "abandoned"


async def test_it_ends_once() -> None:
    sink = memory()
    traced = begun(Trace(sink))
    traced.end(generation())
    traced.end(generation())
    traced.failed(LookupError(), Progress())
    del traced
    gc.collect()
    assert types(sink) == [EventType.GENERATION_START, EventType.GENERATION_END]


async def test_what_has_not_begun_reports_nothing() -> None:
    sink = memory()
    traced = TracedGeneration([Trace(sink)], "openai_chat", "m", "s", "run", redactor=Redactor())
    traced.failed(LookupError(), Progress())
    del traced
    gc.collect()
    assert sink.events == ()


async def test_one_that_goes_on_has_no_input() -> None:
    sink = memory(content=True)
    traced = TracedGeneration([Trace(sink, capture=True)], "openai_chat", "m", None, "run", redactor=Redactor())
    traced.start(None, ASKED)
    traced.end(generation())
    start = sink.events[0]
    assert isinstance(start.attributes, GenerationStart)
    assert (start.attributes.input_role, start.session_id) == (None, None)
    assert start.document()["content"] == {}


async def test_each_trace_of_the_client_is_told_by_its_own_clock() -> None:
    one, two = memory(), memory()
    slow, fast = Clock(), Clock()
    traced = begun(Trace(one, clock=slow), Retry.transient(1), Trace(two, clock=fast))
    slow.now += 1
    fast.now += 3
    traced.end(generation())
    assert [sink.events[-1].document()["attributes"]["seconds"] for sink in (one, two)] == [1.0, 3.0]
    assert [event.span_id for event in one.events] == [event.span_id for event in two.events]


async def test_without_a_trace_it_is_nothing() -> None:
    other = AsyncClient.openai(URL, layers=[Trace(sink := memory())], transport=ScriptedTransport())
    traced = begun(Retry.transient(1), Fallback(other))
    traced.end(generation())
    assert sink.events == ()


async def test_names_are_cut() -> None:
    sink = memory()
    begun(Trace(sink), session_id="s" * 999, run_id="r" * 999, model="m" * 999).end(generation())
    for event in sink.events:
        assert [len(text or "") for text in (event.name, event.session_id, event.run_id)] == [256] * 3


class Broken:
    content = True

    def write(self, event: TraceEvent) -> None:
        raise LookupError("canary")


async def test_a_sink_that_fails_breaks_nothing() -> None:
    good = memory()
    trace = Trace(Broken(), good)
    begun(trace).end(generation())
    assert (len(good.events), trace.failures) == (2, 2)


# --- content -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("capture", "content"), [(False, False), (True, False), (False, True), (True, True)])
async def test_what_was_said_is_there_with_both_switches_alone(capture: bool, content: bool) -> None:
    sink = memory(content=content)
    trace = Trace(sink, capture=capture)
    begun(trace, redactor=Redactor([KEY])).failed(LookupError(f"canary {KEY}"), Progress())
    start, end = sink.events
    if capture and content:
        assert start.document()["content"] == {
            "input": [{"role": "user", "parts": [{"type": "text", "content": f"canary {REDACTED}"}]}]
        }
        assert end.document()["content"] == {"exception": f"LookupError: canary {REDACTED}"}
    else:
        assert "canary" not in repr([event.document() for event in sink.events])


async def test_a_text_that_cannot_be_had() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise LookupError("canary")

    sink = memory(content=True)
    begun(Trace(sink, capture=True)).failed(Mute(), Progress())
    assert sink.events[-1].document()["content"] == {"exception": "Mute"}

"""Each call of a tool is reported at its start and its end, and changed in nothing."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Any, cast

import anyio
import attrs
import pytest

from svir_client import SessionState, Toolbox, ToolContext, Tools, Trace, call_all
from svir_client.tracing import EventType, Level, MemorySink, Outcome, ToolEnd, ToolStart, TraceEvent, memory
from svir_client.tracing.traced_generation import TracedGeneration
from svir_core.generation import Progress
from svir_core.message import Image, Message, Text, ToolCall, ToolResult
from svir_core.redact import REDACTED, Redactor
from svir_core.request import Request, Tool
from tests.svir_client.chat import REQUEST, SECONDS, hello
from tests.svir_client.layers.calls import Clock, scripted

pytestmark = pytest.mark.anyio

KEY = "sk-canary-key-7f3a"


def generation(*traces: Any, run_id: str = "run") -> TracedGeneration:
    traced = TracedGeneration(traces, "openai_chat", "m", "s", run_id, redactor=Redactor())
    traced.start(Message.user("hi"), Request("m").user("hi"))
    return traced


def asked(name: str, id: str = "t1", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, json.dumps(arguments))


def of_tools(sink: MemorySink) -> list[TraceEvent]:
    return [event for event in sink.events if event.type in {EventType.TOOL_START, EventType.TOOL_END}]


def end_of(sink: MemorySink) -> ToolEnd:
    start, end = of_tools(sink)
    assert start.span_id == end.span_id
    assert isinstance(end.attributes, ToolEnd)
    return end.attributes


def registry(**options: Any) -> Tools:
    tools = Tools(**options)

    @tools.tool
    def look(at: str) -> str:
        return f"canary-result {at}"

    @tools.tool
    def broken() -> str:
        raise LookupError(f"canary-exception {KEY}")

    return tools


async def test_a_call() -> None:
    sink, clock = memory(), Clock()
    traced = generation(Trace(sink, clock=clock, now=lambda: 1735689600.0))
    tools = Tools()

    @tools.tool
    async def look() -> str:
        clock.now += 2
        return "seen"

    box = traced.tools(tools, 3)
    assert isinstance(box, Toolbox)
    assert tuple(box.tools()) == tools.tools()
    assert await box.call(asked("look")) == ToolResult("t1", "seen")
    start, end = of_tools(sink)
    assert start.attributes == ToolStart(round=3)
    assert end.attributes == ToolEnd(round=3, outcome=Outcome.COMPLETED, is_error=False, seconds=2.0)
    assert [(event.level, event.time, event.content) for event in (start, end)] == [
        (Level.INFO, 1735689600.0, None),
        (Level.INFO, 1735689602.0, None),
    ]
    for event in (start, end):
        assert (event.name, event.session_id, event.run_id, event.operation_id) == ("look", "s", "run", "t1")
        assert event.parent_id == sink.events[0].span_id


@pytest.mark.parametrize("name", ["broken", "look", "nowhere"])
async def test_a_result_that_is_an_error_is_a_warning(name: str) -> None:
    sink = memory()
    plain = await registry().call(asked(name, canary=1))
    assert await generation(Trace(sink)).tools(registry(), 1).call(asked(name, canary=1)) == plain
    assert plain.is_error
    start, end = of_tools(sink)
    assert (start.level, end.level, end.name) == (Level.INFO, Level.WARNING, name)
    assert (end_of(sink).outcome, end_of(sink).is_error, end_of(sink).error_class) == (Outcome.COMPLETED, True, None)
    assert "canary" not in repr([event.document() for event in sink.events])


class Box:
    """A toolbox of a caller, who may do anything."""

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome

    def tools(self) -> Iterable[Tool]:
        return ()

    async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        if self.outcome == "wait":
            await anyio.sleep_forever()
        return cast("ToolResult", self.outcome)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(LookupError(f"canary {KEY}"), Outcome.FAILED), (KeyboardInterrupt("canary"), Outcome.ABANDONED)],
)
async def test_what_a_toolbox_raises_is_raised(error: BaseException, outcome: Outcome) -> None:
    sink = memory()
    with pytest.raises(type(error)) as caught:
        await generation(Trace(sink)).tools(Box(error), 1).call(asked("x"))
    assert caught.value is error
    assert of_tools(sink)[-1].level is Level.WARNING
    end = end_of(sink)
    assert (end.outcome, end.is_error, end.error_class) == (outcome, None, type(error).__name__)


async def test_what_is_no_result_goes_on_as_it_is() -> None:
    sink = memory()
    given: object = await generation(Trace(sink)).tools(Box(7), 1).call(asked("x"))
    assert given == 7
    assert (end_of(sink).outcome, end_of(sink).is_error, end_of(sink).error_class) == (Outcome.FAILED, None, None)


async def test_a_call_that_is_cancelled_is_abandoned() -> None:
    sink = memory()
    box = generation(Trace(sink)).tools(Box("wait"), 1)
    with anyio.move_on_after(0.01) as scope:
        await box.call(asked("x"))
    assert scope.cancelled_caught
    assert end_of(sink).outcome is Outcome.ABANDONED


async def test_calls_at_once_have_an_end_each() -> None:
    sink = memory()
    ready = [anyio.Event() for _ in range(3)]
    tools = Tools()

    @tools.tool
    async def wait(number: int) -> str:
        ready[number].set()
        for each in ready:
            await each.wait()
        return str(number)

    box = generation(Trace(sink)).tools(tools, 1)
    with anyio.fail_after(SECONDS):
        results = await call_all(box, [asked("wait", f"t{number}", number=number) for number in range(3)])
    assert [result.content for result in results] == ["0", "1", "2"]
    events = of_tools(sink)
    assert [event.type for event in events[:3]] == [EventType.TOOL_START] * 3
    spans = {event.operation_id: event.span_id for event in events[:3]}
    assert {event.operation_id: event.span_id for event in events[3:]} == spans
    assert len(set(spans.values())) == 3


async def test_names_and_ids_are_cut_and_known_secrets_taken_out() -> None:
    sink = memory()
    trace = Trace(sink, secrets=[KEY])
    long = KEY + "n" * 999
    await generation(trace).tools(registry(), 1).call(ToolCall(long, long, "{}"))
    for event in of_tools(sink):
        for text in (event.name, event.operation_id):
            assert text == (REDACTED + "n" * 999)[:256]


async def test_without_a_trace_a_toolbox_is_itself() -> None:
    tools = registry()
    assert generation().tools(tools, 1) is tools


async def test_a_sink_that_fails_breaks_nothing() -> None:
    class Broken:
        content = True

        def write(self, event: TraceEvent) -> None:
            raise LookupError("canary")

    trace = Trace(Broken(), capture=True)
    box = generation(trace).tools(registry(), 1)
    assert await box.call(asked("look", at="x")) == ToolResult("t1", "canary-result x")
    assert trace.failures == 3


# --- content -----------------------------------------------------------------------------------------


async def test_what_was_said() -> None:
    sink = memory(content=True)
    box = generation(Trace(sink, capture=True, secrets=[KEY])).tools(registry(), 1)
    await box.call(asked("look", at=KEY))
    await box.call(asked("broken"))
    await box.call(ToolCall("t3", "nowhere", f'{{"cut": "{KEY}'))
    await box.call(ToolCall("t4", "nowhere", "null"))
    assert [event.document()["content"] for event in of_tools(sink)] == [
        {"arguments": {"at": REDACTED}},
        {"result": f"canary-result {REDACTED}"},
        {"arguments": {}},
        {"result": "tool 'broken' failed", "exception": f"LookupError: canary-exception {REDACTED}"},
        {"arguments": f'{{"cut": "{REDACTED}'},
        {"result": "unknown tool: nowhere"},
        {"arguments": "null"},
        {"result": "unknown tool: nowhere"},
    ]
    assert "canary" not in repr(sink.events)


@pytest.mark.parametrize(("capture", "content"), [(False, False), (True, False), (False, True)])
async def test_without_both_switches_nothing_was_said(capture: bool, content: bool) -> None:
    sink = memory(content=content)
    box = generation(Trace(sink, capture=capture)).tools(registry(), 1)
    await box.call(asked("look", at="canary-argument"))
    await box.call(asked("broken"))
    assert "canary" not in repr([event.document() for event in sink.events])


async def test_parts_of_a_result() -> None:
    sink = memory(content=True)
    result = ToolResult("t1", [Text(f"a {KEY}"), Image.data(b"canary-bytes", "image/png")])
    box = generation(Trace(sink, capture=True, secrets=[KEY])).tools(Box(result), 1)
    assert await box.call(asked("x")) is result
    assert of_tools(sink)[-1].document()["content"] == {
        "result": [
            {"type": "text", "content": f"a {REDACTED}"},
            {"type": "file", "modality": "image", "mime_type": "image/png"},
        ]
    }


async def test_what_a_toolbox_raises_is_content() -> None:
    sink = memory(content=True)
    box = generation(Trace(sink, capture=True, secrets=[KEY])).tools(Box(LookupError(KEY)), 1)
    with pytest.raises(LookupError):
        await box.call(asked("x"))
    assert of_tools(sink)[-1].document()["content"] == {"exception": f"LookupError: {REDACTED}"}


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("own", [False, True])
async def test_who_is_to_know_of_an_exception_is_told_still(capture: bool, own: bool) -> None:
    told: list[str] = []

    def tell(who: str, error: Exception) -> None:
        assert isinstance(error, LookupError)
        told.append(who)

    tools = registry(on_error=functools.partial(tell, "registry"))
    context = ToolContext(run_id="run", on_error=functools.partial(tell, "context")) if own else None
    box = generation(Trace(memory(content=True), capture=capture)).tools(tools, 1)
    await box.call(asked("broken"), context)
    assert told == (["registry", "context"] if own else ["registry"])


async def test_a_context_goes_on_as_it_is() -> None:
    seen: list[ToolContext] = []
    tools = Tools()

    @tools.tool
    def look(context: ToolContext) -> str:
        seen.append(context)
        return ""

    given = ToolContext(session_id="s", run_id="run", state=SessionState())
    box = generation(Trace(memory(content=True), capture=True)).tools(tools, 1)
    await box.call(asked("look"), given)
    (here,) = seen
    assert attrs.evolve(here, on_error=None) == attrs.evolve(given, call_id="t1")
    assert here.state is given.state


# --- what a tool calls -------------------------------------------------------------------------------


def starts(sink: MemorySink, type: EventType, run_id: str | None = None) -> list[TraceEvent]:
    return [event for event in sink.events if event.type is type and run_id in {None, event.run_id}]


async def test_what_a_tool_calls_is_part_of_its_call() -> None:
    sink = memory()
    trace = Trace(sink)
    tools = Tools()
    async with scripted(hello(), layers=[trace]) as (_, client):

        @tools.tool
        async def look() -> str:
            generation(trace, run_id="nested").failed(None, Progress())
            return (await client.complete(REQUEST)).text

        assert await generation(trace).tools(tools, 1).call(asked("look")) == ToolResult("t1", "Hello")
    span = of_tools(sink)[0].span_id
    (nested,) = starts(sink, EventType.GENERATION_START, "nested")
    assert nested.parent_id == span
    (call,) = starts(sink, EventType.PROVIDER_START)  # a call by itself, of no session
    assert (call.parent_id, call.session_id, call.operation_id) == (span, None, None)
    assert call.run_id not in {"run", "nested"}


async def test_what_a_tool_calls_in_a_thread_is_part_of_its_call() -> None:
    sink = memory()
    trace = Trace(sink)
    tools = Tools()

    @tools.tool
    def look() -> str:
        generation(trace, run_id="nested").failed(None, Progress())
        return ""

    await generation(trace).tools(tools, 1).call(asked("look"))
    (nested,) = starts(sink, EventType.GENERATION_START, "nested")
    assert nested.parent_id == of_tools(sink)[0].span_id

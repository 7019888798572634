"""A generation over a client, told to every sink: the events in their order, what they hold, and one end each."""

from __future__ import annotations

import contextlib
import gc
import io
import pathlib
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from opentelemetry import trace

from svir_client import (
    AsyncClient,
    Client,
    Fallback,
    FunctionModel,
    Session,
    Tools,
    Trace,
    generate,
    generate_stream,
    resume,
)
from svir_client.sync import generation as blocking
from svir_client.testing import MockServer, Pause, Reply, ScriptedTransport
from svir_client.tracing import EventType, GenerationEnd, Level, MemorySink, TraceEvent, console, memory
from svir_core.errors import MaxRoundsError, TransportError
from svir_core.generation import GenerationOutcome
from svir_core.loop_limits import LoopLimits
from svir_core.message import Text, ToolCall
from svir_core.redact import REDACTED
from svir_core.request import Request
from svir_core.response import Completion, FinishReason, Usage
from tests.svir_client.chat import DONE, FINISH, SECONDS, USAGE, cancelled_everywhere, chunk, text
from tests.svir_client.layers.calls import URL, scripted
from tests.svir_client.tracing.sinks.telemetry import Telemetry
from tests.svir_client.tracing.test_content import Everywhere

pytestmark = pytest.mark.anyio

KEY = "sk-canary-key-7f3a"
HEADER = "canary-header-7f3a"
PROMPT = "canary-prompt-7f3a"
ARGUMENT = "canary-argument-7f3a"
RESULT = "canary-result-7f3a"
HIDDEN = "canary-hidden-7f3a"
ANSWER = "canary-answer-7f3a"
CANARIES = {KEY, HEADER, PROMPT, ARGUMENT, RESULT, HIDDEN, ANSWER}


def calls(*asked: tuple[str, str]) -> bytes:
    """An answer of Chat Completions that asks for tools by name, with these arguments."""
    parts = [
        {"index": number, "id": f"t{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(asked)
    ]
    return chunk({"tool_calls": parts}) + chunk({}, "tool_calls")


LOOK = Reply.stream(calls(("look", "{}")), USAGE, DONE)
ANSWERED = Reply.stream(text("Hello"), FINISH, USAGE, DONE)
DOWN = Reply.document({"error": {"message": "x"}}, status=503)


def registry() -> Tools:
    tools = Tools()

    @tools.tool
    async def look() -> str:
        await anyio.lowlevel.checkpoint()
        return "seen"

    @tools.tool
    def ask(a: str, b: str) -> str:
        return f"{RESULT} {b}"

    @tools.tool
    def broken() -> str:
        raise LookupError(f"{HIDDEN} {KEY}")

    @tools.tool(requires_approval=True)
    def delete() -> str:
        return "gone"

    return tools


def told(sink: MemorySink) -> list[tuple[str, str | None]]:
    return [(event.type.value, event.operation_id) for event in sink.events]


def last(sink: MemorySink) -> TraceEvent:
    return sink.events[-1]


async def test_the_events_of_two_rounds() -> None:
    sink = memory()
    session = Session()
    async with scripted(LOOK, ANSWERED, layers=[Trace(sink)]) as (_, client):
        given = await generate(client, session, "hi", model="m", tools=registry())
    assert told(sink) == [
        ("generation_start", None),
        ("provider_start", "round-1"),
        ("provider_end", "round-1"),
        ("tool_start", "t0"),
        ("tool_end", "t0"),
        ("provider_start", "round-2"),
        ("provider_end", "round-2"),
        ("generation_end", None),
    ]
    assert {event.session_id for event in sink.events} == {session.id}
    assert len({event.run_id for event in sink.events}) == 1
    assert {event.parent_id for event in sink.events} == {None, sink.events[0].span_id}
    rounds = [event.document()["attributes"].get("round") for event in sink.events]
    assert rounds == [None, 1, 1, 1, 1, 2, 2, None]
    end = last(sink).attributes
    assert isinstance(end, GenerationEnd)
    assert (end.outcome, end.model_rounds, end.tool_calls) == (GenerationOutcome.ANSWERED, 2, 1)
    assert end.usage == given.usage == Usage(input=6, output=4, total=10)
    assert end.finish_reason is FinishReason.STOP


def of_calls(sink: MemorySink) -> list[tuple[str, str | None, Any, Any]]:
    """What was told of calls of tools: the event, the call, its round, and whether its result is an error."""
    return [
        (
            event.type.value,
            event.operation_id,
            event.document()["attributes"]["round"],
            event.document()["attributes"].get("is_error"),
        )
        for event in sink.events
        if event.type in {EventType.TOOL_START, EventType.TOOL_END}
    ]


@pytest.mark.parametrize("mixed", [False, True])
async def test_calls_that_got_a_no_are_told_when_they_are_stored(mixed: bool) -> None:
    sink, session = memory(content=True), Session()
    asked = (("delete", "{}"), *([("look", "{}")] if mixed else []), ("delete", "{}"))
    no = {f"t{number}": False for number, (name, _) in enumerate(asked) if name == "delete"}
    replies = (Reply.stream(calls(*asked), USAGE, DONE), ANSWERED)
    async with scripted(*replies, layers=[Trace(sink, capture=True)]) as (_, client):
        waits = await generate(client, session, "hi", model="m", tools=registry())
        assert waits.outcome is GenerationOutcome.AWAITING_APPROVAL
        assert of_calls(sink) == []
        answer = await resume(client, session, tools=registry(), approvals=no)
    assert answer.tool_calls == len(asked)
    ran = [("tool_start", "t1", 1, None), ("tool_end", "t1", 1, False)] if mixed else []
    denied = [event for id in no for event in (("tool_start", id, 1, None), ("tool_end", id, 1, True))]
    assert of_calls(sink) == [*ran, *denied]
    ends = [event for event in sink.events if event.type is EventType.TOOL_END]
    assert ends[-1].level is Level.WARNING
    assert "not approved" in ends[-1].document()["content"]["result"]
    begun = [event.type for event in sink.events].index(EventType.GENERATION_START, 4)
    assert begun < sink.events.index(ends[0])
    assert {event.parent_id for event in ends} == {sink.events[begun].span_id}


async def test_calls_that_were_cut_off_are_told_when_they_are_stored() -> None:
    sink = memory()
    part = {"index": 0, "id": "t0", "type": "function", "function": {"name": "look", "arguments": '{"a'}}
    cut = Reply.stream(chunk({"tool_calls": [part]}), chunk({}, "length"), USAGE, DONE)
    async with scripted(cut, ANSWERED, layers=[Trace(sink)]) as (_, client):
        answer = await generate(client, None, "hi", model="m", tools=registry())
    assert answer.tool_calls == 1
    assert of_calls(sink) == [("tool_start", "t0", 1, None), ("tool_end", "t0", 1, True)]


async def test_on_the_console() -> None:
    shown = io.StringIO()
    async with scripted(LOOK, ANSWERED, layers=[Trace(console(shown))]) as (_, client):
        await generate(client, Session("s1"), "hi", model="m", tools=registry())
    lines = shown.getvalue().splitlines()
    assert [line.split()[1:3] for line in lines] == [
        ["[info]", name]
        for name in (
            "generation_start",
            *("provider_start", "provider_end"),
            *("tool_start", "tool_end"),
            *("provider_start", "provider_end"),
            "generation_end",
        )
    ]
    assert all(" session_id=s1 run_id=" in line for line in lines)
    assert lines[0].endswith(" api=openai_chat input_role=user message_count=1 tool_count=4")
    assert " name=look " in lines[3]
    assert lines[3].endswith(" operation_id=t0 round=1")
    assert " outcome=answered " in lines[-1]
    assert lines[-1].endswith(" usage.input=6 usage.output=4 usage.total=10")


def answers(*given: Completion) -> Iterator[Completion]:
    yield from given


def model(*given: Completion, layers: list[Any]) -> FunctionModel:
    script = answers(*given)

    def answer(request: Request) -> Completion:
        return next(script)

    return FunctionModel(answer, layers=layers)


def asking(name: str, id: str = "t0", arguments: str = "{}") -> Completion:
    return Completion(FinishReason.TOOL_CALLS, (ToolCall(id, name, arguments),))


SAID = Completion(FinishReason.STOP, (Text("Hello"),))


async def test_what_waits_for_approval_and_goes_on() -> None:
    sink = memory()
    session = Session()
    async with model(asking("delete"), SAID, layers=[Trace(sink)]) as client:
        waiting = await generate(client, session, "hi", model="m", tools=registry())
        assert waiting.outcome is GenerationOutcome.AWAITING_APPROVAL
        assert (last(sink).level, last(sink).document()["attributes"]["outcome"]) == (
            Level.WARNING,
            "awaiting_approval",
        )
        sink.clear()
        await resume(client, session, tools=registry(), approvals={"t0": True})
    assert told(sink) == [
        ("generation_start", None),
        ("tool_start", "t0"),
        ("tool_end", "t0"),
        ("provider_start", "round-2"),
        ("provider_end", "round-2"),
        ("generation_end", None),
    ]
    assert "input_role" not in sink.events[0].document()["attributes"]
    assert sink.events[1].document()["attributes"] == {"round": 1}
    assert last(sink).document()["attributes"]["model_rounds"] == 2


async def test_what_stops_at_a_tools_error() -> None:
    sink = memory()
    async with model(asking("broken"), layers=[Trace(sink)]) as client:
        await generate(client, None, "hi", model="m", tools=registry(), limits=LoopLimits(stop_on_tool_error=True))
    assert [event.level for event in sink.events[-2:]] == [Level.WARNING, Level.WARNING]
    assert last(sink).document()["attributes"]["outcome"] == "tool_error"


async def test_what_fails() -> None:
    sink = memory()
    async with model(asking("look"), asking("look", "t1"), layers=[Trace(sink)]) as client:
        with pytest.raises(MaxRoundsError):
            await generate(client, None, "hi", model="m", tools=registry(), limits=LoopLimits(rounds=2))
    assert (last(sink).type, last(sink).level) == (EventType.ERROR, Level.ERROR)
    failure = last(sink).document()["attributes"]
    assert (failure["error_kind"], failure["model_rounds"], failure["tool_calls"]) == ("max_rounds", 2, 1)
    assert EventType.GENERATION_END not in [event.type for event in sink.events]


async def test_a_call_of_the_model_that_fails() -> None:
    sink = memory()
    async with scripted(LOOK, DOWN, layers=[Trace(sink)]) as (_, client):
        with pytest.raises(TransportError):
            await generate(client, None, "hi", model="m", tools=registry())
    failure = last(sink).document()["attributes"]
    assert (failure["category"], failure["error_kind"], failure["model_rounds"]) == ("exception", "transport", 1)
    assert failure["usage"] == {"input": 3, "output": 2, "total": 5}


async def test_what_never_began_reports_nothing() -> None:
    sink = memory()
    session = Session()
    async with model(SAID, layers=[Trace(sink)]) as client:
        with session.lease(), pytest.raises(Exception, match="session"):
            await generate(client, session, "hi", model="m")
    assert sink.events == ()


@pytest.mark.parametrize("way", ["break", "cancel", "drop"])
async def test_what_is_left_is_abandoned(way: str) -> None:
    sink = memory()
    async with model(asking("look"), SAID, layers=[Trace(sink)]) as client:
        run = generate_stream(client, None, "hi", model="m", tools=registry())
        with anyio.CancelScope() as scope:
            if way == "drop":
                await run.__aenter__()
                await anext(run)
            else:
                async with run:
                    async for _ in run:
                        if way == "cancel":
                            scope.cancel()
                        else:
                            break
        del run
        gc.collect()
    kinds = [event.type for event in sink.events]
    assert kinds.count(EventType.GENERATION_START) == kinds.count(EventType.GENERATION_END) == 1
    assert kinds.count(EventType.PROVIDER_START) == kinds.count(EventType.PROVIDER_END) == 1
    (end,) = [event for event in sink.events if event.type is EventType.GENERATION_END]
    assert (end.level, end.document()["attributes"]["outcome"]) == (Level.WARNING, "abandoned")


async def test_cancelled_at_any_await() -> None:
    sink = memory()
    slow = Reply.stream(calls(("look", "{}"), ("ask", '{"a": "", "b": ""}')), DONE, before_head=Pause(0.001))

    async def work(client: AsyncClient) -> None:
        await generate(client, None, "hi", model="m", tools=registry())

    times = await cancelled_everywhere(lambda: [slow, ANSWERED], work, layers=[Trace(sink)])
    assert times > 5
    check_tree(sink)
    outcomes = {
        event.document()["attributes"]["outcome"] for event in sink.events if event.type.value == "generation_end"
    }
    assert outcomes == {"answered", "abandoned"}


def check_tree(sink: MemorySink) -> None:
    """Every span has a start and then an end, and all but those of generations are part of one of their own run."""
    starts: dict[str, TraceEvent] = {}
    for event in sink.events:
        if event.type.value.endswith("_start"):
            assert event.span_id not in starts
            starts[event.span_id] = event
    ends = [event for event in sink.events if not event.type.value.endswith("_start")]
    assert sorted(event.span_id for event in ends) == sorted(starts)
    for event in ends:
        start = starts[event.span_id]
        assert start.type.value.split("_")[0] == event.type.value.split("_")[0].replace("error", "generation")
        for name in ("run_id", "session_id", "operation_id", "parent_id", "name"):
            assert getattr(start, name) == getattr(event, name)
        assert event.time >= start.time
    for event in starts.values():
        if event.type is not EventType.GENERATION_START:
            assert event.parent_id is not None
            assert starts[event.parent_id].run_id == event.run_id


# --- sinks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("capture", "content"), [(False, False), (True, False), (False, True), (True, True)])
async def test_canaries(capture: bool, content: bool, tmp_path: pathlib.Path) -> None:
    everywhere = Everywhere(tmp_path, content)
    trace = Trace(*everywhere.sinks, capture=capture)
    asked = calls(("ask", f'{{"a": "{ARGUMENT}", "b": "{KEY} {HEADER}"}}'), ("broken", "{}"), ("nowhere", "{}"))
    script = (Reply.stream(asked, DONE), Reply.stream(text(f"{ANSWER} {KEY}"), FINISH, DONE), DOWN)
    options: dict[str, Any] = {"layers": [trace], "api_key": KEY, "headers": {"x-client-secret": HEADER}}
    async with scripted(*script, **options) as (_, client):
        session = Session()
        await generate(client, session, f"{PROMPT} {KEY} {HEADER}", model="m", tools=registry())
        with pytest.raises(TransportError):
            await generate(client, session, PROMPT, model="m")
    assert trace.failures == 0
    for sink, text_told in everywhere.texts().items():
        shown = capture and content and sink != "syslog"
        said = {PROMPT, ARGUMENT, RESULT, HIDDEN, ANSWER} if shown else set[str]()
        assert {canary for canary in CANARIES if canary in text_told} == said, sink
        assert (REDACTED in text_told) is bool(said), sink
        wanted = ["invoke_agent", "execute_tool"] if sink == "spans" else [kind.value for kind in EventType]
        assert all(word in text_told for word in wanted), sink


async def test_secrets_of_a_generations_own_headers_and_of_another_client() -> None:
    sink = memory(content=True)
    trace = Trace(sink, capture=True)
    asked = calls(("ask", f'{{"a": "{KEY}", "b": "{HEADER}"}}'))
    async with (
        contextlib.aclosing(ScriptedTransport(Reply.stream(asked, DONE), ANSWERED)) as transport,
        AsyncClient.openai(URL, transport=transport, api_key=KEY) as other,
        scripted(DOWN, DOWN, layers=[trace, Fallback(other)]) as (_, client),
    ):
        headers = {"x-client-secret": HEADER}
        await generate(client, None, HEADER, model="m", tools=registry(), headers=headers)
    documents = [event.document() for event in sink.events]
    assert documents[0]["content"]["input"][0]["parts"][0]["content"] == REDACTED
    arguments = [document["content"]["arguments"] for document in documents if document["type"] == "tool_start"]
    assert arguments == [{"a": REDACTED, "b": REDACTED}]
    assert not {KEY, HEADER} & {word for word in CANARIES if word in repr(documents)}


async def test_a_tree_of_spans() -> None:
    telemetry = Telemetry()
    tracer = telemetry.tracers.get_tracer("test")
    async with MockServer(LOOK, ANSWERED) as server:
        origin = server.origin
        layers = [telemetry.layer()]

        def ask() -> None:
            with tracer.start_as_current_span("outer"), Client.openai(origin, layers=layers) as client:
                blocking.generate(client, None, "hi", model="m", tools=registry())

        with anyio.fail_after(SECONDS):
            await anyio.to_thread.run_sync(ask)
    spans = {span.context.span_id: span for span in telemetry.spans if span.context}
    names = {id: span.name for id, span in spans.items()}
    parents = sorted((span.name, names[span.parent.span_id]) for span in spans.values() if span.parent)
    assert parents == [
        ("chat m", "invoke_agent"),
        ("chat m", "invoke_agent"),
        ("execute_tool look", "invoke_agent"),
        ("invoke_agent", "outer"),
    ]
    assert trace.get_current_span() is trace.INVALID_SPAN
    telemetry.close()


async def test_a_generation_that_a_tool_begins() -> None:
    sink = memory()
    layers: list[Any] = [Trace(sink)]
    tools = Tools()
    async with model(SAID, layers=layers) as inner, model(asking("think"), SAID, layers=layers) as outer:

        @tools.tool
        async def think() -> str:
            return (await generate(inner, None, "hm", model="inner")).text

        with anyio.fail_after(SECONDS):
            await generate(outer, None, "hi", model="outer", tools=tools)
    check_tree(sink)
    starts = {event.name: event for event in sink.events if event.type is EventType.GENERATION_START}
    (tool,) = [event for event in sink.events if event.type is EventType.TOOL_START]
    assert starts["outer"].parent_id is None
    assert starts["inner"].parent_id == tool.span_id
    assert starts["inner"].run_id != starts["outer"].run_id

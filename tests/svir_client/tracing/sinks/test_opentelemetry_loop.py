"""A generation as a tree of spans: invoke_agent, and in it chat and execute_tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from svir_client import AsyncClient, ToolContext, Tools, Trace
from svir_client.testing import Reply
from svir_client.tracing.traced_generation import TracedGeneration
from svir_core.errors import MaxRoundsError
from svir_core.generation import Generation, GenerationOutcome, Progress
from svir_core.message import Message, Text, ToolCall
from svir_core.redact import Redactor
from svir_core.request import Request
from svir_core.response import Completion, FinishReason, Usage
from tests.svir_client.chat import DONE, FINISH, REQUEST, SECONDS, USAGE, text
from tests.svir_client.layers.calls import scripted
from tests.svir_client.tracing.sinks.telemetry import Telemetry

pytestmark = pytest.mark.anyio

COUNTED = Reply.stream(text("Hel"), text("lo"), FINISH, USAGE, DONE)
INPUT = Message.user("hi")
GIVEN = Generation(Completion(FinishReason.STOP, (Text("Hello"),)), (INPUT,), Usage(input=3, output=2), 2, 1)


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.close()


def begun(layer: Trace, run_id: str = "run") -> TracedGeneration:
    traced = TracedGeneration([layer], "openai_chat", "m", "s", run_id, redactor=Redactor())
    traced.start(INPUT, Request("m").message(INPUT))
    return traced


def look() -> Tools:
    tools = Tools()

    @tools.tool(name="look")
    async def look(at: str) -> str:
        return f"seen {at}"

    @tools.tool
    async def broken() -> str:
        raise LookupError("canary")

    return tools


async def ask(client: AsyncClient, traced: TracedGeneration, round: int) -> None:
    with traced.round(round):
        await client.complete(REQUEST)


def named(telemetry: Telemetry) -> dict[str, ReadableSpan]:
    return {span.name: span for span in telemetry.spans}


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def own(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


async def test_a_tree_of_spans_by_the_conventions(telemetry: Telemetry) -> None:
    layer = telemetry.layer()
    async with scripted(COUNTED, layers=[layer]) as (_, client):
        traced = begun(layer)
        await ask(client, traced, 1)
        await traced.tools(look(), 1).call(ToolCall("t1", "look", '{"at": "x"}'))
        traced.end(GIVEN)
    chat, tool, agent = telemetry.spans
    assert [span.name for span in (chat, tool, agent)] == ["chat m", "execute_tool look", "invoke_agent"]
    kinds = trace.SpanKind
    assert [span.kind for span in (chat, tool, agent)] == [kinds.CLIENT, kinds.INTERNAL, kinds.INTERNAL]
    assert [parent_of(span) for span in (chat, tool, agent)] == [own(agent), own(agent), None]
    assert len({span.context.trace_id for span in telemetry.spans if span.context}) == 1
    assert dict(agent.attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "s",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
        "svir.outcome": "answered",
        "svir.model_rounds": 2,
        "svir.tool_calls": 1,
    }
    assert dict(tool.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "t1",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "s",
        "svir.round": 1,
        "svir.outcome": "completed",
    }
    asked = dict(chat.attributes or {})
    assert (asked["gen_ai.conversation.id"], asked["svir.round"]) == ("s", 1)
    assert {span.status.status_code for span in telemetry.spans} == {trace.StatusCode.UNSET}


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (MaxRoundsError("x"), "max_rounds", trace.StatusCode.ERROR),
        (LookupError("canary"), "LookupError", trace.StatusCode.ERROR),
        (KeyboardInterrupt(), "abandoned", trace.StatusCode.UNSET),
        (None, "abandoned", trace.StatusCode.UNSET),
    ],
)
async def test_one_that_did_not_end_well(
    error: BaseException | None, kind: str, status: trace.StatusCode, telemetry: Telemetry
) -> None:
    begun(telemetry.layer()).failed(error, Progress())
    attributes = dict(telemetry.span.attributes or {})
    assert (attributes["error.type"], telemetry.span.status.status_code) == (kind, status)
    assert attributes["svir.outcome"] == ("failed" if status is trace.StatusCode.ERROR else "abandoned")
    assert telemetry.span.status.description is None
    assert "canary" not in telemetry.span.to_json()
    (point,) = telemetry.points()["gen_ai.client.operation.duration"]
    assert (point.attributes or {})["error.type"] == kind


@pytest.mark.parametrize("outcome", [GenerationOutcome.TOOL_ERROR, GenerationOutcome.AWAITING_APPROVAL])
async def test_what_stopped_is_no_error(outcome: GenerationOutcome, telemetry: Telemetry) -> None:
    begun(telemetry.layer()).end(Generation(GIVEN.completion, outcome=outcome))
    attributes = dict(telemetry.span.attributes or {})
    assert attributes["svir.outcome"] == outcome.value
    assert "error.type" not in attributes
    assert telemetry.span.status.status_code is trace.StatusCode.UNSET


@pytest.mark.parametrize("name", ["broken", "nowhere"])
async def test_a_result_that_is_an_error(name: str, telemetry: Telemetry) -> None:
    await begun(telemetry.layer()).tools(look(), 1).call(ToolCall("t1", name, "{}"))
    span = named(telemetry)[f"execute_tool {name}"]
    assert dict(span.attributes or {})["error.type"] == "tool_error"
    assert span.status.status_code is trace.StatusCode.ERROR
    assert "canary" not in span.to_json()


async def test_a_toolbox_that_raises_and_a_call_that_is_cancelled(telemetry: Telemetry) -> None:
    class Raising(Tools):
        async def call(self, call: ToolCall, context: ToolContext | None = None) -> Any:
            if call.name == "raise":
                raise LookupError("canary")
            if call.name == "wait":
                await anyio.sleep_forever()
            return None

    box = begun(telemetry.layer()).tools(Raising(), 1)
    with pytest.raises(LookupError):
        await box.call(ToolCall("t1", "raise", "{}"))
    with anyio.move_on_after(0.01):
        await box.call(ToolCall("t2", "wait", "{}"))
    await box.call(ToolCall("t3", "nothing", "{}"))
    spans = named(telemetry)
    kinds = {name: dict(spans[f"execute_tool {name}"].attributes or {}) for name in ("raise", "wait", "nothing")}
    assert (kinds["raise"]["error.type"], kinds["raise"]["svir.outcome"]) == ("LookupError", "failed")
    assert kinds["wait"]["svir.outcome"] == "abandoned"
    assert str(kinds["wait"]["error.type"]).startswith("Cancelled")
    assert (kinds["nothing"]["error.type"], kinds["nothing"]["svir.outcome"]) == ("failed", "failed")
    error, unset = trace.StatusCode.ERROR, trace.StatusCode.UNSET
    codes = [spans[f"execute_tool {name}"].status.status_code for name in kinds]
    assert codes == [error, unset, error]


async def test_the_round_is_a_child_whatever_is_current_and_nothing_is_made_current(telemetry: Telemetry) -> None:
    layer = telemetry.layer()
    tracer = telemetry.tracers.get_tracer("test")
    async with scripted(COUNTED, layers=[layer]) as (_, client):
        with tracer.start_as_current_span("outer") as outer:
            traced = begun(layer)
            assert trace.get_current_span() is outer
        with tracer.start_as_current_span("reader") as reader:
            await ask(client, traced, 1)
            assert trace.get_current_span() is reader
            traced.end(GIVEN)
    spans = named(telemetry)
    assert parent_of(spans["invoke_agent"]) == own(spans["outer"])
    assert parent_of(spans["chat m"]) == own(spans["invoke_agent"])


@pytest.mark.parametrize("within", [False, True])
async def test_what_a_tool_begins(within: bool, telemetry: Telemetry) -> None:
    """Is a child of the tool's call, or of the span that the tool made current."""
    layer = telemetry.layer()
    tracer = telemetry.tracers.get_tracer("test")
    tools = Tools()
    async with scripted(COUNTED, layers=[layer]) as (_, client):

        async def nested() -> None:
            inner = begun(layer, "inner")
            await ask(client, inner, 1)
            inner.failed(MaxRoundsError("x"), Progress())

        @tools.tool
        async def look() -> str:
            if not within:
                await nested()
            else:
                with tracer.start_as_current_span("database"):
                    await nested()
            return ""

        outer = begun(layer)
        with anyio.fail_after(SECONDS):
            await outer.tools(tools, 1).call(ToolCall("t1", "look", "{}"))
        outer.end(GIVEN)
    spans = named(telemetry)
    (inner,) = [span for span in telemetry.spans if dict(span.attributes or {}).get("svir.outcome") == "failed"]
    assert parent_of(inner) == own(spans["database" if within else "execute_tool look"])
    assert parent_of(spans["chat m"]) == own(inner)


async def test_one_that_is_told_by_two_layers_is_one_span(telemetry: Telemetry) -> None:
    layer = telemetry.layer()
    traced = TracedGeneration([layer, layer], "openai_chat", "m", None, "run", redactor=Redactor())
    traced.start(INPUT, REQUEST)
    traced.end(GIVEN)
    assert telemetry.span.name == "invoke_agent"
    assert layer.failures == 0


async def test_measurements(telemetry: Telemetry) -> None:
    layer = telemetry.layer()
    async with scripted(COUNTED, layers=[layer]) as (_, client):
        traced = begun(layer)
        await ask(client, traced, 1)
        await traced.tools(look(), 1).call(ToolCall("t1", "look", '{"at": "x"}'))
        traced.end(GIVEN)
    points = telemetry.points()
    operations = [
        (point.attributes or {})["gen_ai.operation.name"] for point in points["gen_ai.client.operation.duration"]
    ]
    assert sorted(map(str, operations)) == ["chat", "invoke_agent"]
    counted = [(point.attributes or {})["gen_ai.operation.name"] for point in points["gen_ai.client.token.usage"]]
    assert counted == ["chat", "chat"]  # input and output


@pytest.mark.parametrize(("capture", "content"), [(False, True), (True, False), (True, True)])
async def test_content_with_both_switches_alone(capture: bool, content: bool, telemetry: Telemetry) -> None:
    layer = telemetry.layer(capture=capture, content=content)
    traced = begun(layer)
    await traced.tools(look(), 1).call(ToolCall("t1", "look", '{"at": "x"}'))
    await traced.tools(look(), 1).call(ToolCall("t2", "broken", "{}"))
    traced.failed(LookupError("why"), Progress())
    spans = {name: dict(span.attributes or {}) for name, span in named(telemetry).items()}
    said = {
        name: {
            key: value
            for key, value in values.items()
            if key.endswith(("messages", "arguments", "result", "exception"))
        }
        for name, values in spans.items()
    }
    if not (capture and content):
        assert said == {name: {} for name in spans}
        return
    agent = said["invoke_agent"]
    assert json.loads(str(agent.pop("gen_ai.input.messages"))) == [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
    ]
    assert said == {
        "invoke_agent": {"svir.exception": "LookupError: why"},
        "execute_tool look": {"gen_ai.tool.call.arguments": '{"at": "x"}', "gen_ai.tool.call.result": '"seen x"'},
        "execute_tool broken": {
            "gen_ai.tool.call.arguments": "{}",
            "gen_ai.tool.call.result": "\"tool 'broken' failed\"",
            "svir.exception": "LookupError: canary",
        },
    }

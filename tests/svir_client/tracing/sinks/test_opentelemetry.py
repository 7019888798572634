"""OpenTelemetry: spans and metrics by the GenAI semantic conventions, never current, each ended once."""

from __future__ import annotations

import contextlib
import importlib.metadata
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import anyio
import anyio.to_thread
import attrs
import pytest
from opentelemetry import trace
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, http_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes
from packaging.version import Version

from svir_client import Client, Layer, Retry, Trace
from svir_client.testing import End, MockServer, Reply, ScriptedTransport
from svir_client.tracing import Content, ProviderStart, genai, opentelemetry
from svir_core.errors import ConfigError, SvirError
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from tests.packaging.floors import floors
from tests.svir_client.chat import DONE, FINISH, REQUEST, SECONDS, USAGE, hello, text
from tests.svir_client.layers.calls import Clock, scripted
from tests.svir_client.tracing.sinks.telemetry import Telemetry
from tests.svir_client.tracing.traced import START, end_event

pytestmark = pytest.mark.anyio

COUNTED = Reply.stream(text("Hel"), text("lo"), FINISH, USAGE, DONE, headers={"x-request-id": "req-1"})
DOWN = Reply.document({"error": {"message": "canary"}}, status=503)
ENDLESS = Reply.stream(text("a"), end=End.STALL)


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.close()


async def test_a_span_by_the_conventions(telemetry: Telemetry) -> None:
    async with scripted(COUNTED, layers=[telemetry.layer()]) as (_, client):
        await client.complete(REQUEST)
    span = telemetry.span
    assert (span.name, span.kind, span.parent) == ("chat m", trace.SpanKind.CLIENT, None)
    assert span.status.status_code is trace.StatusCode.UNSET
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "svir"
    attributes = dict(span.attributes or {})
    assert attributes.pop("gen_ai.response.time_to_first_chunk") > 0  # type: ignore[operator] # a float among many
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "m",
        "gen_ai.response.id": "c",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
        "http.response.status_code": 200,
        "svir.outcome": "completed",
        "svir.request_id": "req-1",
    }
    assert not span.events


async def test_a_span_of_a_failure(telemetry: Telemetry) -> None:
    clock = Clock()
    layers: list[Layer] = [telemetry.layer(), Retry.transient(1, sleep=clock.sleep)]
    async with scripted(DOWN, DOWN, layers=layers) as (_, client):
        with pytest.raises(SvirError):
            await client.complete(REQUEST)
    span = telemetry.span
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description is None
    attributes = dict(span.attributes or {})
    assert (attributes["error.type"], attributes["http.response.status_code"]) == ("transport", 503)
    assert (attributes["http.request.resend_count"], attributes["svir.outcome"]) == (1, "failed")
    assert not any(name.startswith("gen_ai.usage") for name in attributes)


@pytest.mark.parametrize("way", ["break", "raise", "cancel", "cancel the opening"])
async def test_a_span_is_ended_once_in_whatever_way(way: str, telemetry: Telemetry) -> None:
    reply = Reply.stream(text("a"), end=End.STALL)
    async with contextlib.aclosing(ScriptedTransport(reply)) as transport:
        from svir_client import AsyncClient

        client = AsyncClient.openai("http://127.0.0.1:1", transport=transport, layers=[telemetry.layer()])
        with anyio.fail_after(SECONDS), anyio.CancelScope() as scope, contextlib.suppress(LookupError):
            if way == "cancel the opening":
                scope.cancel()
            async with client.stream(REQUEST) as stream:
                async for _ in stream:
                    if way == "break":
                        break
                    if way == "raise":
                        raise LookupError
                    scope.cancel()
    attributes = dict(telemetry.span.attributes or {})
    assert attributes["svir.outcome"] == "abandoned"
    assert str(attributes["error.type"]).startswith("Cancelled" if way == "cancel the opening" else "abandoned")
    assert telemetry.span.status.status_code is trace.StatusCode.UNSET


async def test_the_parent_is_what_was_current_at_the_call_and_nothing_is_made_current(telemetry: Telemetry) -> None:
    tracer = telemetry.tracers.get_tracer("test")
    async with scripted(COUNTED, layers=[telemetry.layer()]) as (_, client):
        with tracer.start_as_current_span("outer") as outer:
            stream = client.stream(REQUEST)
            await stream.__aenter__()
            assert trace.get_current_span() is outer
        with tracer.start_as_current_span("other") as other:
            async for _ in stream:
                assert trace.get_current_span() is other
        await stream.aclose()
    spans = {span.name: span for span in telemetry.spans}
    assert spans["chat m"].parent == outer.get_span_context()


async def test_read_in_another_task(telemetry: Telemetry) -> None:
    async with scripted(COUNTED, layers=[telemetry.layer()]) as (_, client), client.stream(REQUEST) as stream:

        async def rest() -> None:
            async for _ in stream:
                pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rest)
    assert dict(telemetry.span.attributes or {})["svir.outcome"] == "completed"


async def test_the_blocking_client_has_its_callers_parent(telemetry: Telemetry) -> None:
    tracer = telemetry.tracers.get_tracer("test")
    async with MockServer(COUNTED) as server:
        origin = server.origin

        def call() -> None:
            with tracer.start_as_current_span("outer"), Client.openai(origin, layers=[telemetry.layer()]) as client:
                client.complete(REQUEST)

        with anyio.fail_after(SECONDS):
            await anyio.to_thread.run_sync(call)
    spans = {span.name: span for span in telemetry.spans}
    assert spans["chat m"].parent == spans["outer"].get_span_context()


async def test_metrics(telemetry: Telemetry) -> None:
    async with scripted(COUNTED, DOWN, layers=[telemetry.layer()]) as (_, client):
        await client.complete(REQUEST)
        with pytest.raises(SvirError):
            await client.complete(REQUEST)
    points = telemetry.points()
    common = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
    answered = common | {"gen_ai.response.model": "m"}
    tokens = points["gen_ai.client.token.usage"]
    assert {(p.attributes or {})["gen_ai.token.type"]: p.sum for p in tokens} == {"input": 3, "output": 2}
    assert tokens[0].explicit_bounds == genai.TOKEN_BOUNDARIES
    durations = points["gen_ai.client.operation.duration"]
    assert [dict(p.attributes or {}) for p in durations] == [answered, common | {"error.type": "transport"}]
    assert durations[0].explicit_bounds == genai.SECONDS_BOUNDARIES
    (first,) = points["gen_ai.client.operation.time_to_first_chunk"]
    assert (dict(first.attributes or {}), first.count) == (answered, 1)


async def test_content_with_both_switches_alone(telemetry: Telemetry) -> None:
    for content, capture in ((False, True), (True, False), (True, True)):
        layer = telemetry.layer(content=content, capture=capture)
        request = REQUEST.replace(system="be")
        async with scripted(hello(), layers=[layer]) as (_, client):
            await client.complete(request)
    names = [
        {name for name in span.attributes or {} if name.endswith(("messages", "instructions"))}
        for span in telemetry.spans
    ]
    assert names == [set(), set(), {"gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"}]
    attributes = dict(telemetry.spans[-1].attributes or {})
    read = {name: json.loads(str(attributes[name])) for name in names[-1]}
    assert read == {
        "gen_ai.system_instructions": [{"type": "text", "content": "be"}],
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
        "gen_ai.output.messages": [
            {"role": "assistant", "parts": [{"type": "text", "content": "Hello"}], "finish_reason": "stop"}
        ],
    }


async def test_what_a_server_said_of_its_failure(telemetry: Telemetry) -> None:
    async with scripted(DOWN, layers=[telemetry.layer(content=True, capture=True)]) as (_, client):
        with pytest.raises(SvirError):
            await client.complete(REQUEST)
    attributes = dict(telemetry.span.attributes or {})
    assert attributes["svir.server_message"] == "canary"
    assert "gen_ai.output.messages" not in attributes


def test_the_session_is_the_conversation_and_an_end_without_a_start_is_none(telemetry: Telemetry) -> None:
    sink = opentelemetry(tracer_provider=telemetry.tracers, meter_provider=telemetry.meters)
    sink.write(attrs.evolve(START, session_id="s"))
    sink.write(end_event())
    sink.write(end_event())
    assert dict(telemetry.span.attributes or {})["gen_ai.conversation.id"] == "s"
    assert (telemetry.span.start_time, telemetry.span.end_time) == (1735689600250000000, 1735689601750000000)


def test_an_exporter_can_write_every_string(telemetry: Telemetry) -> None:
    sink = opentelemetry(tracer_provider=telemetry.tracers, meter_provider=telemetry.meters, content=True)
    half = "a\ud800"
    attributes = ProviderStart(api="openai_chat", model=half, message_count=1, tool_count=0)
    sink.write(attrs.evolve(START, session_id=half, attributes=attributes))
    sink.write(end_event(Content(system=half, server_message=half), answered_model=half))
    span = telemetry.span
    assert all(text.encode() for text in (span.name, *map(str, (span.attributes or {}).values())))


def test_without_the_library() -> None:
    program = """if True:
        import sys
        sys.modules["opentelemetry"] = None
        from svir_client.tracing import opentelemetry
        from svir_core import ConfigError
        try:
            opentelemetry()
        except ConfigError as error:
            assert "pip install 'svir-client[opentelemetry]'" in error.detail
        else:
            raise AssertionError
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_the_global_providers_do_nothing_by_default() -> None:
    async with scripted(hello(), layers=[layer := Trace(opentelemetry())]) as (_, client):
        await client.complete(REQUEST)
    assert layer.failures == 0


def constants(*modules: ModuleType) -> set[str]:
    return {value for module in modules for name, value in inspect.getmembers(module) if name.isupper()}


def test_the_names_are_those_of_the_conventions() -> None:
    ours = {value for name, value in vars(genai).items() if name.isupper() and isinstance(value, str)}
    own = {name for name in ours if name.startswith("svir.")}
    assert len(own) == 8
    known = constants(gen_ai_attributes, gen_ai_metrics, http_attributes, error_attributes)
    assert ours - own <= known
    assert set(genai.USAGE.values()) <= known


def test_the_table_was_read_from_the_lowest_release_that_is_tested() -> None:
    name, version, _ = genai.READ_FROM
    assert floors()[name] == Version(version) <= Version(importlib.metadata.version(name))


def test_providers_and_operations_are_those_of_the_conventions() -> None:
    apis = {api.API.name for api in (openai_chat, openai_responses, anthropic_messages, gemini)}
    assert set(genai.PROVIDERS) == apis
    enums: Any = gen_ai_attributes  # deprecated there: moved to the conventions' own repository
    providers = {member.value for member in enums.GenAiProviderNameValues}
    assert set(genai.PROVIDERS.values()) <= providers
    operations = {member.value for member in enums.GenAiOperationNameValues}
    assert {"chat", *genai.OPERATIONS.values(), *genai.LOOP_OPERATIONS.values()} <= operations


@pytest.mark.parametrize("mistake", [1, "yes", None])
def test_the_switch(mistake: Any) -> None:
    with pytest.raises(ConfigError, match="content must be a bool"):
        opentelemetry(content=mistake)

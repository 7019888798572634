"""What a strict type checker says of the public API: checked by mypy and pyright in ``make check``, never run."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, assert_never, assert_type

import attrs

from svir_client import (
    AsyncClient,
    Client,
    Compatibility,
    Parsed,
    PartialItems,
    PartialStream,
    RateLimit,
    RawStream,
    Stream,
    SyncPartialItems,
    SyncPartialStream,
    SyncRawStream,
    SyncStream,
    SyncTextStream,
    TextStream,
    Transport,
)
from svir_core.diagnose import explain
from svir_core.errors import ErrorKind, SvirError, TransportError
from svir_core.event import Completed, Event, Events, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.exchange import Exchange, ReadError, ReadStream, Retry
from svir_core.explanation import Explanation
from svir_core.generation import Generation, GenerationOutcome, Progress
from svir_core.history import HistoryFault, check_history
from svir_core.http_message import Endpoint, HttpRequest, ResponseHead
from svir_core.limits import Limits
from svir_core.loop import LoopPhase, ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import AskApproval, CallModel, Finished, RunTools
from svir_core.message import Image, Message, Part, Reasoning, TextFile, ToolCall, ToolResult
from svir_core.price import Prices, cost
from svir_core.quirk import Quirk
from svir_core.request import Effort, Request, Schema, Tool, ToolChoice
from svir_core.response import Anomaly, Completion, FinishReason, Partial, Usage
from svir_core.secret import Secret
from svir_core.server_profile import profile
from svir_core.tap import Tap
from svir_core.think import Think
from svir_core.tool_id import with_portable_tool_ids
from svir_core.wire import openai_chat
from svir_core.wire.api import Mode, Model
from svir_transport.h11 import H11Transport


@attrs.frozen
class City:
    name: str


async def rotating() -> str:
    return "key"


def clients(transport: H11Transport) -> None:
    as_protocol: Transport = transport
    assert_type(AsyncClient.openai("http://127.0.0.1:1"), AsyncClient)
    AsyncClient.openai("http://127.0.0.1:1", api_key="key", headers={"x-a": "1"}, transport=as_protocol)
    AsyncClient.openai("http://127.0.0.1:1", api_key=Secret("key"), headers=[("x-a", "1")], transport=transport)
    AsyncClient.openai("http://127.0.0.1:1", api_key=rotating, mode="lenient", think="keep")
    AsyncClient.openai("http://127.0.0.1:1", api_key=lambda: "key", mode=Mode.STRICT, think=Think(start="inside"))
    AsyncClient.openai(None, endpoint="http://127.0.0.1:1/x?y=z", limits=Limits(tool_calls=1), compat=Compatibility())
    assert_type(AsyncClient.from_env(idle_timeout=1, context_tokens=4096), AsyncClient)


def requests() -> Request:
    request = Request("m", system="s", effort=Effort.LOW, tools=[Tool("t")], tool_choice="required", max_tokens=1)
    assert_type(request.user("hi", Image.path("a.png")), Request)
    assert_type(request.message(Message.user("hi", TextFile.path("a.txt"))), Request)
    assert_type(request.replace(temperature=0.5), Request)
    assert_type(request.tool_result("id", "7"), Request)
    assert_type(request.messages, tuple[Message, ...])
    assert_type(request.tool_choice, ToolChoice)
    return request


async def calls(client: AsyncClient, request: Request) -> None:
    answer = await client.complete(request, headers={"x-a": "1"}, idle_timeout=1)
    assert_type(answer, Completion)
    assert_type(answer.text, str)
    assert_type(answer.finish, FinishReason)
    assert_type(answer.parts, tuple[Part, ...])
    assert_type(answer.reasoning, tuple[Reasoning, ...])
    assert_type(answer.calls, tuple[ToolCall, ...])
    assert_type(answer.calls[0].parse(City), City)
    assert_type(answer.parse(City), City)
    assert_type(answer.usage, Usage | None)
    assert_type(answer.tokens_per_second, float | None)
    assert_type(answer.anomalies, tuple[Anomaly, ...])
    assert_type(request.assistant(answer), Request)
    assert_type(await client.list_models(), tuple[Model, ...])

    async with client.stream(request) as stream:
        assert_type(stream, Stream)
        async for event in stream:
            assert_type(event, Event)
        assert_type(stream.text(), TextStream)
        async for piece in stream.text():
            assert_type(piece, str)
        assert_type(stream.status, int)
        assert_type(stream.head, ResponseHead)
        assert_type(stream.request_id, str | None)
        assert_type(stream.rate_limit, RateLimit | None)
        assert_type(stream.error, SvirError | None)
    assert_type(stream.completion, Completion)

    async with client.send(request) as raw:
        assert_type(raw, RawStream)
        async for data in raw:
            assert_type(data, bytes)
        assert_type(raw.status, int)


async def structured(client: AsyncClient, request: Request) -> None:
    parsed = await client.parse(request, City, headers={"x-a": "1"}, idle_timeout=1)
    assert_type(parsed, Parsed[City])
    value, completion = parsed
    assert_type(value, City)
    assert_type(completion, Completion)
    assert_type((await client.parse(request, list[City])).value, list[City])
    assert_type(Schema.of(City, name="city", strict=True), Schema)

    async with client.stream(request) as stream:
        partial = stream.partial(City)
        assert_type(partial, PartialStream[City])
        async for now in partial:
            assert_type(now, PartialStream[City])
            assert_type(now.data, Any)
            assert_type(now.path, tuple[str | int, ...])
            assert_type(now.text, str)
        assert_type(partial.items(City, "cities", 0), PartialItems[City])
        async for city in partial.items(City, "cities"):
            assert_type(city, City)
        assert_type(partial.value, City)


def structured_blocking(client: Client, request: Request) -> None:
    assert_type(client.parse(request, City), Parsed[City])
    with client.stream(request) as stream:
        partial = stream.partial(City)
        assert_type(partial, SyncPartialStream[City])
        for now in partial:
            assert_type(now, SyncPartialStream[City])
        assert_type(partial.items(City, "cities"), SyncPartialItems[City])
        for city in partial.items(City, "cities"):
            assert_type(city, City)
        assert_type(partial.value, City)


def blocking(request: Request, transport: H11Transport) -> None:
    class Special(Client):
        pass

    client = Client.openai("http://127.0.0.1:1", api_key=rotating, headers={"x-a": "1"}, transport=transport)
    assert_type(client, Client)
    assert_type(Special.openai("http://127.0.0.1:1", api_key=lambda: "key", mode="lenient"), Special)
    assert_type(Client.from_env(idle_timeout=60), Client)
    assert_type(client.complete(request, headers={"x-a": "1"}, idle_timeout=1), Completion)
    assert_type(client.list_models(), tuple[Model, ...])
    with client, client.stream(request) as stream:
        assert_type(stream, SyncStream)
        for event in stream:
            assert_type(event, Event)
        assert_type(stream.text(), SyncTextStream)
        for piece in stream.text():
            assert_type(piece, str)
        assert_type(stream.head, ResponseHead)
        assert_type(stream.rate_limit, RateLimit | None)
        assert_type(stream.error, SvirError | None)
    assert_type(stream.completion, Completion)
    with client.send(request) as raw:
        assert_type(raw, SyncRawStream)
        for data in raw:
            assert_type(data, bytes)
        assert_type(raw.status, int)


def events(event: Event) -> str:
    match event:
        case TextDelta(text=text):
            return assert_type(text, str)
        case ReasoningDelta(source=source, text=text):
            return assert_type(source, str) + assert_type(text, str)
        case ToolCallDelta(index=index, id=call_id):
            assert_type(call_id, str | None)
            return str(assert_type(index, int))
        case Completed(completion=completion):
            return assert_type(completion, Completion).text


def finding_out(data: bytes, request: Request) -> None:
    explanation = explain(data, think="keep", limits=Limits())
    assert_type(explanation, Explanation)
    assert_type(explanation.outcome, Completion | SvirError)
    assert_type(explanation.quirks, Quirk)
    assert_type(explanation.findings[0].kind, ErrorKind | None)
    assert_type(check_history(request.messages, openai_chat.API), tuple[HistoryFault, ...])
    assert_type(with_portable_tool_ids(request.messages), tuple[Message, ...])
    assert_type(profile("ollama").quirks, Quirk)
    assert_type(profile("ollama").compatibility(), Compatibility)


def codec(data: bytes, request: Request) -> None:
    decoder = openai_chat.Decoder(mode="lenient", think="inside", limits=Limits())
    assert_type(decoder.push(data), Events)
    assert_type(decoder.push(memoryview(data)), Events)
    assert_type(decoder.finish(), Events)
    assert_type(decoder.completion, Completion | None)
    assert_type(decoder.error, SvirError | None)
    assert_type(decoder.result(), Completion)
    for event in decoder.push(data):
        assert_type(event, Event)
    assert_type(openai_chat.decode([data]), Iterator[Event])
    assert_type(openai_chat.decode_document(data, mode="lenient", extra=True), Completion)
    assert_type(openai_chat.DocumentDecoder(think="keep").push(data), Events)
    body = openai_chat.Encoder(context_tokens=32768).encode(request)
    assert_type(bytes(body), bytes)
    assert_type(body.length, int)
    tap = Tap(decoder)
    assert_type(tap.push(data), None)
    assert_type(tap.outcome, Completion | SvirError | None)


def exchange(request: Request, data: bytes) -> None:
    endpoint = Endpoint.parse("http://127.0.0.1:1", api_key="key")
    call = Exchange(openai_chat.API, request, endpoint, Compatibility())
    assert_type(call.start(), HttpRequest)
    assert_type(call.head(200, [("content-type", "text/event-stream")]), ReadStream | ReadError)
    assert_type(call.push(data), Events)
    last = call.finish()
    assert_type(last, Events | Retry)
    if isinstance(last, Retry):
        assert_type(last.http_request, HttpRequest)
    assert_type(call.fail(TransportError("cut")), SvirError)
    assert_type(call.completion, Completion | None)


def loops(request: Request, answer: Completion, results: list[ToolResult]) -> Generation:
    loop = ToolLoop(request, limits=LoopLimits(rounds=2, stop_on_tool_error=True), requires_approval=["f"])
    assert_type(loop.phase, LoopPhase)
    assert_type(loop.progress, Progress)
    assert_type(loop.requires_approval, frozenset[str])
    assert_type(loop.with_history(list(request.messages)), ToolLoop)
    assert_type(loop.resume(LoopLimits()), None)
    match step := loop.next():
        case CallModel(asked, number):
            assert_type((asked, number), tuple[Request, int])
            loop.model_answered(answer)
        case RunTools(calls, _):
            assert_type(calls, tuple[ToolCall, ...])
            loop.tools_answered(iter(results))
        case AskApproval(calls):
            loop.approved({call.id: True for call in calls})
        case Finished(generation):
            assert_type(generation.outcome, GenerationOutcome)
            assert_type(generation.parse(City), City)
            assert_type(generation.usage, Usage)
        case _:
            assert_never(step)
    return loop.generation


def prices(usage: Usage | None) -> None:
    of = Prices(input="0.25", output=2, cache_read=Decimal("0.025"))
    assert_type(cost(usage, of), Decimal | None)
    assert_type(cost(usage, {"m": of}, "m"), Decimal | None)


def errors(error: SvirError) -> None:
    assert_type(error.kind, ErrorKind)
    assert_type(error.retryable, bool)
    assert_type(error.status, int | None)
    assert_type(error.partial, Partial | None)
    assert_type(error.server_message(), str | None)
    assert_type(error.progress, Progress | None)

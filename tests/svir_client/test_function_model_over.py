"""A function as a model: what a client does over it."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import anyio
import attrs
import pytest

from svir_client import AsyncClient, Client, Fallback, FunctionModel, Next, Retry, Stream, Timeout, Tools, Trace, wrap
from svir_client.generation import generate
from svir_client.models import ModelDescriptor
from svir_client.testing import Reply, ScriptedTransport
from svir_client.tracing import Outcome, ProviderEnd, memory
from svir_core.errors import ConfigError, RateLimitedError, ResponseTimeoutError, ServerError, SvirError, TransportError
from svir_core.event import Completed, Event, TextDelta
from svir_core.message import Message, Text, ToolCall, ToolResult
from svir_core.request import Request, Schema
from svir_core.response import Completion, Partial, Usage
from tests.svir_client.chat import REQUEST, SECONDS
from tests.svir_client.functions import EVENTS, HEL, HELLO, events_of, forever, never, of_completion, of_list, raised

pytestmark = pytest.mark.anyio


async def test_calls_overlap_and_nest() -> None:
    inside = 0
    most = 0
    all_in = anyio.Event()

    async def model(request: Request) -> str:
        nonlocal inside, most
        if request.model == "inner":
            return "inner"
        inside += 1
        most = max(most, inside)
        if inside == 3:
            all_in.set()
        await all_in.wait()
        answer = await client.complete(request.replace(model="inner"))
        inside -= 1
        return f"outer of {answer.text}"

    client = FunctionModel(model)
    answers: list[str] = []

    async def call() -> None:
        answers.append((await client.complete(REQUEST)).text)

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(call)
    assert most == 3
    assert answers == ["outer of inner"] * 3


async def test_another_clients_answer_and_stream_are_answers() -> None:
    inner = AsyncClient.openai(
        "http://model.test", allow_http=True, transport=ScriptedTransport(Reply.text("Hel", "lo"), Reply.text("a", "b"))
    )

    async def whole(request: Request) -> Completion:
        return await inner.complete(request)

    async def relayed(request: Request) -> AsyncGenerator[Event]:
        async with inner.stream(request) as stream:
            async for event in stream:
                yield event

    assert (await FunctionModel(whole).complete(REQUEST)).text == "Hello"
    events = await events_of(FunctionModel(relayed))
    assert events[:2] == [TextDelta("a"), TextDelta("b")]
    assert isinstance(events[2], Completed)


@pytest.mark.parametrize("generates", [False, True])
async def test_retry_repeats_what_is_retryable(generates: bool) -> None:
    errors: list[SvirError] = [TransportError("a", unsent=True), RateLimitedError("b", retry_after=7), ConfigError("c")]
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def call(request: Request) -> str:
        raise errors[len(waits)]

    async def events(request: Request) -> AsyncGenerator[Event]:
        if len(waits) < len(errors):
            raise errors[len(waits)]
        yield HEL

    client = FunctionModel(events if generates else call, layers=[Retry.transient(5, sleep=sleep, random=lambda: 0.0)])
    assert await raised(client.complete(REQUEST)) is errors[2]
    assert waits == [0.5, 7]


async def test_timeout_bounds_it() -> None:
    for layer in (Timeout.first_token(0.01), Timeout.total(0.01), Timeout.idle(0.01)):
        with anyio.fail_after(SECONDS), pytest.raises(ResponseTimeoutError):
            await FunctionModel(never, layers=[layer]).complete(REQUEST)
    with anyio.fail_after(SECONDS), pytest.raises(ResponseTimeoutError) as caught:
        await FunctionModel(forever, layers=[Timeout.total(0.01)]).complete(REQUEST)
    assert caught.value.partial == Partial((Text("Hel"),))


async def test_fallback_takes_over_and_is_taken_from() -> None:
    def fails(request: Request) -> str:
        raise ServerError("down")

    assert await FunctionModel(fails, layers=[Fallback(FunctionModel(of_completion))]).complete(REQUEST) == HELLO
    server = ScriptedTransport(TransportError("refused", unsent=True))
    client = AsyncClient.openai(
        "http://model.test", allow_http=True, transport=server, layers=[Fallback(FunctionModel(of_completion))]
    )
    assert await client.complete(REQUEST) == HELLO


async def test_a_layer_changes_the_request() -> None:
    async def renamed(request: Request, next: Next) -> Stream:
        return await next(request.replace(model="other"))

    client = FunctionModel(lambda request: request.model, layers=[wrap(renamed)])
    assert (await client.complete(REQUEST)).text == "other"


async def test_trace_reports_it() -> None:
    sink = memory()
    client = FunctionModel(of_completion, layers=[Trace(sink)])
    await client.complete(REQUEST)

    def fails(request: Request) -> str:
        raise KeyError(request.model)

    with pytest.raises(KeyError):
        await FunctionModel(fails, layers=[Trace(sink)]).complete(REQUEST)
    ends = [event.attributes for event in sink.events if isinstance(event.attributes, ProviderEnd)]
    assert [end.outcome for end in ends] == [Outcome.COMPLETED, Outcome.FAILED]
    assert ends[0].api == "function"
    assert ends[0].usage == HELLO.usage
    assert ends[1].error_class == "KeyError"


@attrs.frozen
class City:
    name: str
    people: int = 0


async def test_partial_and_parse() -> None:
    pieces = ['{"name": "Os', 'lo", "peo', 'ple": 7}']
    request = REQUEST.replace(response_format=Schema.of(City))

    async def model(request: Request) -> AsyncGenerator[Event]:
        assert isinstance(request.response_format, Schema)
        for piece in pieces:
            yield TextDelta(piece)
        yield Completed(Completion("stop", [Text("".join(pieces))]))

    client = FunctionModel(model)
    async with client.stream(request) as stream:
        partial = stream.partial(City)
        states = [copy.deepcopy(partial.data) async for _ in partial]
    assert {"name": "Os"} in states
    assert partial.value == City("Oslo", 7)
    assert (await client.parse(REQUEST, City)).value == City("Oslo", 7)


async def test_a_generation_runs_over_it() -> None:
    tools = Tools()

    @tools.tool
    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    async def model(request: Request) -> AsyncGenerator[Event]:
        *_, last = request.messages
        if isinstance(result := last.parts[0], ToolResult):
            completion = Completion("stop", [Text(f"it is {result.content}")], Usage(2, 2, 4))
        else:
            completion = Completion("tool_calls", [ToolCall("c1", "double", '{"number": 21}')], Usage(1, 1, 2))
        yield Completed(completion)

    with anyio.fail_after(SECONDS):
        run = await generate(FunctionModel(model), None, "21 twice?", model="mine", tools=tools)
    assert run.completion is not None
    assert run.completion.text == "it is 42"
    assert (run.rounds, run.tool_calls, run.usage) == (2, 1, Usage(3, 3, 6))


async def test_it_stands_in_for_the_api_that_a_model_is_described_for() -> None:
    described = ModelDescriptor("mine", api="anthropic_messages")
    client = FunctionModel(of_completion, api="anthropic_messages")
    assert client.api == "anthropic_messages"
    assert (await generate(client, None, "hi", model=described)).completion == HELLO
    assert FunctionModel(of_completion).api == "function"
    with pytest.raises(ConfigError):
        FunctionModel(of_completion, api=7)  # type: ignore[arg-type]  # what a caller without a checker may give


def test_the_blocking_client_has_it_too() -> None:
    closed: list[str] = []

    def model(request: Request) -> Iterator[Event] | str:
        if request.model == "inner":
            return "Hel"
        return pieces(client.complete(request.replace(model="inner")).text)

    def pieces(first: str) -> Iterator[Event]:
        try:
            yield TextDelta(first)
            yield from EVENTS[1:]
        finally:
            closed.append("closed")

    with Client(FunctionModel(model)) as client:
        assert client.complete(REQUEST) == HELLO
        with client.stream(REQUEST) as stream:
            assert next(stream) == HEL
        assert closed == ["closed"] * 2


async def test_send_gives_the_events_in_svirs_json_form() -> None:
    async with FunctionModel(of_list).send(REQUEST) as raw:
        sent = [data async for data in raw]
    assert raw.head.get("content-type") == "text/event-stream"
    assert sent[0] == b'data: {"type":"text_delta","text":"Hel"}\n\n'
    assert len(sent) == 3


async def test_context_variables_and_the_task_are_the_callers() -> None:
    seen: list[Any] = []

    async def model(request: Request) -> str:
        seen.append(anyio.get_current_task().id)
        return "yes"

    await FunctionModel(model).complete(REQUEST)
    assert seen == [anyio.get_current_task().id]


async def test_a_message_of_every_role_is_there() -> None:
    def model(request: Request) -> str:
        return ",".join(message.role for message in request.messages)

    request = REQUEST.message(Message.assistant("a"), Message.system("b"))
    assert (await FunctionModel(model).complete(request)).text == "user,assistant,system"

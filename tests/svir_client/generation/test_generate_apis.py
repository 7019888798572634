"""The same generation over each of the four wire APIs, on real sockets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, Retry, Session, ToolContext, Tools, generate, generate_stream, resume
from svir_client.testing import MockServer, Reply
from svir_core import (
    Completion,
    FinishReason,
    Image,
    LoopLimits,
    Media,
    Reasoning,
    Request,
    Schema,
    ServerError,
    SvirError,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    TruncatedStreamError,
    UnsupportedError,
    Usage,
)
from svir_core.wire.api import Api
from tests.svir_client.chat import SECONDS
from tests.svir_client.generation.generations import (
    APIS,
    asks,
    assert_at_rest,
    call,
    read,
    results,
    roles,
    says,
    scripted_by,
)

pytestmark = pytest.mark.anyio

FIRST = Completion(
    FinishReason.TOOL_CALLS,
    [
        Reasoning("thinking", "two cities"),
        Text("let me see"),
        call("call_1", "weather", '{"city":"Oslo"}'),
        call("call_2", "weather", '{"city":"Rome"}'),
    ],
    usage=Usage(10, 5, 15),
)
LAST = says("It rains.", Usage(20, 3, 23))
IMAGE = Image.data(b"\x89PNG", "image/png")
AUDIO = Media.data(b"RIFF", "audio/wav")
TAKES_IMAGES = {"openai_chat": False, "openai_responses": True, "anthropic_messages": True, "gemini": True}
"""Which APIs carry an image in a result."""


@pytest.fixture(params=APIS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def api(name: str) -> Api:
    return APIS[name][0]


@pytest.fixture
def connect(name: str) -> Callable[..., AsyncClient]:
    return APIS[name][1]


@pytest.fixture
def tools() -> Tools:
    registry = Tools()

    @registry.tool
    async def weather(city: str, context: ToolContext) -> str:
        return f"rain in {city}"

    @registry.tool
    async def photo() -> Image:
        return IMAGE

    return registry


@contextlib.asynccontextmanager
async def serving(
    connect: Callable[..., AsyncClient], *replies: Reply, **options: Any
) -> AsyncGenerator[tuple[MockServer, AsyncClient]]:
    with anyio.fail_after(SECONDS):
        async with MockServer(*replies) as server, connect(server.origin, **options) as client:
            yield server, client


def spoken(text: str, api: Api) -> Reply:
    return Reply.completion(says(text), api=api)


async def test_two_rounds_whole(api: Api, connect: Callable[..., AsyncClient], tools: Tools) -> None:
    session = Session(system="Be brief.")
    replies = [Reply.completion(answer, api=api) for answer in (FIRST, LAST)]
    async with serving(connect, *replies) as (server, client):
        answer = await generate(
            client, session, "Oslo and Rome?", model="m", tools=tools, limits=LoopLimits(parallel=2)
        )
        assert server.unscripted == 0
    assert (answer.text, answer.rounds, answer.tool_calls) == ("It rains.", 2, 2)
    assert (answer.usage.input, answer.usage.output) == (30, 8)
    assert roles(session) == ["u", "a", "t", "a"]
    calls = [part for part in session.messages[1].parts if isinstance(part, ToolCall)]
    assert [result.content for result in results(session.messages[2])] == ["rain in Oslo", "rain in Rome"]
    assert [result.call_id for result in results(session.messages[2])] == [each.id for each in calls]
    assert_at_rest(session)


async def test_settings_are_sent_as_those_of_a_call(api: Api, connect: Callable[..., AsyncClient]) -> None:
    huge = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**70}}}

    class Box:
        def tools(self) -> list[Tool]:
            return [Tool("f", "counts", huge, extra={"most": 2**70})]

        async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
            raise AssertionError(call)

    settings: dict[str, Any] = {"tools": Box(), "response_format": Schema("answer", huge), "extra": {"x_most": 2**70}}
    async with serving(connect, spoken("one", api), spoken("two", api)) as (server, client):
        await client.complete(Request("m", **settings).user("hi"))
        await generate(client, None, "hi", model="m", **settings)
        alone, generated = (request.body for request in server.requests)
    assert alone == generated
    assert alone.count(b"%d" % 2**70) == 4


async def test_two_rounds_as_they_go_on(api: Api, connect: Callable[..., AsyncClient], tools: Tools) -> None:
    session = Session()
    replies = [Reply.completion(answer, api=api) for answer in (FIRST, LAST)]
    async with (
        serving(connect, *replies) as (_, client),
        generate_stream(client, session, "Oslo and Rome?", model="m", tools=tools) as run,
    ):
        events = await read(run)
    first = [kind for number, kind in events if number == 1]
    assert first[-2:] == ["Completed", "RoundResults"]
    assert {"ReasoningDelta", "TextDelta"} <= set(first)
    assert events[-1] == (2, "Completed")
    assert [number for number, _ in events] == sorted(number for number, _ in events)
    assert run.generation.messages == session.messages


async def test_a_session_goes_from_api_to_api(name: str, tools: Tools) -> None:
    session = Session()
    others = [name, *(other for other in APIS if other != name)]
    for other in others:
        api, connect = APIS[other]
        replies = [Reply.completion(answer, api=api) for answer in (FIRST, LAST)]
        async with serving(connect, *replies) as (server, client):
            assert (await generate(client, session, "And now?", model="m", tools=tools)).rounds == 2
            assert server.unscripted == 0
    assert roles(session) == ["u", "a", "t", "a"] * 4
    assert_at_rest(session)


async def test_a_stream_that_ends_too_early_in_the_second_round(
    api: Api, connect: Callable[..., AsyncClient], tools: Tools
) -> None:
    session = Session()
    broken = Reply.completion(LAST, api=api, cut=60)
    async with serving(connect, Reply.completion(FIRST, api=api), broken, Reply.completion(LAST, api=api)) as (
        server,
        client,
    ):
        with pytest.raises(TruncatedStreamError) as caught:
            await generate(client, session, "hi", model="m", tools=tools)
        progress = caught.value.progress
        assert progress is not None
        assert (progress.rounds, progress.tool_calls, progress.messages) == (1, 2, session.messages)
        assert (progress.usage.input, progress.usage.output) == (10, 5)
        assert roles(session) == ["u", "a", "t"]
        answer = await resume(client, session, tools=tools)
        assert server.requests[1].json() == server.requests[2].json()
    assert (answer.text, answer.rounds, answer.usage.input) == ("It rains.", 2, 30)
    assert_at_rest(session)


async def test_a_failure_inside_a_round_is_tried_again_by_a_layer(
    api: Api, connect: Callable[..., AsyncClient], tools: Tools
) -> None:
    waited: list[float] = []

    async def waits(seconds: float) -> None:
        waited.append(seconds)

    overloaded = Reply.document({"error": {"message": "overloaded"}}, 503, headers={"retry-after": "0"})
    replies = (Reply.completion(FIRST, api=api), overloaded, Reply.completion(LAST, api=api))
    async with serving(connect, *replies, layers=[Retry.transient(1, sleep=waits)]) as (server, client):
        answer = await generate(client, None, "hi", model="m", tools=tools)
        assert (server.request_count, waited) == (3, [0])
    assert (answer.text, answer.rounds, answer.usage.input) == ("It rains.", 2, 30)


async def test_a_response_that_failed_is_an_error_though_its_status_was_200(tools: Tools) -> None:
    api, connect = APIS["openai_responses"]
    session = Session()
    failed = Reply.events(ServerError("the model crashed"), api=api)
    async with serving(connect, Reply.completion(FIRST, api=api), failed) as (_, client):
        with pytest.raises(SvirError) as caught:
            await generate(client, session, "hi", model="m", tools=tools)
    assert caught.value.progress is not None
    assert caught.value.progress.rounds == 1
    assert roles(session) == ["u", "a", "t"]
    assert not any(
        "crashed" in part.text for message in session.messages for part in message.parts if isinstance(part, Text)
    )


async def test_an_image_in_a_result_goes_where_it_is_carried_and_is_refused_before_it_is_stored_elsewhere(
    name: str, api: Api, connect: Callable[..., AsyncClient], tools: Tools
) -> None:
    session = Session()
    replies = (Reply.completion(asks(call("call_1", "photo")), api=api), spoken("A dot.", api))
    async with serving(connect, *replies) as (server, client):
        if TAKES_IMAGES[name]:
            assert (await generate(client, session, "hi", model="m", tools=tools)).text == "A dot."
            assert results(session.messages[2])[0].content == (IMAGE,)
            return
        with pytest.raises(UnsupportedError) as caught:
            await generate(client, session, "hi", model="m", tools=tools)
        assert server.request_count == 1
        assert caught.value.progress is not None
        assert caught.value.progress.rounds == 1
        assert roles(session) == ["u"]
        assert_at_rest(session)
        answer = await generate(client, session, "Then not.", model="m")
    assert (answer.text, roles(session)) == ("A dot.", ["u", "u", "a"])


async def test_what_one_api_refused_goes_on_at_another_that_carries_it(tools: Tools) -> None:
    session = Session()
    chat, connect = APIS["openai_chat"]
    async with serving(connect, Reply.completion(asks(call("call_1", "photo")), api=chat)) as (_, client):
        with pytest.raises(UnsupportedError):
            await generate(client, session, "hi", model="m", tools=tools)
    other, connect = APIS["anthropic_messages"]
    async with serving(connect, spoken("A dot.", other)) as (server, client):
        answer = await resume(client, session, tools=tools, model="claude")
        assert server.requests[0].json()["model"] == "claude"
    assert (answer.text, answer.rounds, roles(session)) == ("A dot.", 2, ["u", "a", "t", "a"])


@pytest.mark.parametrize("name", ["openai_responses", "anthropic_messages"])
async def test_audio_of_a_user_that_an_api_takes_none_of_is_refused_before_it_is_stored(
    api: Api, connect: Callable[..., AsyncClient]
) -> None:
    session = Session()
    async with serving(connect, spoken("ok", api)) as (server, client):
        with pytest.raises(UnsupportedError):
            await generate(client, session, ["Listen.", AUDIO], model="m")
        assert (server.request_count, session.messages, session.suspended) == (0, (), None)
        assert (await generate(client, session, "hi", model="m")).text == "ok"
    assert_at_rest(session)


async def test_arguments_that_are_no_object_do_not_spoil_the_history_for_any_api(tools: Tools) -> None:
    for arguments, complete in (("", True), ('{"city": 5}', True), ("nonsense", False), ("[1]", False)):
        session = Session()
        bad = call("call_1", "weather", arguments, complete=complete)
        async with scripted_by(asks(bad), "ok") as (_, model):
            await generate(model, session, "hi", model="m", tools=tools)
        assert [result.is_error for result in results(session.messages[2])] == [True]
        for api, connect in APIS.values():
            async with serving(connect, spoken("fine", api)) as (_, client):
                assert (await generate(client, session.fork(), "hi", model="m", tools=tools)).text == "fine"

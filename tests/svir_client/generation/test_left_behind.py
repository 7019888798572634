"""What a generation that does not finish leaves in its session, and how it goes on from there: 51 section 1.8, 50."""

from __future__ import annotations

import anyio
import pytest

from svir_client import FunctionModel, Session, Tools, generate, resume
from svir_client.testing import Reply
from svir_core import (
    Completion,
    FinishReason,
    Image,
    LoopLimits,
    MaxRoundsError,
    MaxToolCallsError,
    Message,
    ProtocolError,
    Request,
    ServerError,
    SvirError,
    Text,
    ToolCall,
    ToolResult,
    UnsupportedError,
    Usage,
    check_history,
)
from svir_core.wire import openai_chat
from tests.svir_client.chat import SECONDS
from tests.svir_client.generation.script import Script
from tests.svir_client.layers.calls import scripted

pytestmark = pytest.mark.anyio

DOWN = ServerError("no")
USAGE = Usage(1, 2, 3)
CALL = ToolCall("c", "f", "{}")
ASKS = Completion(FinishReason.TOOL_CALLS, (CALL,), usage=USAGE)
BEFORE = (Message.user("a"), Message.assistant("b"))
INPUT = Message.user("hi")
CALLED = (INPUT, Message.assistant(CALL), Message.tool(ToolResult("c", "seen")))


@pytest.fixture
def tools() -> Tools:
    registry = Tools()
    registry.add(lambda: "seen", name="f")
    return registry


def session() -> Session:
    return Session(messages=BEFORE)


async def test_an_error_in_the_first_round_leaves_the_input_and_resume_asks_again(tools: Tools) -> None:
    talk, model = session(), Script(DOWN, "ok")
    with anyio.fail_after(SECONDS):
        async with FunctionModel(model) as client:
            with pytest.raises(ServerError):
                await generate(client, talk, INPUT, model="m", tools=tools)
            assert talk.messages == (*BEFORE, INPUT)
            answer = await resume(client, talk, tools=tools)
    assert model.requests[0] == model.requests[1]
    assert (answer.text, answer.rounds, answer.messages) == ("ok", 1, (INPUT, Message.assistant("ok")))
    assert (talk.messages, talk.suspended) == ((*BEFORE, *answer.messages), None)


async def test_who_asks_again_and_does_not_resume_has_asked_twice(tools: Tools) -> None:
    talk, model = session(), Script(DOWN, "ok")
    with anyio.fail_after(SECONDS):
        async with FunctionModel(model) as client:
            with pytest.raises(ServerError):
                await generate(client, talk, INPUT, model="m", tools=tools)
            await generate(client, talk, INPUT, model="m", tools=tools)
    assert talk.messages == (*BEFORE, INPUT, INPUT, Message.assistant("ok"))
    assert talk.suspended is None
    assert model.requests[1].messages == talk.messages[:-1]


@pytest.mark.parametrize("script", [[DOWN], [ASKS, DOWN], [ASKS, ASKS, DOWN]])
async def test_rolled_back_nothing_is_left(script: list[Completion | SvirError], tools: Tools) -> None:
    talk = session()
    with anyio.fail_after(SECONDS):
        async with FunctionModel(Script(*script)) as client:
            with pytest.raises(ServerError) as caught:
                await generate(client, talk, INPUT, model="m", tools=tools, rollback=True)
    assert (talk.messages, talk.suspended, talk.in_use) == (BEFORE, None, False)
    assert caught.value.progress is not None
    assert caught.value.progress.rounds == len(script) - 1


async def test_an_error_in_a_later_round_leaves_the_results_and_no_tool_runs_again(tools: Tools) -> None:
    ran: list[int] = []
    registry = Tools()

    @registry.tool
    def f() -> str:
        ran.append(1)
        return "seen"

    talk, model = session(), Script(ASKS, DOWN, "ok")
    with anyio.fail_after(SECONDS):
        async with FunctionModel(model) as client:
            with pytest.raises(ServerError):
                await generate(client, talk, INPUT, model="m", tools=registry)
            assert talk.messages == (*BEFORE, *CALLED)
            answer = await resume(client, talk, tools=registry)
    assert ran == [1]
    assert (answer.rounds, answer.tool_calls, answer.messages) == (2, 1, (*CALLED, Message.assistant("ok")))
    assert model.requests[1] == model.requests[2]


@pytest.mark.parametrize(
    ("limits", "error", "stored", "rounds"),
    [
        (LoopLimits(rounds=1), MaxRoundsError, (INPUT,), 1),
        (LoopLimits(rounds=2), MaxRoundsError, CALLED, 2),
        (LoopLimits(tool_calls=1), MaxToolCallsError, CALLED, 2),
    ],
)
async def test_what_a_limit_forbids_is_not_stored_and_larger_limits_go_on(
    limits: LoopLimits, error: type[SvirError], stored: tuple[Message, ...], rounds: int, tools: Tools
) -> None:
    talk = session()
    with anyio.fail_after(SECONDS):
        async with FunctionModel(Script(ASKS, ASKS, "ok")) as client:
            with pytest.raises(error) as caught:
                await generate(client, talk, INPUT, model="m", tools=tools, limits=limits)
            assert talk.messages == (*BEFORE, *stored)
            answer = await resume(client, talk, tools=tools, limits=LoopLimits())
    progress = caught.value.progress
    assert progress is not None
    assert (progress.rounds, progress.messages) == (rounds, stored)
    assert progress.usage == Usage(rounds, 2 * rounds, 3 * rounds)
    assert progress.completion == ASKS
    assert (answer.text, answer.rounds, answer.tool_calls) == ("ok", 3, 2)


async def test_an_answer_whose_calls_cannot_be_told_apart_is_not_stored(tools: Tools) -> None:
    twins = Completion(FinishReason.TOOL_CALLS, (CALL, CALL), usage=USAGE)
    talk = session()
    with anyio.fail_after(SECONDS):
        async with FunctionModel(Script(ASKS, twins)) as client:
            with pytest.raises(ProtocolError) as caught:
                await generate(client, talk, INPUT, model="m", tools=tools)
    assert talk.messages == (*BEFORE, *CALLED)
    assert caught.value.progress is not None
    assert (caught.value.progress.rounds, caught.value.progress.usage) == (2, Usage(2, 4, 6))


@pytest.mark.parametrize("again", [True, False])
async def test_a_result_that_the_api_cannot_carry_poisons_no_history(again: bool) -> None:
    shown = [Image.data(b"\x89PNG", "image/png")]
    registry = Tools()

    @registry.tool
    def f() -> list[Image] | str:
        return shown if shown else "a cat"

    replies = (Reply.completion(ASKS, api=openai_chat.API), Reply.text("ok", api=openai_chat.API))
    talk = session()
    async with scripted(*replies) as (transport, client):
        with pytest.raises(UnsupportedError, match="a tool result cannot carry an image"):
            await generate(client, talk, INPUT, model="m", tools=registry)
        assert talk.messages == (*BEFORE, INPUT)
        assert check_history(talk.messages, openai_chat.API) == ()
        shown.clear()
        if again:
            answer = await resume(client, talk, tools=registry)
            assert answer.tool_calls == 1
        else:
            answer = await generate(client, talk, "never mind", model="m", tools=registry)
        assert answer.text == "ok"
        assert len(transport.requests) == 2
    assert check_history(talk.messages, openai_chat.API) == ()


async def test_a_part_of_an_answer_is_on_the_error_and_not_in_the_history() -> None:
    cut = Reply.text("Hello, world", api=openai_chat.API, cut=200)
    talk = session()
    async with scripted(cut, Reply.text("ok", api=openai_chat.API)) as (_, client):
        with pytest.raises(SvirError) as caught:
            await generate(client, talk, INPUT, model="m")
        assert talk.messages == (*BEFORE, INPUT)
        assert caught.value.progress is not None
        assert caught.value.progress.messages == (INPUT,)
        assert (await resume(client, talk)).text == "ok"


async def test_a_generation_that_is_cancelled_frees_its_session_and_goes_on_later(tools: Tools) -> None:
    talk = session()
    asked = anyio.Event()

    async def model(request: Request) -> str:
        if not asked.is_set():
            asked.set()
            await anyio.sleep_forever()
        return f"ok after {len(request.messages)}"

    with anyio.fail_after(SECONDS):
        async with FunctionModel(model) as client:
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    await generate(client, talk, INPUT, model="m", tools=tools)

                tasks.start_soon(run)
                await asked.wait()
                assert talk.in_use
                tasks.cancel_scope.cancel()
            assert (talk.messages, talk.in_use) == ((*BEFORE, INPUT), False)
            answer = await resume(client, talk, tools=tools)
    assert answer.messages == (INPUT, Message.assistant(Text("ok after 3")))

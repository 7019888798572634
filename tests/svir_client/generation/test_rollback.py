"""A generation that is rolled back leaves its session as it was before."""

from __future__ import annotations

import contextlib

import anyio
import pytest

from svir_client import Session, Tools, generate, generate_stream, resume
from svir_core import (
    ConfigError,
    GenerationOutcome,
    LoopLimits,
    MaxRoundsError,
    MaxToolCallsError,
    Message,
    ProtocolError,
    ServerError,
    SvirError,
)
from tests.svir_client.chat import until
from tests.svir_client.generation.generations import Answer, asks, assert_at_rest, call, read, roles, says, scripted_by

pytestmark = pytest.mark.anyio

BEFORE = (Message.user("a"), Message.assistant("b"))
ASKED = asks(call("c1"))


@pytest.fixture
def tools() -> Tools:
    registry = Tools()

    @registry.tool
    async def f() -> str:
        return "done"

    @registry.tool(requires_approval=True)
    async def risky() -> str:
        return "risked"

    return registry


@pytest.mark.parametrize(
    ("answers", "limits", "error"),
    [
        ([ServerError("no", status=500)], LoopLimits(), ServerError),
        ([ASKED, ASKED, ServerError("no", status=500)], LoopLimits(), ServerError),
        ([ASKED, LookupError("mine")], LoopLimits(), LookupError),
        ([ASKED, ASKED], LoopLimits(rounds=2), MaxRoundsError),
        ([ASKED, asks(call("c2"), call("c3"))], LoopLimits(tool_calls=2), MaxToolCallsError),
        ([ASKED, asks(call(""))], LoopLimits(), ProtocolError),
    ],
)
async def test_a_failure_leaves_the_session_as_it_was_and_the_error_has_the_transcript(
    tools: Tools, answers: list[Answer], limits: LoopLimits, error: type[Exception]
) -> None:
    session = Session(system="s", messages=BEFORE)
    async with scripted_by(*answers, "ok") as (_, client):
        with pytest.raises(error) as caught:
            await generate(client, session, "hi", model="m", tools=tools, limits=limits, rollback=True)
        assert (session.messages, session.suspended) == (BEFORE, None)
        assert_at_rest(session)
        if isinstance(caught.value, SvirError):
            progress = caught.value.progress
            assert progress is not None
            assert progress.messages[0] == Message.user("hi")
            assert len(progress.messages) == 2 * len(answers) - 1
            assert progress.rounds == len([answer for answer in answers if not isinstance(answer, Exception)])
        with pytest.raises(ConfigError, match="did not finish"):
            await resume(client, session, tools=tools)
        assert (await generate(client, session, "hi", model="m")).text == "ok"


async def test_cancelled_or_left_it_is_rolled_back(tools: Tools) -> None:
    session = Session(messages=BEFORE)

    @tools.tool
    async def waits() -> None:
        await anyio.sleep_forever()

    async with scripted_by(asks(call("c1")), asks(call("c2", "waits")), says("part")) as (_, client):
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await generate(client, session, "hi", model="m", tools=tools, rollback=True)

            tasks.start_soon(run)
            await until(lambda: len(session.messages) == 5)
            tasks.cancel_scope.cancel()
        assert (session.messages, session.suspended) == (BEFORE, None)
        with contextlib.suppress(LookupError):
            async with generate_stream(client, session, "hi", model="m", rollback=True) as left:
                await anext(left)
                assert roles(session) == ["u", "a", "u"]
                raise LookupError
        assert (session.messages, session.suspended) == (BEFORE, None)


async def test_what_was_answered_or_waits_is_not_rolled_back(tools: Tools) -> None:
    session = Session(messages=BEFORE)
    async with scripted_by("ok", asks(call("c1", "risky"))) as (_, client):
        await generate(client, session, "hi", model="m", rollback=True)
        assert roles(session) == ["u", "a", "u", "a"]
        answer = await generate(client, session, "go", model="m", tools=tools, rollback=True)
    assert answer.outcome is GenerationOutcome.AWAITING_APPROVAL
    assert roles(session) == ["u", "a", "u", "a", "u"]
    assert session.suspended is not None


async def test_a_failed_call_that_ends_it_is_an_outcome_and_stays(tools: Tools) -> None:
    session = Session()
    limits = LoopLimits(stop_on_tool_error=True)
    async with scripted_by(asks(call("c1", "nobody"))) as (_, client):
        answer = await generate(client, session, "hi", model="m", tools=tools, limits=limits, rollback=True)
    assert (answer.outcome, roles(session)) == (GenerationOutcome.TOOL_ERROR, ["u", "a", "t"])


async def test_one_that_goes_on_is_rolled_back_to_before_its_input(tools: Tools) -> None:
    session = Session(messages=BEFORE)
    async with scripted_by(ASKED, ServerError("no"), ServerError("no")) as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m", tools=tools)
        assert roles(session) == ["u", "a", "u", "a", "t"]
        async with generate_stream(client, session.fork(), "x", model="m", tools=tools) as other:
            with pytest.raises(ServerError):
                await read(other)
    async with scripted_by(ServerError("no")) as (_, client):
        with pytest.raises(ServerError):
            await resume(client, session, tools=tools, rollback=True)
    assert (session.messages, session.suspended) == (BEFORE, None)


async def test_what_was_refused_rolls_nothing_back(tools: Tools) -> None:
    session = Session(messages=BEFORE)
    async with scripted_by(ASKED, ServerError("no"), "ok") as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m", tools=tools)
        with pytest.raises(ConfigError):
            await resume(client, session, tools=tools, rollback=True, approvals={"x": True})
        assert roles(session) == ["u", "a", "u", "a", "t"]
        assert (await resume(client, session, tools=tools)).text == "ok"

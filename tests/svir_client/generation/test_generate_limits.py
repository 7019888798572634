"""How a generation ends that does not fail, and what its limits forbid: 51 sections 1.5 G, 1.9 and 1.10."""

from __future__ import annotations

import pytest

from svir_client import (
    RoundResults,
    Session,
    Tools,
    generate,
    generate_stream,
    resume,
)
from svir_core import (
    FinishReason,
    Generation,
    GenerationOutcome,
    LoopLimits,
    MaxRoundsError,
    MaxToolCallsError,
    ProtocolError,
    ToolCall,
    Usage,
)
from tests.svir_client.generation.generations import (
    asks,
    assert_at_rest,
    call,
    results,
    roles,
    says,
    scripted_by,
)

pytestmark = pytest.mark.anyio

USAGE, TWICE = Usage(1, 2, 3), Usage(2, 4, 6)


async def test_a_failed_call_ends_the_generation_where_that_is_asked_for(tools: Tools) -> None:
    asked = asks(call("a"), call("b", "broken"), call("c"), text="let me", usage=Usage(1, 2, 3))
    session = Session()
    async with scripted_by(asked, "more") as (script, client):
        limits = LoopLimits(stop_on_tool_error=True, parallel=1)
        async with generate_stream(client, session, "hi", model="m", tools=tools, limits=limits) as run:
            events = [event async for event in run]
        assert run.generation == Generation(asked, session.messages, Usage(1, 2, 3), 1, 3, GenerationOutcome.TOOL_ERROR)
        assert isinstance(events[-1], RoundResults)
        assert [result.is_error for result in results(session.messages[2])] == [False, True, False]
        assert (len(script.requests), session.suspended) == (1, None)
        assert (await generate(client, session, "go on", model="m")).text == "more"
    assert_at_rest(session)


async def test_a_server_that_pauses_is_asked_to_go_on_without_calls() -> None:
    session = Session()
    pauses = says("so far", Usage(1, 1, 2), FinishReason.PAUSE)
    async with scripted_by(pauses, says("the rest", Usage(2, 2, 4))) as (script, client):
        answer = await generate(client, session, "hi", model="m")
    assert (answer.text, answer.rounds, answer.usage) == ("the rest", 2, Usage(3, 3, 6))
    assert roles(session) == ["u", "a", "a"]
    assert script.requests[1].messages == session.messages[:2]


async def test_the_last_permitted_round_runs_nothing_and_is_not_stored(tools: Tools) -> None:
    for last in (asks(call("b"), usage=USAGE), says("so far", USAGE, FinishReason.PAUSE)):
        session = Session()
        async with scripted_by(asks(call("a"), usage=USAGE), last, "ok") as (_, client):
            with pytest.raises(MaxRoundsError) as caught:
                await generate(client, session, "hi", model="m", tools=tools, limits=LoopLimits(rounds=2))
            assert roles(session) == ["u", "a", "t"]
            assert_at_rest(session)
            progress = caught.value.progress
            assert progress is not None
            assert (progress.completion, progress.rounds, progress.tool_calls) == (last, 2, 1)
            assert (progress.messages, progress.usage) == (session.messages, TWICE)
            answer = await resume(client, session, tools=tools, limits=LoopLimits())
        assert (answer.text, answer.rounds, answer.tool_calls) == ("ok", 3, 1 + len(last.calls))


async def test_an_answer_with_more_calls_than_are_left_runs_none_of_them(tools: Tools) -> None:
    session, asked = Session(), asks(call("b"), call("c"), usage=USAGE)
    async with scripted_by(asks(call("a"), usage=USAGE), asked, "ok") as (_, client):
        with pytest.raises(MaxToolCallsError) as caught:
            await generate(client, session, "hi", model="m", tools=tools, limits=LoopLimits(tool_calls=2))
        assert roles(session) == ["u", "a", "t"]
        progress = caught.value.progress
        assert progress is not None
        assert (progress.completion, progress.rounds, progress.tool_calls) == (asked, 2, 1)
        assert (progress.messages, progress.usage) == (session.messages, TWICE)
        answer = await resume(client, session, tools=tools, limits=LoopLimits())
    assert (answer.text, answer.rounds, answer.tool_calls) == ("ok", 3, 3)


@pytest.mark.parametrize(
    "calls", [(call("a"), call("a")), (call(""),), (call("a", ""),)], ids=["one id", "no id", "no name"]
)
async def test_calls_that_cannot_be_told_apart_are_a_fault_of_the_answer(
    tools: Tools, calls: tuple[ToolCall, ...]
) -> None:
    session = Session()
    answers = (asks(call("a"), usage=USAGE), asks(*calls, usage=USAGE), "better")
    async with scripted_by(*answers) as (script, client):
        with pytest.raises(ProtocolError) as caught:
            await generate(client, session, "hi", model="m", tools=tools)
        assert roles(session) == ["u", "a", "t"]
        progress = caught.value.progress
        assert progress is not None
        assert (progress.rounds, progress.tool_calls, progress.usage) == (2, 1, TWICE)
        assert (await resume(client, session, tools=tools)).text == "better"
    assert len(script.requests) == 3


async def test_the_same_id_in_two_rounds_is_no_fault(tools: Tools) -> None:
    async with scripted_by(asks(call("a")), asks(call("a")), "ok") as (_, client):
        assert (await generate(client, None, "hi", model="m", tools=tools)).tool_calls == 2


async def test_a_finish_reason_alone_decides_nothing(tools: Tools) -> None:
    async with scripted_by(says("done", finish=FinishReason.TOOL_CALLS)) as (_, client):
        answer = await generate(client, None, "hi", model="m", tools=tools)
    assert (answer.finish, answer.rounds, answer.outcome) == (FinishReason.TOOL_CALLS, 1, GenerationOutcome.ANSWERED)


@pytest.mark.parametrize(
    ("rounds", "total"),
    [
        ([Usage(1, 0, 1), Usage(2, 0, 2)], Usage(3, 0, 3)),
        ([Usage(1, 2, 3), None], Usage()),
        ([None, Usage(1, 2, 3)], Usage()),
        ([Usage(1, None, 3, 4), Usage(1, 2, 3)], Usage(2, None, 6)),
        ([Usage(1, 2, 3, 4, 5, 6), Usage(1, 2, 3, 4, 5, 6)], Usage(2, 4, 6, 8, 10, 12)),
    ],
)
async def test_usage_is_of_all_rounds_and_what_one_did_not_report_is_unknown(
    tools: Tools, rounds: list[Usage | None], total: Usage
) -> None:
    async with scripted_by(asks(call("a"), usage=rounds[0]), says("ok", rounds[1])) as (_, client):
        answer = await generate(client, None, "hi", model="m", tools=tools)
    assert answer.usage == total
    assert answer.completion.usage == rounds[1]

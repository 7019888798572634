"""A generation that waits for somebody's yes or no, and goes on when it is told."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import anyio
import pytest

from svir_client import (
    RoundResults,
    Session,
    SqliteStore,
    ToolContext,
    Tools,
    generate,
    generate_stream,
    resume,
    resume_stream,
)
from svir_core import (
    ConfigError,
    GenerationOutcome,
    LoopLimits,
    MaxToolCallsError,
    Message,
    ServerError,
    Tool,
    ToolCall,
    ToolResult,
)
from tests.svir_client.generation.generations import asks, assert_at_rest, call, results, roles, scripted_by

pytestmark = pytest.mark.anyio

ASKED = asks(call("a", "free"), call("b", "risky"), call("c", "risky"))


class Shop:
    """Tools of which one needs approval, and the calls that were run."""

    def __init__(self, **options: Any) -> None:
        self.ran: list[str] = []
        self.tools = Tools(**options)
        self.tools.add(self.free)
        self.tools.add(self.risky, requires_approval=True)

    async def free(self, context: ToolContext) -> str:
        self.ran.append(str(context.call_id))
        return "free"

    async def risky(self, context: ToolContext) -> str:
        self.ran.append(str(context.call_id))
        return "risked"


@pytest.mark.parametrize("kept", ["as it is", "as JSON"])
async def test_nothing_of_an_answer_runs_before_all_of_it_is_decided(kept: str) -> None:
    shop, session = Shop(), Session("s")
    async with scripted_by(ASKED, "done") as (script, client):
        answer = await generate(client, session, "hi", model="m", tools=shop.tools)
        assert answer.outcome is GenerationOutcome.AWAITING_APPROVAL
        assert (answer.completion, answer.awaiting) == (ASKED, ASKED.calls[1:])
        assert (shop.ran, roles(session)) == ([], ["u"])
        assert_at_rest(session)
        if kept == "as JSON":
            session = Session.loads(session.dumps())
        again = await resume(client, session, tools=shop.tools)
        assert again == answer
        final = await resume(client, session, tools=shop.tools, approvals={"b": True, "c": False})
        assert len(script.requests) == 2
    assert (final.text, final.rounds, final.tool_calls, final.outcome) == ("done", 2, 3, GenerationOutcome.ANSWERED)
    assert sorted(shop.ran) == ["a", "b"]
    assert [(result.call_id, result.is_error) for result in results(session.messages[2])] == [
        ("a", False),
        ("b", False),
        ("c", True),
    ]
    assert session.suspended is None
    assert_at_rest(session)


async def test_a_stream_ends_where_it_waits_and_another_goes_on() -> None:
    shop, session = Shop(), Session()
    async with scripted_by(ASKED, "done") as (_, client):
        async with generate_stream(client, session, "hi", model="m", tools=shop.tools) as run:
            events = [event async for event in run]
        assert not any(isinstance(event, RoundResults) for event in events)
        assert run.generation.awaiting == ASKED.calls[1:]
        decisions = {"b": True, "c": True}
        async with resume_stream(client, session, tools=shop.tools, approvals=decisions) as run:
            events = [event async for event in run]
        assert isinstance(events[0], RoundResults)
        assert (events[0].round, [result.content for result in events[0].results]) == (1, ["free", "risked", "risked"])
        assert events[-1].round == 2


async def test_an_answer_whose_every_call_is_denied_runs_nothing_and_its_results_are_told() -> None:
    shop, session = Shop(), Session()
    async with scripted_by(asks(call("b", "risky")), "done") as (_, client):
        await generate(client, session, "hi", model="m", tools=shop.tools)
        async with resume_stream(client, session, tools=shop.tools, approvals={"b": False}) as run:
            first = await anext(run)
            assert isinstance(first, RoundResults)
            assert [result.is_error for result in first.results] == [True]
            assert [event.round async for event in run][-1] == 2
    assert shop.ran == []
    assert results(session.messages[2]) == list(first.results)


async def test_a_denial_is_a_failed_call_where_these_end_a_generation() -> None:
    shop, session = Shop(), Session()
    async with scripted_by(asks(call("b", "risky")), "more") as (script, client):
        limits = LoopLimits(stop_on_tool_error=True)
        await generate(client, session, "hi", model="m", tools=shop.tools, limits=limits)
        answer = await resume(client, session, tools=shop.tools, approvals={"b": False})
    assert (answer.outcome, answer.tool_calls, len(script.requests)) == (GenerationOutcome.TOOL_ERROR, 1, 1)
    assert (roles(session), session.suspended) == (["u", "a", "t"], None)


@pytest.mark.parametrize(
    "decisions",
    [{"b": True}, {"b": True, "c": True, "a": True}, {}, {"x": True}, {"b": 1, "c": 1}, "yes", [("b", True)]],
)
async def test_wrong_decisions_change_nothing(decisions: Any) -> None:
    shop, session = Shop(), Session()
    async with scripted_by(ASKED, "done") as (_, client):
        await generate(client, session, "hi", model="m", tools=shop.tools)
        before = session.dumps()
        with pytest.raises(ConfigError):
            await resume(client, session, tools=shop.tools, approvals=decisions)
        assert (session.dumps(), shop.ran) == (before, [])
        assert_at_rest(session)
        answer = await resume(client, session, tools=shop.tools, approvals={"b": True, "c": True})
    assert answer.text == "done"


@pytest.mark.parametrize(
    ("approvals", "words"),
    [
        ({}, "approvals has none for 2 of the 2 calls that wait, and 0 for calls that do not"),
        ({"b": True, "a": True}, "approvals has none for 1 of the 2 calls that wait, and 1 for calls that do not"),
        (["b", "c"], "approvals are a mapping of the ids of calls, not a list"),
        ({"b": "yes", "c": True}, "approvals: each is True or False"),
    ],
)
async def test_wrong_approvals_are_told_by_that_name(approvals: Any, words: str) -> None:
    shop, session = Shop(), Session()
    async with scripted_by(ASKED) as (_, client):
        await generate(client, session, "hi", model="m", tools=shop.tools)
        with pytest.raises(ConfigError, match=words):
            await resume(client, session, tools=shop.tools, approvals=approvals)


async def test_limits_that_forbid_what_waits_are_the_error_also_when_it_is_approved() -> None:
    shop, session = Shop(), Session()
    async with scripted_by(ASKED, "done") as (_, client):
        await generate(client, session, "hi", model="m", tools=shop.tools)
        yes = {"b": True, "c": True}
        with pytest.raises(MaxToolCallsError):
            await resume(client, session, tools=shop.tools, approvals=yes, limits=LoopLimits(tool_calls=2))
        waits = await resume(client, session, tools=shop.tools, limits=LoopLimits())
        assert [call.id for call in waits.awaiting] == ["b", "c"]
        assert (await resume(client, session, tools=shop.tools, approvals=yes)).text == "done"


@pytest.mark.parametrize("names", ["delete", b"delete", 5, [5], [["delete"]]])
async def test_names_of_tools_to_approve_are_several(names: Any) -> None:
    class Box:
        requires_approval = names

        def tools(self) -> list[Tool]:
            return [Tool("delete")]

        async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
            raise AssertionError("it was run")

    async with scripted_by(asks(call("b", "delete"))) as (_, client):
        with pytest.raises(ConfigError, match="requires_approval of a Box is not several names of tools"):
            generate_stream(client, None, "hi", model="m", tools=Box())
    with pytest.raises(ConfigError, match="requires_approval of a Box is not several names of tools"):
        Tools().include(Box())


async def test_a_toolbox_that_cannot_say_what_needs_approval_runs_nothing() -> None:
    class Box:
        @property
        def requires_approval(self) -> list[str]:
            raise AttributeError("names")

        def tools(self) -> list[Tool]:
            return [Tool("delete")]

        async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
            raise AssertionError("it was run")

    async with scripted_by(asks(call("b", "delete"))) as (_, client):
        with pytest.raises(AttributeError, match="names"):
            generate_stream(client, None, "hi", model="m", tools=Box())


async def test_decisions_for_one_that_does_not_wait_are_refused() -> None:
    shop, session = Shop(), Session()
    async with scripted_by(ServerError("no")) as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m", tools=shop.tools)
        with pytest.raises(ConfigError, match="approvals: no call of the generation waits for one"):
            await resume(client, session, tools=shop.tools, approvals={"b": True})


async def test_a_decision_stays_when_the_calls_are_run_another_time() -> None:
    shop, session = Shop(), Session()

    @shop.tools.tool
    async def stuck() -> None:
        await anyio.sleep_forever()

    async with scripted_by(asks(call("a", "risky"), call("b", "stuck")), "done") as (_, client):
        await generate(client, session, "hi", model="m", tools=shop.tools)
        with anyio.move_on_after(0.01):
            await resume(client, session, tools=shop.tools, approvals={"a": True})
        assert session.suspended is not None
        assert session.suspended.approvals == {"a": True}
        other = Shop()
        other.tools.add(other.free, name="stuck")
        assert (await resume(client, session, tools=other.tools)).text == "done"
        assert sorted(other.ran) == ["a", "b"]


async def test_a_registry_with_somebody_to_ask_asks_at_once() -> None:
    asked: list[str] = []

    def approve(call: ToolCall, context: ToolContext) -> bool:
        asked.append(call.id)
        return call.id == "b"

    shop, session = Shop(approve=approve), Session()
    async with scripted_by(ASKED, "done") as (_, client):
        answer = await generate(client, session, "hi", model="m", tools=shop.tools)
    assert (answer.outcome, sorted(asked), sorted(shop.ran)) == (GenerationOutcome.ANSWERED, ["b", "c"], ["a", "b"])
    assert [result.is_error for result in results(session.messages[2])] == [False, False, True]


async def test_who_was_told_yes_by_a_generation_does_not_ask_again() -> None:
    shop, session = Shop(), Session()
    asked: list[str] = []

    def approve(call: ToolCall, context: ToolContext) -> bool:
        asked.append(call.id)
        return False

    async with scripted_by(asks(call("b", "risky")), "done") as (_, client):
        await generate(client, session, "hi", model="m", tools=shop.tools)
        asking = Shop(approve=approve)
        await resume(client, session, tools=asking.tools, approvals={"b": True})
    assert (asked, asking.ran) == ([], ["b"])


async def test_an_included_registry_is_asked_about_too() -> None:
    inner, outer, session = Shop(), Tools(), Session()
    outer.include(inner.tools)
    async with scripted_by(asks(call("b", "risky")), "done") as (_, client):
        answer = await generate(client, session, "hi", model="m", tools=outer)
        assert [call.id for call in answer.awaiting] == ["b"]
        await resume(client, session, tools=outer, approvals={"b": True})
    assert inner.ran == ["b"]


async def test_a_toolbox_that_says_nothing_of_approval_needs_none() -> None:
    class Box:
        def tools(self) -> list[Tool]:
            return [Tool("risky")]

        async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
            return ToolResult(call.id, "risked")

    async with scripted_by(asks(call("b", "risky")), "done") as (_, client):
        answer = await generate(client, None, "hi", model="m", tools=Box())
    assert (answer.outcome, answer.tool_calls) == (GenerationOutcome.ANSWERED, 1)


async def test_limits_come_before_the_question() -> None:
    shop, session = Shop(), Session()
    async with scripted_by(ASKED, "done") as (script, client):
        with pytest.raises(Exception, match="is the most"):
            await generate(client, session, "hi", model="m", tools=shop.tools, limits=LoopLimits(tool_calls=2))
        answer = await resume(client, session, tools=shop.tools, limits=LoopLimits())
        assert answer.outcome is GenerationOutcome.AWAITING_APPROVAL
        assert len(script.requests) == 1


async def test_a_new_turn_forgets_the_calls_that_waited() -> None:
    shop, session = Shop(), Session()
    async with scripted_by(ASKED, "else") as (_, client):
        await generate(client, session, "hi", model="m", tools=shop.tools)
        assert (await generate(client, session, "Forget it.", model="m")).text == "else"
        with pytest.raises(ConfigError, match="did not finish"):
            await resume(client, session, tools=shop.tools, approvals={"b": True, "c": True})
    assert (shop.ran, roles(session)) == ([], ["u", "u", "a"])
    assert session.messages[0] == Message.user("hi")


IN_ANOTHER_PROCESS = """
import anyio, json, sys
from svir_client import FunctionModel, SqliteStore, Tools, resume

tools, ran = Tools(), []

@tools.tool
async def free() -> str:
    ran.append("free")
    return "free"

@tools.tool(requires_approval=True)
async def risky() -> str:
    ran.append("risky")
    return "risked"

async def main():
    async with SqliteStore(sys.argv[1]).session("alice") as session, FunctionModel(lambda request: "done") as client:
        decisions = {call.id: call.id == "b" for call in session.suspended.generation.awaiting}
        answer = await resume(client, session, tools=tools, approvals=decisions)
        print(json.dumps([answer.text, answer.rounds, answer.tool_calls, sorted(ran)]))

anyio.run(main)
"""


async def test_a_fresh_process_goes_on_with_what_is_stored(tmp_path: pathlib.Path) -> None:
    shop, path = Shop(), tmp_path / "sessions.db"
    store = SqliteStore(path)
    async with scripted_by(ASKED) as (_, client), store.session("alice") as session:
        await generate(client, session, "hi", model="m", tools=shop.tools)
    done = await anyio.run_process([sys.executable, "-c", IN_ANOTHER_PROCESS, str(path)], stderr=subprocess.STDOUT)
    assert json.loads(done.stdout) == ["done", 2, 3, ["free", "risky"]]
    stored = await store.load("alice")
    assert stored is not None
    assert (roles(stored), stored.suspended, shop.ran) == (["u", "a", "t", "a"], None, [])

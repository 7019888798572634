"""How a generation runs its tools, and what they are told: 51 sections 1.6 and 1.7, as 50 has them."""

from __future__ import annotations

import functools
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import (
    RoundResults,
    Session,
    ToolContext,
    ToolError,
    Tools,
    generate,
    generate_stream,
    progress_of,
    resume,
)
from svir_core import (
    ConfigError,
    LoopLimits,
    Tool,
    ToolCall,
    ToolResult,
    UnsupportedError,
)
from tests.svir_client.generation.generations import (
    BLIND,
    SEEING,
    asks,
    assert_at_rest,
    call,
    read,
    results,
    roles,
    scripted_by,
)

pytestmark = pytest.mark.anyio


async def test_one_slow_tool_does_not_hold_up_the_next_calls() -> None:
    tools, ends, began = Tools(), [anyio.Event() for _ in range(5)], list[int]()

    @tools.tool
    async def wait(number: int) -> int:
        began.append(number)
        await ends[number].wait()
        return number

    calls = [call(f"c{number}", "wait", f'{{"number": {number}}}') for number in range(5)]
    session = Session()
    async with scripted_by(asks(*calls), "ok") as (_, client), anyio.create_task_group() as tasks:
        limits = LoopLimits(parallel=2)
        tasks.start_soon(lambda: generate(client, session, "hi", model="m", tools=tools, limits=limits))
        await anyio.wait_all_tasks_blocked()
        for ended in (1, 2, 3, 4):
            assert began == list(range(ended + 1))
            ends[ended].set()
            await anyio.wait_all_tasks_blocked()
        ends[0].set()
    assert [result.content for result in results(session.messages[2])] == ["0", "1", "2", "3", "4"]


async def test_one_at_a_time_and_results_in_the_order_asked() -> None:
    tools, log = Tools(), list[str]()

    @tools.tool
    async def step(name: str) -> str:
        log.append(f"+{name}")
        await anyio.lowlevel.checkpoint()
        log.append(f"-{name}")
        return name

    calls = [call(name, "step", f'{{"name": "{name}"}}') for name in "abc"]
    session = Session()
    async with scripted_by(asks(*calls), "ok") as (_, client):
        await generate(client, session, "hi", model="m", tools=tools, limits=LoopLimits(parallel=1))
    assert log == ["+a", "-a", "+b", "-b", "+c", "-c"]
    assert [(result.call_id, result.content) for result in results(session.messages[2])] == [(n, n) for n in "abc"]


async def test_a_serial_tool_does_not_overlap_itself_across_clients_and_generations() -> None:
    tools, inside, most = Tools(), 0, 0

    @tools.tool(serial=True)
    async def alone() -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        inside -= 1
        return "ok"

    calls = asks(call("a", "alone"), call("b", "alone"))
    async with (
        scripted_by(calls, "ok") as (_, one),
        scripted_by(calls, "ok") as (_, other),
        anyio.create_task_group() as tasks,
    ):
        for client in (one, other):
            tasks.start_soon(functools.partial(generate, client, None, "hi", model="m", tools=tools))
    assert (most, inside) == (1, 0)


async def test_calls_that_were_cut_off_are_not_run_and_their_results_are_told() -> None:
    tools, ran = Tools(), list[str]()

    @tools.tool
    async def f() -> str:
        ran.append("f")
        return "done"

    whole, cut = call("a"), call("b", arguments='{"x', complete=False)
    session = Session()
    async with (
        scripted_by(asks(cut), asks(whole, cut), "ok") as (script, client),
        generate_stream(client, session, "hi", model="m", tools=tools) as run,
    ):
        events = [event async for event in run]
    told = [event for event in events if isinstance(event, RoundResults)]
    assert ran == ["f"]
    assert [[result.is_error for result in event.results] for event in told] == [[True], [False, True]]
    assert [event.round for event in told] == [1, 2]
    assert [list(event.results) for event in told] == [results(session.messages[2]), results(session.messages[4])]
    assert run.generation.tool_calls == 3
    assert_at_rest(session)
    assert script.requests[-1].messages == session.messages[:-1]


async def test_a_tool_that_takes_too_long_is_a_result() -> None:
    tools, cancelled = Tools(), list[str]()

    @tools.tool(timeout=0.01)
    async def slow() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append("slow")

    session = Session()
    async with scripted_by(asks(call("a", "slow")), "ok") as (_, client):
        assert (await generate(client, session, "hi", model="m", tools=tools)).text == "ok"
    (result,) = results(session.messages[2])
    assert (result.content, result.is_error) == ("tool 'slow' did not end within 0.01 s", True)
    assert cancelled == ["slow"]


async def test_a_tool_knows_where_its_call_stands() -> None:
    tools, seen = Tools(), list[ToolContext]()

    @tools.tool
    async def count(context: ToolContext) -> int:
        seen.append(context)
        assert context.state is not None
        return context.state.update("n", 0, lambda n: n + 1)

    session = Session("alice")
    async with (
        scripted_by(asks(call("a", "count"), call("b", "count")), "ok") as (_, client),
        generate_stream(client, session, "hi", model="m", tools=tools) as run,
    ):
        await read(run)
    assert [(c.session_id, c.run_id, c.call_id) for c in seen] == [("alice", run.run_id, id) for id in "ab"]
    assert session.state.get("n", int) == 2
    assert (seen[0].approved, seen[0].state) == (frozenset(), session.state)


async def test_exceptions_of_tools_are_told_to_whom_they_concern(tools: Tools) -> None:
    told: list[Exception] = []

    @tools.tool
    def refuses() -> str:
        raise ToolError("not on Sundays")

    session = Session()
    async with scripted_by(asks(call("a", "broken"), call("b", "refuses")), "ok") as (_, client):
        await generate(client, session, "hi", model="m", tools=tools, on_tool_error=told.append)
    assert [result.content for result in results(session.messages[2])] == ["tool 'broken' failed", "not on Sundays"]
    assert [str(error) for error in told] == ["nobody is told"]


class Box:
    """A toolbox of somebody else's, that gives what it was made with."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def tools(self) -> list[Tool]:
        return [Tool("f")]

    async def call(self, call: ToolCall, context: ToolContext | None = None) -> Any:
        await anyio.lowlevel.checkpoint()
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (None, ConfigError),
        ("a text", ConfigError),
        (ToolResult("another", "x"), ConfigError),
        (ValueError("of the box"), ValueError),
    ],
)
async def test_a_toolbox_that_does_not_keep_its_word_ends_the_generation(given: Any, error: type[Exception]) -> None:
    session = Session()
    async with scripted_by(asks(call("a")), "ok") as (_, client):
        with pytest.raises(error) as caught:
            await generate(client, session, "hi", model="m", tools=Box(given))
        assert roles(session) == ["u"]
        assert_at_rest(session)
        progress = progress_of(caught.value)
        assert progress is not None
        assert (progress.rounds, progress.tool_calls, progress.messages) == (1, 0, session.messages)
        answer = await resume(client, session, tools=Box(ToolResult("a", "x")))
    assert (answer.text, roles(session)) == ("ok", ["u", "a", "t", "a"])


async def test_content_that_the_model_cannot_take_in_is_refused_before_it_is_stored(tools: Tools) -> None:
    session = Session()
    async with scripted_by(asks(call("a", "image")), "seen", "again") as (_, client):
        with pytest.raises(
            UnsupportedError, match=r"results\.parts\[0\]\.content\[\d\] is an image, and the model has no image_input"
        ) as caught:
            await generate(client, session, "hi", model=BLIND, tools=tools)
        assert caught.value.progress is not None
        assert caught.value.progress.rounds == 1
        assert roles(session) == ["u"]
        assert_at_rest(session)
        assert (await resume(client, session, model=SEEING, tools=tools)).text == "seen"
        assert (await generate(client, session, "hi", model=BLIND)).text == "again"

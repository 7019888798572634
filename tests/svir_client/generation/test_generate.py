"""What a generation does with its input, its options, its tools and its limits: 51 sections 1.5 to 1.10, as 50 has
them. ``test_sequence.py`` goes through one step by step."""

from __future__ import annotations

import functools
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import (
    AsyncClient,
    Capability,
    Client,
    FunctionModel,
    ModelDescriptor,
    Next,
    RoundResults,
    Session,
    SessionState,
    Stream,
    ToolContext,
    ToolError,
    Tools,
    generate,
    generate_stream,
    progress_of,
    resume,
    resume_stream,
)
from svir_client.generation import GenerationEvent
from svir_client.testing import MockServer, Reply
from svir_core import (
    Completed,
    Completion,
    ConfigError,
    FinishReason,
    Generation,
    GenerationOutcome,
    Image,
    LoopLimits,
    MaxRoundsError,
    MaxToolCallsError,
    Message,
    Progress,
    ProtocolError,
    Reasoning,
    Request,
    ServerError,
    SessionInUseError,
    SvirError,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    UnsupportedError,
    Usage,
)
from svir_core.wire.openai_responses import API as RESPONSES
from tests.svir_client.chat import SECONDS
from tests.svir_client.generation.generations import (
    Answer,
    Script,
    asks,
    assert_at_rest,
    call,
    of_round,
    read,
    results,
    roles,
    says,
    scripted_by,
)
from tests.svir_client.layers.calls import scripted

pytestmark = pytest.mark.anyio

LIMITED = ModelDescriptor("m", capabilities={*Capability}, max_output_tokens=100)
PNG = Image.data(b"\x89PNG", "image/png")
BLIND = ModelDescriptor("m", capabilities={Capability.TEXT_INPUT, Capability.TOOLS})
SEEING = ModelDescriptor("m", capabilities={Capability.TEXT_INPUT, Capability.IMAGE_INPUT, Capability.TOOLS})


@pytest.fixture
def tools() -> Tools:
    registry = Tools()

    @registry.tool
    async def f() -> str:
        return "done"

    @registry.tool
    async def broken() -> str:
        raise ValueError("nobody is told")

    @registry.tool
    async def image() -> Image:
        return PNG

    return registry


# --- what is refused, and in which order -------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"client": object()}, "client must be a AsyncClient"),
        ({"session": "alice"}, "session must be a Session"),
        ({"model": 5}, "model must be a str"),
        ({"input": 5}, "a text, a part or a Message"),
        ({"rollback": 1}, "rollback must be a bool"),
        ({"on_error": 5}, "on_error must be callable"),
        ({"idle_timeout": 0}, "idle_timeout must be a positive number"),
        ({"headers": {"bad name": "x"}}, "a header's name"),
        ({"max_tokens": -1}, "max_tokens is -1: no room"),
        ({"temperature": True}, "temperature"),
        ({"effort": "mighty"}, "effort"),
        ({"system": "x", "messages": []}, "no option named messages, system"),
        ({"approvals": {}}, "no option named approvals"),
    ],
)
async def test_a_wrong_argument_is_refused_where_it_is_given_though_the_session_is_in_use(
    wrong: dict[str, Any], words: str
) -> None:
    session = Session()
    async with scripted_by() as (model, client):
        given: dict[str, Any] = {"client": client, "session": session, "input": "hi", "model": "m", **wrong}
        with session.lease(), pytest.raises(ConfigError, match=words):
            generate_stream(given.pop("client"), given.pop("session"), given.pop("input"), **given)
    assert (session.messages, session.suspended, model.requests) == ((), None, [])


async def test_the_blocking_client_is_not_taken_for_the_async_one() -> None:
    with pytest.raises(ConfigError, match="client must be a AsyncClient, not a Client"):
        await generate(Client.openai("http://127.0.0.1:1"), None, "hi", model="m")  # type: ignore[arg-type]  # the mistake


async def test_capabilities_are_checked_before_the_session_is_asked_for_and_the_api_after() -> None:
    session = Session()
    async with scripted() as (_, client):
        with session.lease():
            with pytest.raises(UnsupportedError, match="image_input"):
                await generate(client, session, PNG, model=BLIND)
            with pytest.raises(ConfigError, match="described for gemini, and the client speaks openai_chat"):
                await generate(client, session, "hi", model=ModelDescriptor("m", api="gemini"))
            with pytest.raises(SessionInUseError) as caught:
                await generate(client, session, Message.user("hi", Reasoning("x", "no user thinks aloud")), model="m")
    assert caught.value.progress == Progress()
    assert session.messages == ()


async def test_what_went_before_is_not_held_against_the_model_of_this_turn() -> None:
    session = Session(messages=[Message.user(PNG), Message.assistant("A dot.")])
    async with scripted_by("ok") as (_, client):
        assert (await generate(client, session, "hi", model=BLIND)).text == "ok"


async def test_a_closed_client_is_refused_before_anything_is_stored() -> None:
    session = Session()
    client = FunctionModel(Script().ask)
    await client.aclose()
    with pytest.raises(ConfigError, match="closed") as caught:
        await generate(client, session, "hi", model="m")
    assert (session.messages, caught.value.progress) == ((), Progress())
    assert_at_rest(session)


# --- options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "options", "sent"),
    [
        ("m", {}, None),
        ("m", {"max_tokens": 7}, 7),
        (LIMITED, {}, 100),
        (LIMITED, {"max_tokens": 7}, 7),
        (LIMITED, {"max_tokens": None}, None),
    ],
)
async def test_the_limit_of_the_model_is_the_default_of_every_round(
    tools: Tools, model: str | ModelDescriptor, options: dict[str, Any], sent: int | None
) -> None:
    async with scripted_by(asks(call("a")), "ok") as (script, client):
        await generate(client, None, "hi", model=model, tools=tools, **options)
    assert [request.max_tokens for request in script.requests] == [sent, sent]


async def test_further_fields_are_merged_deeply_and_hosted_tools_come_before_local_ones(tools: Tools) -> None:
    model = ModelDescriptor(
        "m",
        api="openai_responses",
        capabilities={Capability.TEXT_INPUT, Capability.TOOLS},
        extra={"truncation": "auto", "metadata": {"a": {"x": "1", "y": "2"}, "b": "3"}},
    )
    extra = {"metadata": {"a": {"x": "9"}}, "tools": [{"type": "web_search"}]}
    answers = (Reply.completion(asks(call("a")), api=RESPONSES), Reply.text("ok", api=RESPONSES))
    with anyio.fail_after(SECONDS):
        async with MockServer(*answers) as server, AsyncClient.responses(server.origin) as client:
            await generate(client, None, "hi", model=model, tools=tools, extra=extra)
            bodies = [request.json() for request in server.requests]
    assert len(bodies) == 2
    for body in bodies:
        assert body["metadata"] == {"a": {"x": "9", "y": "2"}, "b": "3"}
        assert body["truncation"] == "auto"
        assert [tool.get("name", tool["type"]) for tool in body["tools"]] == ["web_search", "f", "broken", "image"]


async def test_every_round_has_the_headers_and_the_layers() -> None:
    rounds: list[int] = []

    async def count(request: Request, next: Next) -> Stream:
        rounds.append(len(request.messages))
        return await next(request)

    answers = [Reply.completion(asks(call("a"))), Reply.text("ok")]
    async with scripted(*answers, layers=[count]) as (transport, client):
        await generate(client, None, "hi", model="m", headers={"X-Trace": "abc"})
        assert [dict(request.headers)["x-trace"] for request in transport.requests] == ["abc", "abc"]
    assert rounds == [1, 3]


# --- tools -------------------------------------------------------------------------------------------


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


async def test_a_tool_runs_a_generation_of_another_session_but_not_of_its_own() -> None:
    tools, sessions, told = Tools(), {"own": Session(), "other": Session()}, list[Exception]()

    @tools.tool(serial=True)
    async def ask(whom: str) -> str:
        return (await generate(client, sessions[whom], "again", model="m", tools=tools)).text

    asked = asks(call("a", "ask", '{"whom": "other"}'), call("b", "ask", '{"whom": "own"}'))
    async with scripted_by(asked, "inner", "outer") as (_, client):
        answer = await generate(client, sessions["own"], "hi", model="m", tools=tools, on_error=told.append)
    assert answer.text == "outer"
    assert results(sessions["own"].messages[2]) == [
        ToolResult("a", "inner"),
        ToolResult("b", "tool 'ask' failed", is_error=True),
    ]
    assert [type(error) for error in told] == [SessionInUseError]
    assert roles(sessions["other"]) == ["u", "a"]
    for session in sessions.values():
        assert_at_rest(session)


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
        state: SessionState = context.state
        return state.update("n", 0, lambda n: n + 1)

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
        await generate(client, session, "hi", model="m", tools=tools, on_error=told.append)
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
        with pytest.raises(UnsupportedError, match=r"the message of the tool role.*image_input") as caught:
            await generate(client, session, "hi", model=BLIND, tools=tools)
        assert caught.value.progress is not None
        assert caught.value.progress.rounds == 1
        assert roles(session) == ["u"]
        assert_at_rest(session)
        assert (await resume(client, session, model=SEEING, tools=tools)).text == "seen"
        assert (await generate(client, session, "hi", model=BLIND)).text == "again"


# --- limits and outcomes -----------------------------------------------------------------------------


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
    for last in (asks(call("b")), says("so far", finish=FinishReason.PAUSE)):
        session = Session()
        async with scripted_by(asks(call("a")), last) as (_, client):
            with pytest.raises(MaxRoundsError) as caught:
                await generate(client, session, "hi", model="m", tools=tools, limits=LoopLimits(rounds=2))
        assert roles(session) == ["u", "a", "t"]
        assert_at_rest(session)
        progress = caught.value.progress
        assert progress is not None
        assert (progress.completion, progress.rounds, progress.tool_calls) == (last, 2, 1)


async def test_an_answer_with_more_calls_than_are_left_runs_none_of_them(tools: Tools) -> None:
    session, asked = Session(), asks(call("b"), call("c"))
    async with scripted_by(asks(call("a")), asked) as (_, client):
        with pytest.raises(MaxToolCallsError) as caught:
            await generate(client, session, "hi", model="m", tools=tools, limits=LoopLimits(tool_calls=2))
    assert roles(session) == ["u", "a", "t"]
    assert caught.value.progress is not None
    assert (caught.value.progress.completion, caught.value.progress.tool_calls) == (asked, 1)


@pytest.mark.parametrize(
    "calls", [(call("a"), call("a")), (call(""),), (call("a", ""),)], ids=["one id", "no id", "no name"]
)
async def test_calls_that_cannot_be_told_apart_are_a_fault_of_the_answer(
    tools: Tools, calls: tuple[ToolCall, ...]
) -> None:
    session = Session()
    async with scripted_by(asks(*calls), "better") as (script, client):
        with pytest.raises(ProtocolError):
            await generate(client, session, "hi", model="m", tools=tools)
        assert roles(session) == ["u"]
        assert (await resume(client, session, tools=tools)).text == "better"
    assert len(script.requests) == 2


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


# --- what is left of one that failed -----------------------------------------------------------------


class Sealed(Exception):
    """An exception that takes no attribute."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            raise AttributeError(name)
        super().__setattr__(name, value)


@pytest.mark.parametrize("error", [ServerError("no", status=500), ValueError("mine"), Sealed("mine")])
@pytest.mark.parametrize("where", ["model", "layer"])
@pytest.mark.parametrize("round", [1, 2])
async def test_an_error_of_a_round_leaves_what_was_complete_and_says_how_far_it_came(
    tools: Tools, error: Exception, where: str, round: int
) -> None:
    done = asks(call("a"), usage=Usage(1, 1, 2))
    answers: list[Answer] = [done] if round == 2 else []

    async def fails(request: Request, next: Next) -> Stream:
        if len(request.messages) == 2 * round - 1 and where == "layer":
            raise error
        return await next(request)

    session = Session()
    async with scripted_by(*answers, error, layers=[fails]) as (_, client):
        with pytest.raises(type(error)) as caught:
            await generate(client, session, "hi", model="m", tools=tools)
    assert caught.value is error
    assert roles(session) == ["u", "a", "t"][: 2 * round - 1]
    assert_at_rest(session)
    progress = progress_of(error)
    if isinstance(error, Sealed):
        assert progress is None
    else:
        assert progress is not None
        assert (progress.rounds, progress.tool_calls) == (round - 1, round - 1)
        assert progress.messages == session.messages
        assert progress.usage == (Usage(1, 1, 2) if round == 2 else Usage())
        assert progress.completion == (done if round == 2 else None)
    suspended = session.suspended
    assert suspended is not None
    if isinstance(error, SvirError):
        assert suspended.error == error.without_progress()
        assert isinstance(error, ServerError)
    else:
        assert suspended.error is None


def test_what_is_no_part_of_a_generation_has_no_progress() -> None:
    error = ValueError()
    assert progress_of(error) is None
    error.progress = "something of its own"  # type: ignore[attr-defined]  # as a caller's exception may have
    assert progress_of(error) is None


async def test_an_error_in_the_middle_of_an_answer_has_what_came_of_it() -> None:
    session = Session()
    answers = [Reply.completion(asks(call("a"))), Reply.text("Hel", "lo", cut=300)]
    async with scripted(*answers) as (_, client):
        with pytest.raises(SvirError) as caught:
            await generate(client, session, "hi", model="m")
    assert caught.value.partial is not None
    assert caught.value.progress is not None
    assert (caught.value.progress.rounds, roles(session)) == (1, ["u", "a", "t"])


# --- as it goes on -----------------------------------------------------------------------------------


async def test_every_event_of_every_round_is_told_after_what_it_tells_of_is_stored(tools: Tools) -> None:
    session = Session()
    asked = asks(call("a"), text="let me")
    seen: list[tuple[GenerationEvent, int]] = []
    async with (
        scripted_by(asked, "ok") as (_, client),
        generate_stream(client, session, "hi", model="m", tools=tools) as run,
    ):
        assert roles(session) == ["u"]
        async for event in run:
            seen.append((event, len(session.messages)))
        assert not session.in_use
    events = [event for event, _ in seen]
    assert of_round(events, 1)[-2:] == [Completed(asked), RoundResults(1, (ToolResult("a", "done"),))]
    assert of_round(events, 2)[-1] == Completed(run.generation.completion)
    assert [stored for event, stored in seen if isinstance(event, RoundResults)] == [3]
    assert seen[-1][1] == 4


async def test_the_text_alone(tools: Tools) -> None:
    async with scripted_by(asks(call("a"), text="let me"), "o", "") as (_, client):
        async with generate_stream(client, None, "hi", model="m", tools=tools) as run:
            assert [piece async for piece in run.text()] == ["let me", "o"]
        assert run.generation.text == "o"


async def test_a_stream_is_entered_once_and_read_inside_its_block(tools: Tools) -> None:
    async with scripted_by("ok", "ok") as (_, client):
        run = generate_stream(client, None, "hi", model="m")
        assert (repr(run), run.progress) == ("<GenerationStream new>", Progress())
        with pytest.raises(ConfigError, match="before it was entered"):
            await anext(run)
        with pytest.raises(ConfigError, match="came to nothing yet"):
            _ = run.generation
        async with run:
            assert "ToolLoop model" in repr(run)
            with pytest.raises(ConfigError, match="entered once"):
                await run.__aenter__()
            await read(run)
            with pytest.raises(StopAsyncIteration):
                await anext(run)
        assert repr(run) == "<GenerationStream over>"
        assert run.progress.messages == run.generation.messages
        left = generate_stream(client, None, "hi", model="m")
        async with left:
            pass
        with pytest.raises(ConfigError, match="read after it was closed"):
            await anext(left)
        with pytest.raises(ConfigError, match="came to nothing yet"):
            _ = left.generation


async def test_an_error_is_raised_again_to_who_reads_on() -> None:
    async with (
        scripted_by(ServerError("no", status=500)) as (_, client),
        generate_stream(client, None, "hi", model="m") as run,
    ):
        for _ in range(2):
            with pytest.raises(ServerError, match="no"):
                await anext(run)
        with pytest.raises(ServerError):
            _ = run.generation


async def test_one_that_was_refused_is_over() -> None:
    session = Session()
    async with scripted_by() as (_, client):
        run = resume_stream(client, session)
        with pytest.raises(ConfigError, match="no generation that did not finish"):
            await run.__aenter__()
        assert repr(run) == "<GenerationStream over>"
        await run.aclose()
    assert_at_rest(session)


async def test_an_answer_that_a_layer_has_read_to_its_end_is_the_answer(tools: Tools) -> None:
    async def reads(request: Request, next: Next) -> Stream:
        stream = await next(request)
        async for _ in stream:
            pass
        return stream

    session = Session()
    async with (
        scripted_by(asks(call("a")), "ok", layers=[reads]) as (_, client),
        generate_stream(client, session, "hi", model="m", tools=tools) as run,
    ):
        assert await read(run) == [(1, "RoundResults")]
    assert (run.generation.text, roles(session)) == ("ok", ["u", "a", "t", "a"])


async def test_everything_but_the_cumulative_figures_is_of_the_last_round(tools: Tools) -> None:
    last = Completion(FinishReason.LENGTH, [Text("ok")], usage=Usage(1, 1, 2), model="m-2", id="r2")
    async with scripted_by(asks(call("a"), usage=Usage(1, 1, 2)), last) as (_, client):
        answer = await generate(client, None, "hi", model="m", tools=tools)
    assert answer.completion == last
    assert (answer.usage, answer.rounds, answer.tool_calls) == (Usage(2, 2, 4), 2, 1)

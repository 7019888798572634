"""One generation, step by step, as its driver does it: 51 sections 1.1 to 1.7 and 1.10, as 50 changes them."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import (
    FunctionModel,
    ModelDescriptor,
    Session,
    ToolContext,
    Tools,
    Trace,
    generate,
    generate_stream,
)
from svir_client.tracing import TraceEvent, function, memory
from svir_core import (
    Completion,
    ConfigError,
    LoopLimits,
    Message,
    Opaque,
    Reasoning,
    Request,
    SessionInUseError,
    SvirError,
    Text,
    ToolCall,
    ToolResult,
    UnsupportedError,
)
from tests.svir_client.chat import SECONDS
from tests.svir_client.generation.generations import (
    BLIND,
    PNG,
    WITHOUT_TOOLS,
    asks,
    assert_at_rest,
    call,
    read,
    results,
    roles,
    scripted_by,
)
from tests.svir_client.layers.calls import scripted

pytestmark = pytest.mark.anyio

# --- the input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("hi", Message.user("hi")),
        (Text("hi"), Message.user("hi")),
        (PNG, Message.user(PNG)),
        (["look", PNG], Message.user("look", PNG)),
        (Message.user("hi", PNG), Message.user("hi", PNG)),
    ],
)
async def test_every_form_of_input_is_a_message_of_the_user(given: Any, message: Message) -> None:
    session = Session()
    async with scripted_by("ok") as (model, client):
        answer = await generate(client, session, given, model="m")
    assert model.requests[0].messages == (message,)
    assert session.messages == answer.messages == (message, Message.assistant("ok"))


async def test_without_a_session_nobody_keeps_the_conversation() -> None:
    seen: list[str | None] = []
    trace = Trace(function(lambda event: seen.append(event.session_id)))
    async with scripted_by("ok", "ok", layers=[trace]) as (model, client):
        for _ in range(2):
            await generate(client, None, "hi", model="m")
    assert [request.messages for request in model.requests] == [(Message.user("hi"),)] * 2
    assert len(set(seen)) == 2


async def test_settings_of_a_generation_are_those_of_its_requests(tools: Tools) -> None:
    misspelt: dict[str, Any] = {"tempature": 1}
    settings: dict[str, Any] = {"temperature": 0.5, "max_tokens": 9, "seed": 7, "stop": ["x"], "extra": {"top_k": 3}}
    async with scripted_by(asks(call("c")), "ok") as (model, client):
        await generate(client, None, "hi", model="m", tools=tools, **settings)
        with pytest.raises(ConfigError, match="no option named tempature"):
            await generate(client, None, "hi", model="m", **misspelt)
    for request in model.requests:
        kept = request.replace(system=None, messages=(), tools=())
        assert kept == Request("m", **settings)
    assert len(model.requests) == 2


# --- what is refused before anything happens ---------------------------------------------------------

REFUSED: dict[str, tuple[Any, dict[str, Any], type[SvirError], str]] = {
    "of the assistant": (Message.assistant("hi"), {}, ConfigError, "not of the assistant role"),
    "of the system": (Message.system("hi"), {}, ConfigError, "not of the system role"),
    "of a tool": (Message.tool(ToolResult("c", "x")), {}, ConfigError, "not of the tool role"),
    "no part": (Message.user(), {}, ConfigError, "has parts"),
    "an empty text": ("", {}, ConfigError, "an empty text"),
    "an empty text beside others": (["a", Text("")], {}, ConfigError, "part 1 .* is an empty text"),
    "nothing": (None, {}, ConfigError, "not a NoneType"),
    "a mapping": ({"text": "hi"}, {}, ConfigError, "not a dict"),
    "a call": (["hi", ToolCall("c", "f", "{}")], {}, ConfigError, "part 1 .* is a ToolCall: no user's"),
    "a result": (ToolResult("c", "x"), {}, ConfigError, "part 0 .* is a ToolResult"),
    "reasoning": (Message.user(Reasoning("think", "hm")), {}, ConfigError, "part 0 .* is a Reasoning"),
    "what is opaque": (Opaque("function", "{}"), {}, ConfigError, "part 0 .* is an Opaque"),
    "a temperature below 0": ("hi", {"temperature": -0.1}, ConfigError, "temperature must be 0 or more"),
    "a temperature that is none": ("hi", {"temperature": float("inf")}, ConfigError, "temperature must be finite"),
    "no room for an answer": ("hi", {"max_tokens": 0}, ConfigError, "no room for an answer"),
    "options that are none": ("hi", {"extra": [1]}, ConfigError, "extra is a mapping"),
    "an option of the codec's": ("hi", {"extra": {"messages": []}}, ConfigError, "belongs to the codec"),
    "an image without eyes": (["hi", PNG], {"model": BLIND}, UnsupportedError, "no image_input"),
    "tools without the capability": ("hi", {"model": WITHOUT_TOOLS}, UnsupportedError, "tools"),
    "a model of another API": ("hi", {"model": ModelDescriptor("m", api="gemini")}, ConfigError, "gemini"),
    "no toolbox": ("hi", {"tools": [1]}, ConfigError, "not a Toolbox"),
    "no limits": ("hi", {"limits": 5}, ConfigError, "limits"),
    "a model without a name": ("hi", {"model": ""}, ConfigError, "model is empty"),
    "an async listener": ("hi", {"on_tool_error": anyio.sleep}, ConfigError, "on_tool_error must be .* not async"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_refused_is_not_stored_not_sent_and_not_traced(what: str, tools: Tools) -> None:
    given, options, error, words = REFUSED[what]
    asked: dict[str, Any] = {"model": "m", "tools": tools, **options}
    before = (Message.user("a"), Message.assistant("b"))
    session = Session(system="s", messages=before)
    sink = memory()
    async with scripted(layers=[Trace(sink)]) as (transport, client):
        with pytest.raises(error, match=words):
            await generate(client, session, given, **asked)
        assert transport.requests == ()
    assert (session.messages, session.in_use, session.suspended) == (before, False, None)
    assert sink.events == ()


async def test_a_session_in_use_is_refused_at_once_and_not_traced() -> None:
    session, sink = Session(), memory()
    async with scripted_by(layers=[Trace(sink)]) as (model, client):
        with session.lease():
            with pytest.raises(SessionInUseError):
                await generate(client, session, "hi", model="m")
            assert session.in_use
    assert (session.messages, model.requests, sink.events) == ((), [], ())


# --- the steps -----------------------------------------------------------------------------------


async def test_the_start_is_told_before_the_input_is_stored_and_the_model_is_asked_after() -> None:
    session = Session()
    told: list[tuple[str, int]] = []

    def tell(event: TraceEvent) -> None:
        told.append((event.type.value, len(session.messages)))

    def model(request: Request) -> str:
        told.append(("asked", len(session.messages)))
        assert session.messages == request.messages
        return "ok"

    async with scripted_by(model, layers=[Trace(function(tell))]) as (_, client):
        await generate(client, session, "hi", model="m")
    assert told[:3] == [("generation_start", 0), ("provider_start", 1), ("asked", 1)]
    assert [name for name, _ in told[3:]] == ["provider_end", "generation_end"]
    assert len(session.messages) == 2


async def test_a_run_has_an_id_that_traces_and_tools_know() -> None:
    contexts: list[ToolContext] = []
    registry, sink, session = Tools(), memory(), Session()

    @registry.tool
    def f(context: ToolContext) -> None:
        contexts.append(context)

    runs: list[str] = []
    asked = asks(call("c0"))
    async with scripted_by(asked, "ok", asked, "ok", layers=[Trace(sink)]) as (_, client):
        for _ in range(2):
            async with generate_stream(client, session, "hi", model="m", tools=registry) as run:
                await read(run)
            runs.append(run.run_id)
    assert len(set(runs)) == 2
    assert [each.run_id for each in contexts] == runs
    assert list(dict.fromkeys(event.run_id for event in sink.events)) == runs
    assert {each.session_id for each in contexts} == {event.session_id for event in sink.events} == {session.id}
    assert [each.call_id for each in contexts] == ["c0", "c0"]
    assert all(each.state is session.state for each in contexts)


async def test_each_request_has_the_system_instruction_the_whole_history_and_all_tools(tools: Tools) -> None:
    session = Session(system="s", messages=[Message.user("a"), Message.assistant("b")])
    async with scripted_by(asks(call("c0"), text="Let me see."), "ok", "well") as (model, client):
        await generate(client, session, "c", model="m", tools=tools)
        await generate(client, session, "d", model="m", tools=tools)
    history = session.messages
    assert [request.messages for request in model.requests] == [history[:3], history[:5], history[:7]]
    assert all(request.system == "s" and request.tools == tools.tools() for request in model.requests)
    assert history[2:] == (
        Message.user("c"),
        Message.assistant(Text("Let me see."), ToolCall("c0", "f", "{}")),
        Message.tool(ToolResult("c0", "done")),
        Message.assistant("ok"),
        Message.user("d"),
        Message.assistant("well"),
    )


# --- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limits", "most"), [(None, 4), (LoopLimits(parallel=6), 6)])
async def test_so_many_calls_run_at_once(limits: LoopLimits | None, most: int) -> None:
    registry = Tools()
    running = 0
    seen = 0

    @registry.tool
    async def f() -> None:
        nonlocal running, seen
        running += 1
        seen = max(seen, running)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        running -= 1

    async with scripted_by(asks(*[call(f"c{number}") for number in range(6)]), "ok") as (_, client):
        await generate(client, None, "hi", model="m", tools=registry, limits=limits)
    assert seen == most


async def test_calls_that_reach_no_function_count_and_the_model_is_told(tools: Tools) -> None:
    @tools.tool
    def add(a: int, b: int) -> int:
        return a + b

    wrong = '{"a": "x"}'
    asked = asks(call("c0", "nothing", wrong), call("c1", "add", wrong), call("c2", "f", wrong))
    async with scripted_by(asked, "ok") as (model, client):
        answer = await generate(client, None, "hi", model="m", tools=tools)
    assert answer.tool_calls == 3
    told = results(model.requests[1].messages[-1])
    assert [(result.call_id, result.is_error) for result in told] == [("c0", True), ("c1", True), ("c2", True)]
    assert told[0].content == "unknown tool: nothing"
    assert "$.a: expected an integer" in str(told[1].content)


@pytest.mark.parametrize("offered", [None, Tools()])
async def test_a_model_that_calls_where_no_tool_is_offered_is_told_so_and_goes_on(offered: Tools | None) -> None:
    async with scripted_by(asks(call("c0")), "ok") as (model, client):
        answer = await generate(client, None, "hi", model="m", tools=offered)
    assert (answer.text, answer.tool_calls) == ("ok", 1)
    assert model.requests[1].messages[-1] == Message.tool(ToolResult("c0", "unknown tool: f", True))
    assert model.requests[0].tools == ()


@pytest.mark.parametrize("way", ["another session", "the same session"])
async def test_a_tool_may_run_a_generation_that_calls_it_again(way: str) -> None:
    registry, sessions = Tools(), [Session() for _ in range(4)]
    depths, told = list[int](), list[Exception]()

    def model(request: Request) -> Completion | str:
        asked = request.messages[-1].parts[0]
        if isinstance(asked, Text) and asked.text != "stop":
            return asks(call("c", "nest", f'{{"depth": {asked.text}}}'))
        return "done"

    async with FunctionModel(model) as client:

        @registry.tool(serial=True)
        async def nest(depth: int) -> str:
            depths.append(depth)
            inner = sessions[3 if way == "the same session" else depth]
            text = str(depth - 1) if depth else "stop"
            return (await generate(client, inner, text, model="m", tools=registry)).text

        with anyio.fail_after(SECONDS):
            answer = await generate(client, sessions[3], "2", model="m", tools=registry, on_tool_error=told.append)
    (result,) = results(sessions[3].messages[2])
    if way == "another session":
        assert (depths, told, result) == ([2, 1, 0], [], ToolResult("c", "done"))
        assert [roles(session) for session in sessions] == [["u", "a"], *[["u", "a", "t", "a"]] * 3]
    else:  # a call on a session in use is a failure like any other
        assert (depths, result) == ([2], ToolResult("c", "tool 'nest' failed", is_error=True))
        assert [type(error) for error in told] == [SessionInUseError]
    assert answer.text == "done"
    for session in sessions:
        assert_at_rest(session)


async def test_what_tools_keep_in_the_session_is_neither_traced_nor_stored() -> None:
    registry, sink = Tools(), memory(content=True)
    session = Session()

    @registry.tool
    def remember(context: ToolContext) -> str:
        assert context.state is not None
        context.state.set("canary-key", "canary-value")
        return "kept"

    async with scripted_by(asks(call("c", "remember")), "ok", layers=[Trace(sink, capture=True)]) as (_, client):
        await generate(client, session, "hi", model="m", tools=registry)
    told = repr([event.document() for event in sink.events])
    assert session.state.get("canary-key", str) == "canary-value"
    assert "kept" in told
    for text in (told, repr(sink.events), session.dumps().decode(), repr(session)):
        assert "canary" not in text

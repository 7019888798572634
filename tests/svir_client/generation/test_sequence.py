"""One generation, step by step, as its driver does it: 51 sections 1.1 to 1.7 and 1.10, as 50 changes them."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import (
    Capability,
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
    FinishReason,
    Image,
    LoopLimits,
    Message,
    Opaque,
    ProtocolError,
    Reasoning,
    Request,
    ServerError,
    SessionInUseError,
    SvirError,
    Text,
    ToolCall,
    ToolResult,
    UnsupportedError,
    Usage,
)
from tests.svir_client.chat import SECONDS
from tests.svir_client.generation.script import Script
from tests.svir_client.layers.calls import scripted

pytestmark = pytest.mark.anyio

PNG = Image.data(b"\x89PNG", "image/png")
SEEING = ModelDescriptor("m", capabilities={*Capability} - {Capability.TOOLS})
BLIND = ModelDescriptor("m", capabilities={Capability.TEXT_INPUT, Capability.TOOLS})


def asks(*names: str, arguments: str = "{}", usage: Usage | None = None, text: str = "") -> Completion:
    """An answer with a call of each tool; their ids count from 0."""
    calls = [ToolCall(f"c{number}", name, arguments) for number, name in enumerate(names)]
    return Completion(FinishReason.TOOL_CALLS, (*([Text(text)] if text else []), *calls), usage=usage)


@pytest.fixture
def tools() -> Tools:
    registry = Tools()

    @registry.tool
    def f() -> str:
        return "seen"

    @registry.tool
    def add(a: int, b: int) -> int:
        return a + b

    return registry


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
    model, session = Script("ok"), Session()
    with anyio.fail_after(SECONDS):
        async with FunctionModel(model) as client:
            answer = await generate(client, session, given, model="m")
    assert model.requests[0].messages == (message,)
    assert session.messages == answer.messages == (message, Message.assistant("ok"))


async def test_without_a_session_nobody_keeps_the_conversation() -> None:
    model = Script("ok", "ok")
    seen: list[str | None] = []
    with anyio.fail_after(SECONDS):
        async with FunctionModel(
            model, layers=[Trace(function(lambda event: seen.append(event.session_id)))]
        ) as client:
            for _ in range(2):
                await generate(client, None, "hi", model="m")
    assert [request.messages for request in model.requests] == [(Message.user("hi"),)] * 2
    assert len(set(seen)) == 2


async def test_settings_of_a_generation_are_those_of_its_requests(tools: Tools) -> None:
    model = Script(asks("f"), "ok")
    misspelt: dict[str, Any] = {"tempature": 1}
    settings: dict[str, Any] = {"temperature": 0.5, "max_tokens": 9, "seed": 7, "stop": ["x"], "extra": {"top_k": 3}}
    with anyio.fail_after(SECONDS):
        async with FunctionModel(model) as client:
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
    "tools without the capability": ("hi", {"model": SEEING, "tools": Tools()}, UnsupportedError, "tools"),
    "a model of another API": ("hi", {"model": ModelDescriptor("m", api="gemini")}, ConfigError, "gemini"),
    "no toolbox": ("hi", {"tools": [1]}, ConfigError, "not a Toolbox"),
    "no limits": ("hi", {"limits": 5}, ConfigError, "limits"),
    "a model without a name": ("hi", {"model": ""}, ConfigError, "model is empty"),
    "an async listener": ("hi", {"on_tool_error": anyio.sleep}, ConfigError, "on_tool_error must be .* not async"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_refused_is_not_stored_not_sent_and_not_traced(what: str) -> None:
    given, options, error, words = REFUSED[what]
    if isinstance(options.get("tools"), Tools):
        options["tools"].add(lambda: 1, name=f"f{len(options['tools'].tools())}")
    asked: dict[str, Any] = {"model": "m", **options}
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
    session, model, sink = Session(), Script(), memory()
    with anyio.fail_after(SECONDS):
        async with FunctionModel(model, layers=[Trace(sink)]) as client:
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

    with anyio.fail_after(SECONDS):
        async with FunctionModel(model, layers=[Trace(function(tell))]) as client:
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
    with anyio.fail_after(SECONDS):
        async with FunctionModel(Script(asks("f"), "ok", asks("f"), "ok"), layers=[Trace(sink)]) as client:
            for _ in range(2):
                async with generate_stream(client, session, "hi", model="m", tools=registry) as run:
                    async for _ in run:
                        pass
                runs.append(run.run_id)
    assert len(set(runs)) == 2
    assert [each.run_id for each in contexts] == runs
    assert list(dict.fromkeys(event.run_id for event in sink.events)) == runs
    assert {each.session_id for each in contexts} == {event.session_id for event in sink.events} == {session.id}
    assert [each.call_id for each in contexts] == ["c0", "c0"]
    assert all(each.state is session.state for each in contexts)


async def test_each_request_has_the_system_instruction_the_whole_history_and_all_tools(tools: Tools) -> None:
    model = Script(asks("f", text="Let me see."), "ok", "well")
    session = Session(system="s", messages=[Message.user("a"), Message.assistant("b")])
    with anyio.fail_after(SECONDS):
        async with FunctionModel(model) as client:
            await generate(client, session, "c", model="m", tools=tools)
            await generate(client, session, "d", model="m", tools=tools)
    history = session.messages
    assert [request.messages for request in model.requests] == [history[:3], history[:5], history[:7]]
    assert all(request.system == "s" and request.tools == tools.tools() for request in model.requests)
    assert history[2:] == (
        Message.user("c"),
        Message.assistant(Text("Let me see."), ToolCall("c0", "f", "{}")),
        Message.tool(ToolResult("c0", "seen")),
        Message.assistant("ok"),
        Message.user("d"),
        Message.assistant("well"),
    )


async def test_what_a_generation_came_to(tools: Tools) -> None:
    first, last = Usage(1, 2, 3, 4, 5, 6), Usage(10, 20, None, 0, 50, 60)
    ended = Completion(FinishReason.LENGTH, (Text("ok"),), usage=last, model="m-2", id="r")
    session = Session(messages=[Message.user("a"), Message.assistant("b")])
    with anyio.fail_after(SECONDS):
        async with FunctionModel(Script(asks("f", "f", usage=first), ended)) as client:
            answer = await generate(client, session, "hi", model="m", tools=tools)
    assert (answer.rounds, answer.tool_calls, answer.finish, answer.text) == (2, 2, FinishReason.LENGTH, "ok")
    assert answer.usage == Usage(11, 22, None, 4, 55, 66)
    assert (answer.completion.usage, answer.completion.model, answer.completion.id) == (last, "m-2", "r")
    assert answer.messages == session.messages[2:]


@pytest.mark.parametrize("error", [ServerError("no", status=500), ProtocolError("no")])
async def test_an_error_is_traced_and_raised_as_it_is_and_the_session_is_free(error: SvirError) -> None:
    session, sink = Session(), memory()
    with anyio.fail_after(SECONDS):
        async with FunctionModel(Script(error), layers=[Trace(sink)]) as client:
            with pytest.raises(type(error)) as caught:
                await generate(client, session, "hi", model="m")
    assert caught.value is error
    assert error.progress is not None
    assert [event.type.value for event in sink.events][-1] == "error"
    assert not session.in_use


# --- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limits", "most"), [(None, 4), (LoopLimits(parallel=1), 1), (LoopLimits(parallel=6), 6)])
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

    with anyio.fail_after(SECONDS):
        async with FunctionModel(Script(asks(*["f"] * 6), "ok")) as client:
            await generate(client, None, "hi", model="m", tools=registry, limits=limits)
    assert seen == most


async def test_calls_that_reach_no_function_count_and_the_model_is_told(tools: Tools) -> None:
    model = Script(asks("nothing", "add", "f", arguments='{"a": "x"}'), "ok")
    with anyio.fail_after(SECONDS):
        async with FunctionModel(model) as client:
            answer = await generate(client, None, "hi", model="m", tools=tools)
    assert answer.tool_calls == 3
    results = [part for part in model.requests[1].messages[-1].parts if isinstance(part, ToolResult)]
    assert [(result.call_id, result.is_error) for result in results] == [("c0", True), ("c1", True), ("c2", True)]
    assert results[0].content == "unknown tool: nothing"
    assert "$.a: expected an integer" in str(results[1].content)


@pytest.mark.parametrize("offered", [None, Tools()])
async def test_a_model_that_calls_where_no_tool_is_offered_is_told_so_and_goes_on(offered: Tools | None) -> None:
    model = Script(asks("f"), "ok")
    with anyio.fail_after(SECONDS):
        async with FunctionModel(model) as client:
            answer = await generate(client, None, "hi", model="m", tools=offered)
    assert (answer.text, answer.tool_calls) == ("ok", 1)
    assert model.requests[1].messages[-1] == Message.tool(ToolResult("c0", "unknown tool: f", True))
    assert model.requests[0].tools == ()


@pytest.mark.parametrize("way", ["another session", "the same session"])
async def test_a_tool_may_run_a_generation_that_calls_it_again(way: str) -> None:
    registry, session = Tools(), Session()
    depths: list[int] = []

    def model(request: Request) -> Completion | str:
        asked = request.messages[-1].parts[0]
        if isinstance(asked, Text) and asked.text != "stop":
            return asks("nest", arguments=f'{{"depth": {asked.text}}}')
        return "done"

    async with FunctionModel(model) as client:

        @registry.tool(serial=True)
        async def nest(depth: int) -> str:
            depths.append(depth)
            inner = session if way == "the same session" else None
            text = str(depth - 1) if depth else "stop"
            return (await generate(client, inner, text, model="m", tools=registry)).text

        with anyio.fail_after(SECONDS):
            answer = await generate(client, session, "2", model="m", tools=registry)
    result = session.messages[2].parts[0]
    assert isinstance(result, ToolResult)
    if way == "another session":
        assert (depths, result.content, result.is_error) == ([2, 1, 0], "done", False)
    else:  # a call on a session in use is a failure like any other
        assert (depths, result.content, result.is_error) == ([2], "tool 'nest' failed", True)
    assert answer.text == "done"


async def test_what_tools_keep_in_the_session_is_neither_traced_nor_stored() -> None:
    registry, sink = Tools(), memory(content=True)
    session = Session()

    @registry.tool
    def remember(context: ToolContext) -> str:
        assert context.state is not None
        context.state.set("canary-key", "canary-value")
        return "kept"

    with anyio.fail_after(SECONDS):
        async with FunctionModel(Script(asks("remember"), "ok"), layers=[Trace(sink, capture=True)]) as client:
            await generate(client, session, "hi", model="m", tools=registry)
    told = repr([event.document() for event in sink.events])
    assert session.state.get("canary-key", str) == "canary-value"
    assert "kept" in told
    for text in (told, repr(sink.events), session.dumps().decode(), repr(session)):
        assert "canary" not in text

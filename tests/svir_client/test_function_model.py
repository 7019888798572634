"""A function as a model: every form of answer, and events as they were given."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import AsyncGenerator, Iterator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client import FunctionModel
from svir_client.function_model import ModelFunction
from svir_client.function_model.wire import EventDecoder, Told, encode_event
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Image, Opaque, Part, Reasoning, Text, TextFile, ToolCall
from svir_core.request import Request, Tool, ToolChoice
from svir_core.response import Completion, Timing, Usage
from tests.svir_client.chat import REQUEST, SECONDS
from tests.svir_client.functions import (
    EVENTS,
    FUNCTIONS,
    HELLO,
    WHOLE,
    async_generator,
    blocking,
    events_of,
    generator,
    of_completion,
    of_list,
    raised,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("form", FUNCTIONS)
async def test_every_form_of_answer(form: str) -> None:
    with anyio.fail_after(SECONDS):
        async with FunctionModel(FUNCTIONS[form]) as client:
            answer = await client.complete(REQUEST)
            *deltas, last = await events_of(client)
    assert answer.text == "Hello"
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "Hello"
    assert last == Completed(answer)


async def test_a_completion_has_a_delta_for_each_part() -> None:
    parts: list[Part] = [
        Reasoning("thought", "hm"),
        Text("Let me see."),
        Opaque("any", "{}"),
        ToolCall("c1", "f", "{}"),
        Text(""),
    ]
    completion = Completion("tool_calls", [*parts, ToolCall("c2", "g", '{"a":1}')])
    assert await events_of(FunctionModel(lambda request: completion)) == [
        ReasoningDelta("thought", "hm"),
        TextDelta("Let me see."),
        ToolCallDelta(0, "c1", "f", "{}"),
        TextDelta(""),
        ToolCallDelta(1, "c2", "g", '{"a":1}'),
        Completed(completion),
    ]


async def test_an_empty_text_is_an_answer_without_parts() -> None:
    assert await events_of(FunctionModel(lambda request: "")) == [Completed(Completion("stop"))]


async def test_usage_and_timing_are_the_functions() -> None:
    answer = await FunctionModel(of_completion).complete(REQUEST)
    assert answer == HELLO
    assert answer.timing == HELLO.timing
    assert answer.tokens_per_second == 1.0


async def test_a_timing_that_is_not_given_is_measured() -> None:
    pieces: list[Event] = [TextDelta(""), TextDelta("a"), ReasoningDelta("thought", "b"), Completed(Completion("stop"))]
    timing = (await FunctionModel(lambda request: pieces).complete(REQUEST)).timing
    assert timing is not None
    assert timing.visible == 2
    assert timing.first is not None
    assert timing.last is not None
    assert 0 <= timing.first <= timing.last <= timing.end


async def test_the_request_comes_as_it_is(tmp_path: pathlib.Path) -> None:
    """Nothing is converted, filled in or read: not a file that is not there, nor a value that is not JSON."""
    value = object()
    request = Request(
        "mine",
        system="Be brief.",
        tools=[Tool("f", "does", {"type": "object"}, extra={"strict": value})],
        tool_choice=ToolChoice.tool("f"),
        temperature=0.5,
        stop=("x",),
        seed=2**70,
        extra={"value": value, "pair": (1, 2)},
    ).user("\ud800", Image.path(tmp_path / "missing.png"), TextFile.path(tmp_path / "missing.txt"))
    asked: list[Request] = []

    async def model(request: Request) -> str:
        asked.append(request)
        return "yes"

    client = FunctionModel(model)
    await client.check(request)
    await client.complete(request)
    assert asked == [request]
    assert asked[0].extra["value"] is value
    assert asked[0].include_usage is None


EVENT = st.one_of(
    st.builds(TextDelta, st.text()),
    st.builds(ReasoningDelta, st.text(), st.text()),
    st.builds(ToolCallDelta, st.integers(0, 3), st.none() | st.text(), st.none() | st.text(), st.none() | st.text()),
)
USAGE = st.builds(Usage, *[st.none() | st.integers(0, 2**40)] * 6)
PART = st.one_of(
    st.builds(Text, st.text()),
    st.builds(Reasoning, st.text(), st.text()),
    st.builds(ToolCall, st.text(), st.text(), st.text(), st.just(False)),
    st.builds(ToolCall, st.text(), st.text(), st.sampled_from(["", "{}", '{"a": 1}'])),
)
TIMING = st.builds(Timing, st.none(), st.none(), st.floats(0, 100), st.integers(0, 9))
COMPLETION = st.builds(Completion, st.sampled_from(["stop", "length"]), st.lists(PART), st.none() | USAGE, TIMING)


@given(events=st.lists(EVENT), completion=COMPLETION)
def test_any_events_come_as_they_were_given(events: list[Event], completion: Completion) -> None:
    async def given_events() -> list[Event]:
        return await events_of(FunctionModel(lambda request: [*events, Completed(completion)]))

    *given_back, last = anyio.run(given_events)
    assert given_back == events
    assert last == Completed(completion)
    assert isinstance(last, Completed)
    assert last.completion.timing == completion.timing


@given(events=st.lists(EVENT), completion=COMPLETION, data=st.data())
def test_cut_anywhere_the_events_are_the_same(events: list[Event], completion: Completion, data: st.DataObject) -> None:
    whole = b"".join(map(encode_event, [*events, Completed(completion)]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    decoder = EventDecoder(Told(), lambda: 0.0)
    read: list[Event] = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        read += decoder.push(whole[start:end])
    assert read == [*events, Completed(completion)]
    assert not decoder.finish()
    assert decoder.result() == completion


@given(st.binary() | st.sampled_from([b'{"type":"usage"}', b"{}", b"[]", b'{"type":"text_delta","text":1}']))
def test_what_is_no_event_is_a_protocol_error(payload: bytes) -> None:
    decoder = EventDecoder(Told(), lambda: 0.0)
    error = decoder.push(b"data: " + payload + b"\n\n").error or decoder.finish().error
    assert error is not None
    assert error is decoder.error


async def test_text_that_is_no_unicode_is_sanitised_as_it_is_when_it_is_sent() -> None:
    assert (await FunctionModel(lambda request: "a\ud800").complete(REQUEST)).text == "a\ufffd"


async def test_an_answer_may_be_long() -> None:
    long = "x" * 2**20
    assert (await FunctionModel(lambda request: long).complete(REQUEST)).text == long


async def test_only_what_may_block_has_a_thread() -> None:
    threads: dict[str, int] = {}

    def note(where: str) -> None:
        threads[where] = threading.get_ident()

    class Listed(list[Event]):
        def __iter__(self) -> Iterator[Event]:
            note("sequence")
            yield from super().__iter__()

    def stepped(request: Request) -> Iterator[Event]:
        note("generator")
        yield WHOLE

    async def awaited(request: Request) -> AsyncGenerator[Event]:
        note("async generator")
        yield WHOLE

    def called(request: Request) -> list[Event]:
        note("function")
        return Listed(EVENTS)

    async def task(request: Request) -> str:
        note("async function")
        return "Hello"

    functions: tuple[ModelFunction, ...] = (stepped, awaited, called, task)
    for function in functions:
        await FunctionModel(function).complete(REQUEST)
    here = {where for where, thread in threads.items() if thread == threading.get_ident()}
    assert here == {"sequence", "async generator", "async function"}
    assert threads.keys() - here == {"generator", "function"}


async def test_what_is_async_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("no thread can be started")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    without: tuple[ModelFunction, ...] = (async_generator, of_completion, of_list)
    for function in without:
        assert await FunctionModel(function).complete(REQUEST) == HELLO
    within: tuple[ModelFunction, ...] = (generator, blocking)
    for function in within:
        assert isinstance(await raised(FunctionModel(function).complete(REQUEST)), RuntimeError)

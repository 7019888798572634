"""A function as a model: every form of answer, what is closed and when, and all that a client does over it."""

from __future__ import annotations

import contextlib
import copy
import functools
import pathlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client import (
    AsyncClient,
    Client,
    Fallback,
    FunctionModel,
    Next,
    Retry,
    Stream,
    Timeout,
    Tools,
    Trace,
    wrap,
)
from svir_client.function_model import ModelAnswer, ModelFunction
from svir_client.function_model import transport as function_transport
from svir_client.function_model.transport import FunctionTransport
from svir_client.function_model.wire import Asked, EventDecoder, FunctionApi, Told, encode_event
from svir_client.generation import generate
from svir_client.models import ModelDescriptor
from svir_client.testing import Reply, ScriptedTransport, cancelled_at_every_await
from svir_client.tracing import Outcome, ProviderEnd, memory
from svir_core.body import Body
from svir_core.errors import (
    ConfigError,
    RateLimitedError,
    ResponseTimeoutError,
    ServerError,
    SvirError,
    TransportError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.event import Completed, Event, Events, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.http_message import HttpRequest
from svir_core.message import Image, Message, Opaque, Part, Reasoning, Text, TextFile, ToolCall, ToolResult
from svir_core.request import Request, Schema, Tool, ToolChoice
from svir_core.response import Completion, Partial, Timing, Usage
from svir_core.secret import Secret
from svir_core.wire.api import Api, CodecOptions, Compat
from tests.svir_client.chat import REQUEST, SECONDS, until

pytestmark = pytest.mark.anyio

HELLO = Completion("stop", [Text("Hello")], Usage(3, 2, 5), Timing(0.5, 1.5, 2.0, 2), "mine", "answer-1")
HEL, LO, WHOLE = TextDelta("Hel"), TextDelta("lo"), Completed(HELLO)
EVENTS: list[Event] = [HEL, LO, WHOLE]


class Once:
    """An iterator of events that is no generator, and cannot be closed."""

    def __init__(self) -> None:
        self._events = iter(EVENTS)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)


class OnceAsync:
    """The same, async."""

    def __init__(self) -> None:
        self._events = iter(EVENTS)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        for event in self._events:
            return event
        raise StopAsyncIteration


async def of_completion(request: Request) -> Completion:
    return HELLO


async def of_text(request: Request) -> str:
    return "Hello"


async def of_list(request: Request) -> list[Event]:
    return list(EVENTS)


async def of_sequence(request: Request) -> Events:
    return Events(EVENTS)


async def of_generator(request: Request) -> AsyncGenerator[Event]:
    return async_generator(request)


async def of_iterator(request: Request) -> Iterator[Event]:
    return Once()


async def of_async_iterator(request: Request) -> AsyncIterator[Event]:
    return OnceAsync()


async def async_generator(request: Request) -> AsyncGenerator[Event]:
    for event in EVENTS:
        await anyio.lowlevel.checkpoint()
        yield event


def generator(request: Request) -> Iterator[Event]:
    yield from EVENTS


def blocking(request: Request) -> Completion:
    return HELLO


def blocking_then_awaited(request: Request) -> Coroutine[Any, Any, str]:
    return of_text(request)


class Callable_:
    async def __call__(self, request: Request) -> Completion:
        return HELLO


FUNCTIONS: dict[str, ModelFunction] = {
    "a completion": of_completion,
    "a text": of_text,
    "a list": of_list,
    "events": of_sequence,
    "an async generator that is returned": of_generator,
    "an iterator": of_iterator,
    "an async iterator": of_async_iterator,
    "an async generator": async_generator,
    "a generator": generator,
    "a blocking function": blocking,
    "a function that gives something to await": blocking_then_awaited,
    "an object": Callable_(),
    "a partial": functools.partial(async_generator),
    "a lambda": lambda request: HELLO,
}


async def events_of(client: AsyncClient, request: Request = REQUEST) -> list[Event]:
    async with client.stream(request) as stream:
        return [event async for event in stream]


async def raised(awaited: Awaitable[object]) -> Exception:
    """What ``awaited`` raises, whatever it is."""
    try:
        await awaited
    except Exception as error:  # noqa: BLE001 - the caller judges it
        return error
    pytest.fail("nothing was raised")


# --- answers -------------------------------------------------------------------------------------


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
    st.builds(ToolCall, st.text(), st.text(), st.text()),
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


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [[], [HEL, LO], [ToolCallDelta(0, "c", "f", "{}")]])
async def test_events_that_end_too_soon_are_truncated(events: list[Event]) -> None:
    error = await raised(FunctionModel(lambda request: events).complete(REQUEST))
    assert isinstance(error, TruncatedStreamError)
    assert error.partial is not None
    assert error.partial.text == "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("answer", [None, 7, b"Hello", Request("m"), ["Hello"], [HEL, HELLO], {"a": 1}])
async def test_what_is_no_answer_is_a_config_error(answer: Any) -> None:
    client = FunctionModel(lambda request: answer)
    error = await raised(client.complete(REQUEST))
    assert isinstance(error, ConfigError)
    if isinstance(answer, list) and answer[0] == HEL:
        assert error.partial == Partial((Text("Hel"),))


async def test_what_has_no_json_form_is_a_config_error_that_says_where() -> None:
    completion = Completion("stop", extra={"key": object()})
    with pytest.raises(ConfigError, match=r"\$\.completion\.extra\.key"):
        await FunctionModel(lambda request: completion).complete(REQUEST)


class Mine(TransportError):
    """An error of the caller's own."""


RAISED = [
    RateLimitedError("slow down", retry_after=2.0, status=429, server_message="wait"),
    TransportError("refused", unsent=True),
    Mine("mine", retryable=False),
    TransportError("cut", partial=Partial((Text("else"),))),
    ConfigError("wrong"),
    ServerError("no", partial=Partial((Text("else"),))),
    ResponseTimeoutError("late"),
    KeyError("x"),
    TimeoutError(),
    ExceptionGroup("several", [ValueError("a")]),
]


@pytest.mark.parametrize("error", RAISED, ids=repr)
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("step", ["call", "first", "later"])
async def test_what_the_function_raises_is_raised_as_it_is(error: Exception, blocks: bool, step: str) -> None:
    error = copy.copy(error)
    own = error.partial if isinstance(error, SvirError) else None

    async def call(request: Request) -> ModelAnswer:
        raise error

    async def events(request: Request) -> AsyncGenerator[Event]:
        if step == "later":
            yield HEL
        raise error

    def blocking_call(request: Request) -> ModelAnswer:
        raise error

    def blocking_events(request: Request) -> Iterator[Event]:
        if step == "later":
            yield HEL
        raise error

    functions: dict[bool, tuple[ModelFunction, ModelFunction]] = {
        False: (call, events),
        True: (blocking_call, blocking_events),
    }
    client = FunctionModel(functions[blocks][step != "call"])
    got: list[Event] = []
    stream = client.stream(REQUEST)

    async def read() -> None:
        async with stream:
            got.append(await anext(stream))
            await anext(stream)

    with anyio.fail_after(SECONDS):
        assert await raised(read()) is error
    assert got == ([HEL] if step == "later" else [])
    assert error.__cause__ is None
    if isinstance(error, SvirError):
        assert error.partial == own or (own is None and error.partial == Partial((Text("Hel"),)))
        with anyio.fail_after(SECONDS):
            assert await raised(send(client)) is error


async def test_an_error_is_raised_again_by_a_stream_that_is_read_on() -> None:
    error = TransportError("cut")
    async with FunctionModel(lambda request: Events([HEL], error)).stream(REQUEST) as stream:
        assert await anext(stream) == HEL
        for _ in range(2):
            assert await raised(anext(stream)) is error
        assert stream.error is error


@pytest.mark.parametrize("call", ["stream", "send"])
async def test_what_is_no_error_of_svirs_ends_the_answer_too(call: str) -> None:
    async def model(request: Request) -> AsyncGenerator[Event]:
        yield HEL
        raise KeyError("x")

    client = FunctionModel(model)
    async with client.stream(REQUEST) if call == "stream" else client.send(REQUEST) as response:
        await anext(response)
        assert isinstance(await raised(anext(response)), KeyError)
        for _ in range(2):
            with pytest.raises(ConfigError, match=r"an earlier read of the .* raised KeyError, which ended it"):
                await anext(response)


async def test_a_function_that_is_none_is_refused() -> None:
    for wrong in (None, "model", 7):
        with pytest.raises(ConfigError, match="function must be callable"):
            FunctionModel(wrong)  # type: ignore[arg-type]  # what a caller without a checker may give


async def test_a_server_is_not_to_be_had() -> None:
    key = "sk-1234567890"
    ways: list[Callable[[], object]] = [
        lambda: FunctionModel.openai("http://127.0.0.1:1", api_key=key),
        lambda: FunctionModel.anthropic(api_key=key),
        lambda: FunctionModel.of(FunctionApi(), "http://127.0.0.1:1", api_key=Secret(key)),
    ]
    for make in ways:
        with pytest.raises(ConfigError, match="has no server"):
            make()
    client = FunctionModel(of_text)
    assert isinstance(await raised(client.list_models()), UnsupportedError)
    assert isinstance(await raised(client.count_tokens(REQUEST)), UnsupportedError)
    assert repr(client) == "<FunctionModel function open>"


async def test_what_no_server_does_is_unsupported() -> None:
    api: Api = FunctionApi()
    assert api.key_headers(Secret("sk-1234567890")) == ()
    assert api.optional_fields(REQUEST) == frozenset()
    assert api.alternatives(REQUEST) == ()
    for ask in (
        lambda: api.server,
        lambda: api.models(b"{}"),
        lambda: api.count(b"{}"),
        lambda: api.encode_count(REQUEST, CodecOptions(), Compat()),
    ):
        with pytest.raises(UnsupportedError):
            ask()


def http_request(body: Body | None) -> HttpRequest:
    return HttpRequest("POST", "http", "localhost", 80, "/", (("host", "localhost"),), body)


async def test_its_transport_takes_no_other_requests_and_none_when_it_is_closed() -> None:
    transport = FunctionTransport(of_text)
    with pytest.raises(ConfigError, match="alone"):
        await transport.open(http_request(None), None)
    await transport.aclose()
    with pytest.raises(ConfigError, match="closed"):
        await transport.open(http_request(Asked((), REQUEST, Told())), None)


async def test_a_response_says_whether_it_is_complete() -> None:
    response = await FunctionTransport(of_list).open(http_request(Asked((), REQUEST, Told())), None)
    read: list[tuple[bytes, bool]] = [(data, response.complete) async for data in response]
    assert read == [(encode_event(HEL), False), (encode_event(LO), False), (encode_event(WHOLE), True)]
    await response.aclose()
    assert response.complete


def test_a_body_that_is_no_stream_is_unsupported() -> None:
    decoder = EventDecoder(Told(), lambda: 0.0)
    assert isinstance(decoder.push(b'{"type":"text_delta","text":"a"}').error, UnsupportedError)


async def test_a_wrong_header_or_request_is_refused_before_the_function_is_asked() -> None:
    asked: list[Request] = []
    client = FunctionModel(asked.append)  # type: ignore[arg-type]  # it is never called
    assert isinstance(await raised(client.complete(REQUEST, headers={"a\n": "b"})), ConfigError)
    assert isinstance(await raised(client.check(REQUEST, headers={"a\n": "b"})), ConfigError)
    assert isinstance(await raised(client.complete("hi")), ConfigError)  # type: ignore[arg-type]  # as above
    await client.aclose()
    assert isinstance(await raised(client.complete(REQUEST)), ConfigError)
    assert asked == []
    with pytest.raises(ConfigError):
        FunctionModel(of_text, idle_timeout=0)


# --- what is closed, and when --------------------------------------------------------------------


class Spied:
    """An endless answer, by an async generator or one of a thread, that tells how far it is."""

    def __init__(self) -> None:
        self.given = 0
        self.closed = 0
        self.ended = threading.Event()

    async def awaited(self, request: Request) -> AsyncGenerator[Event]:
        try:
            while True:
                await anyio.lowlevel.checkpoint()
                self.given += 1
                yield TextDelta("a")
        finally:
            await anyio.lowlevel.checkpoint()  # a cleanup may wait, in a call that was cancelled too
            self.closed += 1
            self.ended.set()

    def stepped(self, request: Request) -> Iterator[Event]:
        try:
            while True:
                self.given += 1
                yield TextDelta("a")
        finally:
            self.closed += 1
            self.ended.set()


@pytest.mark.parametrize("way", ["awaited", "stepped"])
@pytest.mark.parametrize("call", ["stream", "send", "text"])
async def test_leaving_the_block_closes_the_answer_at_once(way: str, call: str) -> None:
    spied = Spied()
    client = FunctionModel(getattr(spied, way))
    with anyio.fail_after(SECONDS):
        async with client.send(REQUEST) if call == "send" else client.stream(REQUEST) as response:
            async for _ in response.text() if call == "text" and isinstance(response, Stream) else response:
                if spied.given >= 3:
                    break
            assert spied.closed == 0
    assert (spied.given, spied.closed) == (3, 1)


@pytest.mark.parametrize("way", ["awaited", "stepped"])
async def test_a_function_is_never_ahead_of_its_reader(way: str) -> None:
    spied = Spied()
    with anyio.fail_after(SECONDS):
        async with FunctionModel(getattr(spied, way)).stream(REQUEST) as stream:
            for number in range(1, 5):
                await anext(stream)
                assert spied.given == number


async def test_after_the_answer_no_more_is_asked_for() -> None:
    steps: list[str] = []

    async def model(request: Request) -> AsyncGenerator[Event]:
        try:
            yield WHOLE
            steps.append("asked for more")
        finally:
            steps.append("closed")

    assert await FunctionModel(model).complete(REQUEST) == HELLO
    assert steps == ["closed"]


async def test_what_a_cleanup_raises_is_raised() -> None:
    async def model(request: Request) -> AsyncGenerator[Event]:
        try:
            yield HEL
        finally:
            raise KeyError("cleanup")

    with pytest.raises(KeyError, match="cleanup"):
        async with FunctionModel(model).stream(REQUEST) as stream:
            await anext(stream)


async def test_a_cleanup_has_one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_transport, "CLOSE_SECONDS", 0.01)
    ended: list[str] = []

    async def model(request: Request) -> AsyncGenerator[Event]:
        try:
            yield HEL
        finally:
            try:
                await anyio.sleep_forever()
            finally:
                ended.append("cut")

    with anyio.fail_after(SECONDS):
        async with FunctionModel(model).stream(REQUEST) as stream:
            await anext(stream)
    assert ended == ["cut"]


async def forever(request: Request) -> AsyncGenerator[Event]:
    yield HEL
    await anyio.sleep_forever()


async def never(request: Request) -> str:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize("whole", [True, False])
async def test_silence_is_a_timeout(whole: bool) -> None:
    client = FunctionModel(never if whole else forever, idle_timeout=0.01)
    with anyio.fail_after(SECONDS), pytest.raises(ResponseTimeoutError, match=r"for 0\.01 s") as caught:
        await client.complete(REQUEST)
    assert caught.value.partial == (None if whole else Partial((Text("Hel"),)))
    with anyio.fail_after(SECONDS), pytest.raises(ResponseTimeoutError, match=r"for 0\.02 s"):
        await FunctionModel(never if whole else forever).complete(REQUEST, idle_timeout=0.02)


@pytest.mark.parametrize("waiting", [True, False])
@pytest.mark.parametrize("by", ["stream", "client"])
async def test_who_reads_what_is_closed_is_told_so(by: str, waiting: bool) -> None:
    closed: list[str] = []

    async def model(request: Request) -> AsyncGenerator[Event]:
        try:
            yield HEL
            await anyio.sleep_forever()
        finally:
            closed.append("closed")

    client = FunctionModel(model)
    with anyio.fail_after(SECONDS):
        async with client.stream(REQUEST) as stream:
            await anext(stream)

            async def read() -> None:
                with pytest.raises(ConfigError, match="closed"):
                    await anext(stream)

            async with anyio.create_task_group() as group:
                if waiting:
                    group.start_soon(read)
                    await anyio.wait_all_tasks_blocked()
                await (stream.aclose() if by == "stream" else client.aclose())
                if not waiting:
                    await read()
    assert closed == ["closed"]


async def test_a_client_that_is_closed_ends_a_call_that_waits_for_its_function() -> None:
    client = FunctionModel(never)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:

            async def call() -> None:
                with pytest.raises(ConfigError, match="closed"):
                    await client.complete(REQUEST)

            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            await client.aclose()


@pytest.mark.parametrize("step", ["call", "events"])
async def test_a_function_may_close_its_own_client(step: str) -> None:
    async def call(request: Request) -> str:
        await client.aclose()
        return "Hello"

    async def events(request: Request) -> AsyncGenerator[Event]:
        yield HEL
        await client.aclose()
        yield LO

    client = FunctionModel(call if step == "call" else events)
    with anyio.fail_after(SECONDS), pytest.raises(ConfigError, match="closed"):
        await client.complete(REQUEST)


async def test_a_call_of_another_event_loop_is_left_alone() -> None:
    client = FunctionModel(forever)
    read = threading.Event()
    closed = threading.Event()

    async def elsewhere() -> None:
        async with client.stream(REQUEST) as stream:
            await anext(stream)
            read.set()
            closed.wait(SECONDS)
            with anyio.move_on_after(0.01) as scope:
                await anext(stream)
            assert scope.cancelled_caught  # it waited, and was told nothing

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, functools.partial(anyio.run, elsewhere))
            await anyio.to_thread.run_sync(read.wait, SECONDS)
            await client.aclose()
            closed.set()


async def test_a_step_that_blocks_is_abandoned_and_the_answer_closed_after_it() -> None:
    go = threading.Event()
    closed = threading.Event()
    steps: list[str] = []

    def model(request: Request) -> Iterator[Event]:
        try:
            yield HEL
            steps.append("blocks")
            go.wait(SECONDS)
            yield LO
            steps.append("asked for more")
        finally:
            closed.set()

    with anyio.fail_after(SECONDS):
        async with FunctionModel(model).stream(REQUEST) as stream:
            await anext(stream)
            async with anyio.create_task_group() as group:

                async def read() -> None:
                    await anext(stream)

                group.start_soon(read)
                await until(lambda: bool(steps))
                group.cancel_scope.cancel()
        assert not closed.is_set()
        go.set()
        assert await anyio.to_thread.run_sync(closed.wait, SECONDS)
    assert steps == ["blocks"]


async def stream_all(client: AsyncClient) -> None:
    await events_of(client)


async def complete(client: AsyncClient) -> None:
    await client.complete(REQUEST)


async def send(client: AsyncClient) -> None:
    async with client.send(REQUEST) as raw:
        async for _ in raw:
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("call", [stream_all, complete, send])
@pytest.mark.parametrize("way", ["awaited", "stepped", "called", "blocking"])
async def test_cancelled_at_any_await(way: str, call: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    """Whatever the function gave is closed, once, and no response is left open."""
    begun: list[None] = []
    ended: list[None] = []

    async def awaited(request: Request) -> AsyncGenerator[Event]:
        begun.append(None)
        try:
            for event in EVENTS:
                await anyio.lowlevel.checkpoint()
                yield event
        finally:
            try:
                await anyio.lowlevel.checkpoint()
            finally:
                ended.append(None)

    def stepped(request: Request) -> Iterator[Event]:
        begun.append(None)
        try:
            yield from EVENTS
        finally:
            ended.append(None)

    async def called(request: Request) -> Completion:
        begun.append(None)
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            ended.append(None)
        return HELLO

    def blocking(request: Request) -> Completion:
        begun.append(None)
        ended.append(None)
        return HELLO

    functions: dict[str, ModelFunction] = {
        "awaited": awaited,
        "stepped": stepped,
        "called": called,
        "blocking": blocking,
    }

    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        begun.clear()
        ended.clear()
        with anyio.fail_after(SECONDS):
            async with FunctionModel(functions[way]) as client:
                yield call(client)
                await until(lambda: len(begun) == len(ended))  # a thread that was left ends by itself
            assert len(begun) <= 1

    assert await cancelled_at_every_await(attempt) >= 2


# --- what a client does over it ------------------------------------------------------------------


async def test_calls_overlap_and_nest() -> None:
    inside = 0
    most = 0
    all_in = anyio.Event()

    async def model(request: Request) -> str:
        nonlocal inside, most
        if request.model == "inner":
            return "inner"
        inside += 1
        most = max(most, inside)
        if inside == 3:
            all_in.set()
        await all_in.wait()
        answer = await client.complete(request.replace(model="inner"))
        inside -= 1
        return f"outer of {answer.text}"

    client = FunctionModel(model)
    answers: list[str] = []

    async def call() -> None:
        answers.append((await client.complete(REQUEST)).text)

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(call)
    assert most == 3
    assert answers == ["outer of inner"] * 3


async def test_another_clients_answer_and_stream_are_answers() -> None:
    inner = AsyncClient.openai(
        "http://model.test", allow_http=True, transport=ScriptedTransport(Reply.text("Hel", "lo"), Reply.text("a", "b"))
    )

    async def whole(request: Request) -> Completion:
        return await inner.complete(request)

    async def relayed(request: Request) -> AsyncGenerator[Event]:
        async with inner.stream(request) as stream:
            async for event in stream:
                yield event

    assert (await FunctionModel(whole).complete(REQUEST)).text == "Hello"
    events = await events_of(FunctionModel(relayed))
    assert events[:2] == [TextDelta("a"), TextDelta("b")]
    assert isinstance(events[2], Completed)


@pytest.mark.parametrize("generates", [False, True])
async def test_retry_repeats_what_is_retryable(generates: bool) -> None:
    errors: list[SvirError] = [TransportError("a", unsent=True), RateLimitedError("b", retry_after=7), ConfigError("c")]
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def call(request: Request) -> str:
        raise errors[len(waits)]

    async def events(request: Request) -> AsyncGenerator[Event]:
        if len(waits) < len(errors):
            raise errors[len(waits)]
        yield HEL

    client = FunctionModel(events if generates else call, layers=[Retry.transient(5, sleep=sleep, random=lambda: 0.0)])
    assert await raised(client.complete(REQUEST)) is errors[2]
    assert waits == [0.5, 7]


async def test_timeout_bounds_it() -> None:
    for layer in (Timeout.first_token(0.01), Timeout.total(0.01), Timeout.idle(0.01)):
        with anyio.fail_after(SECONDS), pytest.raises(ResponseTimeoutError):
            await FunctionModel(never, layers=[layer]).complete(REQUEST)
    with anyio.fail_after(SECONDS), pytest.raises(ResponseTimeoutError) as caught:
        await FunctionModel(forever, layers=[Timeout.total(0.01)]).complete(REQUEST)
    assert caught.value.partial == Partial((Text("Hel"),))


async def test_fallback_takes_over_and_is_taken_from() -> None:
    def fails(request: Request) -> str:
        raise ServerError("down")

    assert await FunctionModel(fails, layers=[Fallback(FunctionModel(of_completion))]).complete(REQUEST) == HELLO
    server = ScriptedTransport(TransportError("refused", unsent=True))
    client = AsyncClient.openai(
        "http://model.test", allow_http=True, transport=server, layers=[Fallback(FunctionModel(of_completion))]
    )
    assert await client.complete(REQUEST) == HELLO


async def test_a_layer_changes_the_request() -> None:
    async def renamed(request: Request, next: Next) -> Stream:
        return await next(request.replace(model="other"))

    client = FunctionModel(lambda request: request.model, layers=[wrap(renamed)])
    assert (await client.complete(REQUEST)).text == "other"


async def test_trace_reports_it() -> None:
    sink = memory()
    client = FunctionModel(of_completion, layers=[Trace(sink)])
    await client.complete(REQUEST)

    def fails(request: Request) -> str:
        raise KeyError(request.model)

    with pytest.raises(KeyError):
        await FunctionModel(fails, layers=[Trace(sink)]).complete(REQUEST)
    ends = [event.attributes for event in sink.events if isinstance(event.attributes, ProviderEnd)]
    assert [end.outcome for end in ends] == [Outcome.COMPLETED, Outcome.FAILED]
    assert ends[0].api == "function"
    assert ends[0].usage == HELLO.usage
    assert ends[1].error_class == "KeyError"


@attrs.frozen
class City:
    name: str
    people: int = 0


async def test_partial_and_parse() -> None:
    pieces = ['{"name": "Os', 'lo", "peo', 'ple": 7}']
    request = REQUEST.replace(response_format=Schema.of(City))

    async def model(request: Request) -> AsyncGenerator[Event]:
        assert isinstance(request.response_format, Schema)
        for piece in pieces:
            yield TextDelta(piece)
        yield Completed(Completion("stop", [Text("".join(pieces))]))

    client = FunctionModel(model)
    async with client.stream(request) as stream:
        partial = stream.partial(City)
        states = [copy.deepcopy(partial.data) async for _ in partial]
    assert {"name": "Os"} in states
    assert partial.value == City("Oslo", 7)
    assert (await client.parse(REQUEST, City)).value == City("Oslo", 7)


async def test_a_generation_runs_over_it() -> None:
    tools = Tools()

    @tools.tool
    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    async def model(request: Request) -> AsyncGenerator[Event]:
        *_, last = request.messages
        if isinstance(result := last.parts[0], ToolResult):
            completion = Completion("stop", [Text(f"it is {result.content}")], Usage(2, 2, 4))
        else:
            completion = Completion("tool_calls", [ToolCall("c1", "double", '{"number": 21}')], Usage(1, 1, 2))
        yield Completed(completion)

    with anyio.fail_after(SECONDS):
        run = await generate(FunctionModel(model), None, "21 twice?", model="mine", tools=tools)
    assert run.completion is not None
    assert run.completion.text == "it is 42"
    assert (run.rounds, run.tool_calls, run.usage) == (2, 1, Usage(3, 3, 6))


async def test_it_stands_in_for_the_api_that_a_model_is_described_for() -> None:
    described = ModelDescriptor("mine", api="anthropic_messages")
    client = FunctionModel(of_completion, api="anthropic_messages")
    assert client.api == "anthropic_messages"
    assert (await generate(client, None, "hi", model=described)).completion == HELLO
    assert FunctionModel(of_completion).api == "function"
    with pytest.raises(ConfigError):
        FunctionModel(of_completion, api=7)  # type: ignore[arg-type]  # as above


def test_the_blocking_client_has_it_too() -> None:
    closed: list[str] = []

    def model(request: Request) -> Iterator[Event] | str:
        if request.model == "inner":
            return "Hel"
        return pieces(client.complete(request.replace(model="inner")).text)

    def pieces(first: str) -> Iterator[Event]:
        try:
            yield TextDelta(first)
            yield from EVENTS[1:]
        finally:
            closed.append("closed")

    with Client(FunctionModel(model)) as client:
        assert client.complete(REQUEST) == HELLO
        with client.stream(REQUEST) as stream:
            assert next(stream) == HEL
        assert closed == ["closed"] * 2


async def test_send_gives_the_events_in_svirs_json_form() -> None:
    async with FunctionModel(of_list).send(REQUEST) as raw:
        sent = [data async for data in raw]
    assert raw.head.get("content-type") == "text/event-stream"
    assert sent[0] == b'data: {"type":"text_delta","text":"Hel"}\n\n'
    assert len(sent) == 3


async def test_context_variables_and_the_task_are_the_callers() -> None:
    seen: list[Any] = []

    async def model(request: Request) -> str:
        seen.append(anyio.get_current_task().id)
        return "yes"

    await FunctionModel(model).complete(REQUEST)
    assert seen == [anyio.get_current_task().id]


async def test_a_message_of_every_role_is_there() -> None:
    def model(request: Request) -> str:
        return ",".join(message.role for message in request.messages)

    request = REQUEST.message(Message.assistant("a"), Message.system("b"))
    assert (await FunctionModel(model).complete(request)).text == "user,assistant,system"

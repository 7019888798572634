"""A function as a model: what it raises, and what is refused."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import anyio
import pytest

from svir_client import FunctionModel
from svir_client.function_model import ModelAnswer, ModelFunction
from svir_client.function_model.transport import FunctionTransport
from svir_client.function_model.wire import Asked, EventDecoder, FunctionApi, Told, encode_event
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
from svir_core.event import Completed, Event, Events, TextDelta, ToolCallDelta
from svir_core.http_message import HttpRequest
from svir_core.message import CachePoint, Image, Media, Opaque, Part, Text, TextFile, ToolCall, ToolResult
from svir_core.request import Request
from svir_core.response import Completion, Partial
from svir_core.secret import Secret
from svir_core.wire.api import Api, CodecOptions, Compat
from tests.svir_client.chat import REQUEST, SECONDS
from tests.svir_client.functions import HEL, HELLO, LO, WHOLE, of_list, of_text, raised, send

pytestmark = pytest.mark.anyio

PNG = Image.data(b"\x89PNG", "image/png")


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


@pytest.mark.parametrize(
    "part",
    [ToolResult("c", "x"), PNG, TextFile.data("x", "a.txt"), Media.data(b"x", "audio/wav"), CachePoint()],
    ids=lambda part: type(part).__name__,
)
@pytest.mark.parametrize("as_events", [False, True])
async def test_what_no_model_says_is_a_config_error(part: Part, as_events: bool) -> None:
    completion = Completion("stop", [Text("hi"), part])
    answer: ModelAnswer = [Completed(completion)] if as_events else completion
    with pytest.raises(ConfigError, match=rf"parts\[1\] of a model's answer is an? {type(part).__name__}"):
        await FunctionModel(lambda request: answer).complete(REQUEST)


@pytest.mark.parametrize("arguments", ["nonsense", "7", "[]", '"{}"', '{"a":', "{} {}", "null"])
@pytest.mark.parametrize("as_events", [False, True])
async def test_a_call_without_one_json_object_is_not_complete_as_from_a_server(arguments: str, as_events: bool) -> None:
    completion = Completion("tool_calls", [ToolCall("c", "f", arguments)])
    answer: ModelAnswer = [Completed(completion)] if as_events else completion
    (call,) = (await FunctionModel(lambda request: answer).complete(REQUEST)).calls
    assert call == ToolCall("c", "f", arguments, complete=False)


CALLS = [
    ToolCall("c", "f", ""),
    ToolCall("c", "f", "{}"),
    ToolCall("c", "f", ' {"a": [1]} '),
    ToolCall("c", "f", '{"a": 1}', complete=False),
    ToolCall("c", "f", "free text", opaque=Opaque("openai_responses", '{"type":"custom_tool_call"}')),
]


@pytest.mark.parametrize("call", CALLS)
async def test_every_other_call_is_as_the_function_says(call: ToolCall) -> None:
    completion = Completion("tool_calls", [call])
    assert (await FunctionModel(lambda request: completion).complete(REQUEST)).calls == (call,)


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
    wrong: Any
    for wrong in (None, "model", 7):
        with pytest.raises(ConfigError, match="function must be callable"):
            FunctionModel(wrong)


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


async def test_a_response_that_was_closed_gives_nothing_more() -> None:
    response = await FunctionTransport(of_list).open(http_request(Asked((), REQUEST, Told())), None)
    await response.aclose()
    with pytest.raises(ConfigError, match="closed"):
        await anext(response)


def test_a_body_that_is_no_stream_is_unsupported() -> None:
    decoder = EventDecoder(Told(), lambda: 0.0)
    assert isinstance(decoder.push(b'{"type":"text_delta","text":"a"}').error, UnsupportedError)


async def test_a_wrong_header_or_request_is_refused_before_the_function_is_asked() -> None:
    asked: list[Request] = []
    never_called: Any = asked.append
    client = FunctionModel(never_called)
    assert isinstance(await raised(client.complete(REQUEST, headers={"a\n": "b"})), ConfigError)
    assert isinstance(await raised(client.check(REQUEST, headers={"a\n": "b"})), ConfigError)
    assert isinstance(await raised(client.complete("hi")), ConfigError)  # type: ignore[arg-type]  # what a caller without a checker may give
    await client.aclose()
    assert isinstance(await raised(client.complete(REQUEST)), ConfigError)
    assert asked == []
    with pytest.raises(ConfigError):
        FunctionModel(of_text, idle_timeout=0)

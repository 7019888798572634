"""Anthropic's own client as an oracle: it makes of a stream what our decoder does, reads what our server half writes,
and asks where we ask.

The package is imported by name and typed ``Any``, so that the checkers do not depend on it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from svir_core.errors import AuthenticationError, ContextOverflowError, RateLimitedError, ServerError, SvirError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Opaque, Part, Reasoning, Text, ToolCall
from svir_core.request import Request
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.anthropic_messages import API, Decoder, Encoder, StreamEncoder, decode
from svir_core.wire.api import Model
from tests.svir_core.wire.anthropic_messages.streams import streams

anthropic: Any = importlib.import_module("anthropic")

ASKED: dict[str, Any] = {"model": "m", "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]}


def client(answer: Callable[[httpx2.Request], httpx2.Response]) -> Any:
    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return anthropic.Anthropic(api_key="sk-1", base_url="http://127.0.0.1:1", http_client=transport, max_retries=0)


def accumulated(data: bytes) -> Any:
    """The message that the client makes of a stream."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=data)

    # the beta client merges the deltas of blocks that the other one knows no deltas of
    with client(answer) as opened, opened.beta.messages.stream(**ASKED) as stream:
        return stream.get_final_message()


def blocks(completion: Completion) -> list[Any]:
    """The content of an answer, as our encoder sends it back."""
    request = Request("m").user("hi").assistant(completion)
    content: list[Any] = json.loads(bytes(Encoder().encode(request)))["messages"][1:]
    said: Any = content[0]["content"] if content else []
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def says(message: Any) -> list[Any]:
    """The client's blocks as JSON, without what they have by default, and those that are never sent back."""
    said = [{key: value for key, value in block.to_dict().items() if value is not None} for block in message.content]
    return [
        block
        for block in said
        if not (block["type"] == "text" and not block["text"].strip())
        and not (block["type"] == "thinking" and not block.get("signature"))
    ]


ANSWERS: dict[str, list[Part]] = {
    "text": [Text("Hi \u00e9\U0001f600\n")],
    "nothing": [],
    "calls": [Text("ok"), ToolCall("toolu_1", "f", '{"x": [1, 2.5]}'), ToolCall("toolu_2", "g", "{}")],
    "thinking": [
        Reasoning("thinking", "hm", Opaque(API.name, '{"type":"thinking","thinking":"hm","signature":"S"}')),
        Text("x"),
    ],
    "opaque": [
        Opaque(API.name, '{"type":"redacted_thinking","data":"AAA"}'),
        Opaque(API.name, '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"q":"x"}}'),
        Text("x"),
    ],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_client_reads_a_whole_answer_as_we_do(name: str) -> None:
    parts = ANSWERS[name]
    finish = FinishReason.TOOL_CALLS if any(isinstance(part, ToolCall) for part in parts) else FinishReason.STOP
    answer = Completion(finish, parts, Usage(10, 5, cache_read=4, cache_write=1), model="m", id="msg_1")
    data = StreamEncoder("m", "msg_1").push(Completed(answer))
    message = accumulated(data)
    assert says(message) == blocks(answer)
    told = list(decode([data]))[-1]
    assert isinstance(told, Completed)
    assert (message.id, message.model, message.stop_reason) == ("msg_1", "m", told.completion.raw_finish)
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens) == (5, 5)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (4, 1)


def test_the_client_reads_deltas_as_we_do() -> None:
    events: list[Event] = [
        ReasoningDelta("thinking", "h"),
        ReasoningDelta("thinking", "m"),
        TextDelta("a"),
        TextDelta("b"),
        ToolCallDelta(0, "toolu_1", "f", '{"x"'),
        ToolCallDelta(0, None, None, ": 1}"),
    ]
    parts: list[Part] = [Reasoning("thinking", "hm"), Text("ab"), ToolCall("toolu_1", "f", '{"x": 1}')]
    writer = StreamEncoder("m", "msg_1")
    answer = Completion(FinishReason.TOOL_CALLS, parts, Usage(3, 2))
    data = b"".join(writer.push(event) for event in [*events, Completed(answer)])
    message = accumulated(data)
    assert says(message) == [
        {"type": "text", "text": "ab"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}},
    ]
    assert (message.usage.input_tokens, message.usage.output_tokens) == (3, 2)


def _good() -> dict[str, tuple[bytes, Completion]]:
    """The streams that strict mode takes whole, and what it makes of them."""
    found: dict[str, tuple[bytes, Completion]] = {}
    for name, data in streams():
        decoder = Decoder()
        decoder.push(data)
        if decoder.completion is not None and all(call.complete for call in decoder.completion.calls):
            found[name] = data, decoder.completion
    return found


GOOD = _good()
OTHERWISE = {
    "01-events/byte-order-mark": "it takes the mark for part of the first field's name",
    "01-events/nothing-after-the-stop-is-read": "it reads on after message_stop",
    "01-events/unknown-event-without-json": "it reads the data of every event as JSON",
    "02-blocks/unknown-delta-without-a-start": "it looks for the block of every delta",
    "03-calls/fragment-null": "it takes every fragment for a string",
    "03-calls/input-missing": "it leaves an input out that never came; the API demands one",
    "05-opaque/text-in-a-kept-block": "it merges deltas by the type of the block alone",
    "06-usage/no-report": "it demands a usage",
}
"""Where the client makes something else of a stream, and why."""


def _same(data: bytes, answer: Completion) -> None:
    message = accumulated(data)
    assert says(message) == blocks(answer)
    assert (message.id, message.model, message.stop_reason) == (answer.id, answer.model, answer.raw_finish)
    assert answer.usage is None or message.usage.output_tokens == answer.usage.output


def test_there_are_good_streams() -> None:
    assert len(GOOD) > 60


@pytest.mark.parametrize("name", sorted(set(GOOD) - set(OTHERWISE)))
def test_the_client_makes_of_a_stream_what_we_do(name: str) -> None:
    _same(*GOOD[name])


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_the_client_reads_otherwise_is_listed_for_a_reason(name: str) -> None:
    with pytest.raises((AssertionError, LookupError, TypeError, ValueError, AttributeError, anthropic.APIError)):
        _same(*GOOD[name])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RateLimitedError("slow"), "rate_limit_error"),
        (AuthenticationError("who"), "authentication_error"),
        (ContextOverflowError("long"), "request_too_large"),
        (ServerError("broken"), "api_error"),
    ],
)
def test_the_client_takes_our_errors_for_errors(error: SvirError, kind: str) -> None:
    writer = StreamEncoder("m", "msg_1")
    with pytest.raises(anthropic.APIStatusError) as caught:
        accumulated(writer.push(TextDelta("a")) + writer.fail(error))
    told: Any = caught.value
    assert (told.body["error"]["type"], told.body["error"]["message"]) == (kind, error.detail)


def test_the_client_reads_our_listing() -> None:
    listing = API.server.models([Model("a", "A"), Model("b")])

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == API.models_path().partition("?")[0]
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=listing)

    with client(answer) as opened:
        page = opened.models.list(limit=1000)
    assert [(model.id, model.display_name) for model in page.data] == [("a", "A"), ("b", "")]
    assert not page.has_next_page()


def test_the_client_asks_where_we_ask() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=b'{"input_tokens":32}')

    with client(answer) as opened:
        counted = opened.messages.count_tokens(model="m", messages=[{"role": "user", "content": "hi"}])
    request = Request("m").user("hi")
    assert counted.input_tokens == API.count(b'{"input_tokens":32}') == 32
    assert asked[0].url.path == API.count_path(request)
    assert json.loads(asked[0].content) == json.loads(bytes(Encoder().encode_count(request)))

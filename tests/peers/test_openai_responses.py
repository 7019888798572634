"""OpenAI's own client as an oracle: it makes of a stream what our decoder does, reads what our server half writes, and
asks where we ask.

The package is imported by name and typed ``Any``, so that the checkers do not depend on it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from svir_core.errors import ContextOverflowError, RateLimitedError, ServerError, SvirError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Opaque, Part, Reasoning, Text, ToolCall
from svir_core.request import Request
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.api import Model
from svir_core.wire.json_value import is_array, is_object
from svir_core.wire.openai_responses import API, Decoder, Encoder, StreamEncoder
from tests.svir_core.wire.openai_responses.streams import case_streams

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of items the client does not know

openai: Any = importlib.import_module("openai")

ASKED: dict[str, Any] = {"model": "m", "input": "hi"}


def client(answer: Callable[[httpx2.Request], httpx2.Response]) -> Any:
    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="sk-1", base_url="http://127.0.0.1:1/v1", http_client=transport, max_retries=0)


def streaming(data: bytes) -> Callable[[httpx2.Request], httpx2.Response]:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=data)

    return answer


def accumulated(data: bytes) -> Any:
    """The response that the client makes of a stream: its helper checks the order and the identity of items."""
    with client(streaming(data)) as opened, opened.responses.stream(**ASKED) as stream:
        return stream.get_final_response()


def events_of(data: bytes) -> list[Any]:
    """The events that the client reads of a stream."""
    with client(streaming(data)) as opened, opened.responses.create(stream=True, **ASKED) as stream:
        return list(stream)


def _bare(value: Any) -> Any:
    """JSON without what the client adds, and what it leaves out when it is null."""
    if is_object(value):
        return {key: _bare(item) for key, item in value.items() if item is not None and not key.startswith("parsed")}
    return [_bare(item) for item in value] if is_array(value) else value


def output(response: Any) -> Any:
    """The items of the client's response."""
    return _bare([item.to_dict(warnings=False) for item in response.output])


def items(completion: Completion) -> Any:
    """The items of an answer, as our encoder sends them back."""
    return _bare(json.loads(bytes(Encoder().encode(Request("m").user("hi").assistant(completion))))["input"][1:])


# --- the client and our decoder ----------------------------------------------------------------------------


def _good() -> dict[str, tuple[bytes, Completion]]:
    """The streams that strict mode takes whole and calls completed, and what it makes of them."""
    found: dict[str, tuple[bytes, Completion]] = {}
    for name, data in case_streams():
        decoder = Decoder()
        decoder.push(data)
        if decoder.completion is not None and decoder.completion.raw_finish == "completed":
            found[name] = data, decoder.completion
    return found


GOOD = _good()
OTHERWISE = {
    "00-tricky/r03-encrypted-reasoning": "it keeps the copy in the final response, we the item as it ended",
    "01-events/done-word-before-the-end": "it stops at [DONE]",
    "01-events/id-comes-late": "it takes an empty id for an id",
    "01-events/keepalives": "it reads the data of every event as JSON",
    "02-texts/final-output-empty": "it keeps the final response, though items were streamed",
    "03-calls/ids-come-late": "it takes an empty call_id for an id",
    "03-calls/more-calls-than-the-limit": "it keeps the final response, though items were streamed",
    "04-reasoning/hidden": "it keeps the copy in the final response, we the item as it ended",
    "04-reasoning/kept-exactly": "it keeps the final response, though items were streamed",
    "06-ends/status-missing": "it makes up no status",
}
"""Where the client makes something else of a stream, and why."""


def _same(data: bytes, answer: Completion) -> None:
    response = accumulated(data)
    assert output(response) == items(answer)
    assert (response.id, response.model, response.status) == (answer.id, answer.model, "completed")
    assert response.output_text == "".join(
        part["text"] for item in items(answer) for part in item.get("content", ()) if part["type"] == "output_text"
    )
    if answer.usage is None:
        assert response.usage is None
    else:
        told = (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens)
        assert told == (answer.usage.input, answer.usage.output, answer.usage.total)


def test_there_are_good_streams() -> None:
    assert len(GOOD) > 60


@pytest.mark.parametrize("name", sorted(set(GOOD) - set(OTHERWISE)))
def test_the_client_makes_of_a_stream_what_we_do(name: str) -> None:
    _same(*GOOD[name])


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_the_client_reads_otherwise_is_listed_for_a_reason(name: str) -> None:
    with pytest.raises((AssertionError, LookupError, TypeError, ValueError, AttributeError, RuntimeError)):
        _same(*GOOD[name])


# --- the client and our server half ------------------------------------------------------------------------


def _own(item: dict[str, Any]) -> Opaque:
    return Opaque(API.name, json.dumps(item))


SIGNED = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "E",
}
WEB = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}
ANSWERS: dict[str, list[Part]] = {
    "text": [Text("Hi \u00e9\U0001f600\n")],
    "nothing": [],
    "calls": [Text("ok"), ToolCall("call_1", "f", '{"x": [1, 2.5]}'), ToolCall("call_2", "g", "")],
    "reasoning": [Reasoning("reasoning_summary", "hm", _own(SIGNED)), Text("x")],
    "opaque": [_own(WEB), Text("x")],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_client_reads_a_whole_answer(name: str) -> None:
    parts = ANSWERS[name]
    finish = FinishReason.TOOL_CALLS if any(isinstance(part, ToolCall) for part in parts) else FinishReason.STOP
    usage = Usage(10, 5, 15, 2, 4, 1)
    data = StreamEncoder("m", "resp_1", 7).push(Completed(Completion(finish, parts, usage)))
    response = accumulated(data)
    decoder = Decoder()
    decoder.push(data)
    assert output(response) == items(decoder.result())
    assert response.output_text == "".join(part.text for part in parts if isinstance(part, Text))
    told = response.usage
    assert (told.input_tokens, told.output_tokens, told.total_tokens) == (10, 5, 15)
    assert (told.input_tokens_details.cached_tokens, told.output_tokens_details.reasoning_tokens) == (4, 2)


def test_the_client_reads_deltas() -> None:
    events: list[Event] = [
        ReasoningDelta("reasoning_summary", "h"),
        ReasoningDelta("reasoning_summary", "m"),
        TextDelta("a"),
        TextDelta("b"),
        ToolCallDelta(0, "call_1", "f", '{"x"'),
        ToolCallDelta(1, "call_2", "g", "{"),
        ToolCallDelta(0, None, None, ": 1}"),
        ToolCallDelta(1, None, None, "}"),
    ]
    parts: list[Part] = [
        Reasoning("reasoning_summary", "hm"),
        Text("ab"),
        ToolCall("call_1", "f", '{"x": 1}'),
        ToolCall("call_2", "g", "{}"),
    ]
    writer = StreamEncoder("m", "resp_1", 7)
    data = b"".join(writer.push(event) for event in [*events, Completed(Completion(FinishReason.TOOL_CALLS, parts))])
    response = accumulated(data)
    assert [item["type"] for item in output(response)] == ["reasoning", "message", "function_call", "function_call"]
    assert [item["arguments"] for item in output(response)[2:]] == ['{"x": 1}', "{}"]
    assert (response.output_text, response.output[0].summary[0].text) == ("ab", "hm")
    deltas = [event.delta for event in events_of(data) if event.type == "response.output_text.delta"]
    assert deltas == ["a", "b"]


@pytest.mark.parametrize(
    ("finish", "reason"), [(FinishReason.LENGTH, "max_output_tokens"), (FinishReason.CONTENT_FILTER, "content_filter")]
)
def test_the_client_reads_an_answer_that_was_cut(finish: FinishReason, reason: str) -> None:
    writer = StreamEncoder("m", "resp_1", 7)
    data = writer.push(TextDelta("Hi")) + writer.push(Completed(Completion(finish, [Text("Hi")])))
    last = events_of(data)[-1]
    assert (last.type, last.response.status) == ("response.incomplete", "incomplete")
    assert last.response.incomplete_details.reason == reason
    assert output(last.response)[0]["content"][0]["text"] == "Hi"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RateLimitedError("slow"), "rate_limit_exceeded"),
        (ContextOverflowError("long"), "context_length_exceeded"),
        (ServerError("broken"), "server_error"),
    ],
)
def test_the_client_reads_our_errors(error: SvirError, code: str) -> None:
    writer = StreamEncoder("m", "resp_1", 7)
    last = events_of(writer.push(TextDelta("a")) + writer.fail(error))[-1]
    assert (last.type, last.response.error.code, last.response.error.message) == ("response.failed", code, error.detail)


# --- where it asks -----------------------------------------------------------------------------------------


def test_the_client_reads_our_listing() -> None:
    listing = API.server.models([Model("a"), Model("b")])

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == API.models_path()
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=listing)

    with client(answer) as opened:
        assert [model.id for model in opened.models.list()] == ["a", "b"]


def test_the_client_asks_where_we_ask() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        body: dict[str, Any] = {"object": "response.input_tokens", "input_tokens": 51}
        return httpx2.Response(200, json=body)

    with client(answer) as opened:
        counted = opened.responses.input_tokens.count(**ASKED)
        opened.responses.create(**ASKED)
    request = Request("m").user("hi")
    assert API.count(b'{"input_tokens":51}') == counted.input_tokens == 51
    assert [each.url.path for each in asked] == [API.count_path(request), API.path(request)]
    assert asked[0].headers["authorization"] == "Bearer sk-1"


def test_the_client_sends_what_we_send() -> None:
    asked: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(json.loads(request.content))
        return httpx2.Response(200, json={"object": "response"})

    request = Request("m", system="x", effort="low", max_tokens=5).user("hi")
    sent = json.loads(bytes(Encoder().encode(request)))
    with client(answer) as opened:
        opened.responses.create(**{**sent, "stream": False})
    assert asked == [{**sent, "stream": False}]

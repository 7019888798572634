"""Rules that hold at every API, each in the API's own words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from svir_core.errors import ServerError, SvirError, UnsupportedError
from svir_core.event import Completed
from svir_core.message import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from svir_core.request import Request, Tool
from svir_core.response import Completion, FinishReason
from svir_core.wire import gemini as gemini_api
from svir_core.wire import openai_chat, openai_responses
from svir_core.wire.api import Api, CodecOptions, Compat, Mode
from svir_core.wire.json_value import Json
from tests.svir_core.wire.foreign import APIS

HI = Request("m", tools=[Tool("f")]).user("hi")
PNG = Image.data(b"\x89PNG", "image/png")


@pytest.fixture(params=APIS, ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> Api:
    chosen: Api = request.param
    return chosen


def body(api: Api, request: Request) -> Any:
    return json.loads(bytes(api.encode(request, CodecOptions(), Compat())))


def turns(api: Api, request: Request) -> Any:
    """The conversation in the body."""
    sent = body(api, request)
    return next(sent[key] for key in ("messages", "input", "contents") if key in sent)


def called(arguments: str) -> Request:
    return HI.message(Message.assistant(ToolCall("a", "f", arguments))).tool_result("a", "1")


# --- calls without arguments ---------------------------------------------------------------------

SENT: Final[Mapping[str, Callable[[Any], Any]]] = {
    "openai_chat": lambda turn: turn["tool_calls"][0]["function"]["arguments"],
    "openai_responses": lambda turn: turn["arguments"],
    "anthropic_messages": lambda turn: turn["content"][0]["input"],
    "gemini": lambda turn: turn["parts"][0]["functionCall"]["args"],
}
"""Where the arguments of a call stand."""


def test_empty_arguments_are_sent_as_an_empty_object(api: Api) -> None:
    sent = SENT[api.name](turns(api, called(""))[1])
    assert sent == ("{}" if api.name.startswith("openai") else {})


def sse(*payloads: Mapping[str, Any], last: str = "") -> bytes:
    names = [f"event: {each['type']}\n" if "type" in each else "" for each in payloads]
    events = [f"{name}data: {json.dumps(each)}\n\n" for name, each in zip(names, payloads, strict=True)]
    return "".join([*events, last]).encode()


def completed(api: Api, data: bytes, mode: Mode = Mode.STRICT) -> Completion:
    decoder = api.decoder(CodecOptions(mode=mode), lambda: 0.0)
    events = list(decoder.push(data))
    events += () if decoder.done else decoder.finish()
    assert isinstance(events[-1], Completed)
    return events[-1].completion


def chat(delta: Mapping[str, Any], finish: str) -> bytes:
    head: Json = {"id": "i", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    chunks: list[Json] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
    ]
    return sse(*chunks, last="data: [DONE]\n\n")


def responses(item: Mapping[str, Any], **response: Any) -> bytes:
    begun: Json = {"id": "r", "object": "response", "model": "m", "status": "in_progress", "output": []}
    ended: Json = {**begun, "status": "completed", "output": [item], **response}
    return sse(
        {"type": "response.created", "sequence_number": 0, "response": begun},
        {
            "type": "response.output_item.added",
            "sequence_number": 1,
            "output_index": 0,
            "item": {**item, "content": []},
        },
        {"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": item},
        {"type": f"response.{ended['status']}", "sequence_number": 3, "response": ended},
    )


def anthropic(block: Mapping[str, Any], stop: str) -> bytes:
    message: Json = {
        "id": "i",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    return sse(
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )


def gemini(part: Mapping[str, Any]) -> bytes:
    content: Json = {"role": "model", "parts": [part]}
    return sse({"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}]})


CALL: Final[Json] = {
    "type": "function_call",
    "id": "fc",
    "call_id": "a",
    "name": "f",
    "arguments": "",
    "status": "completed",
}
CALLS: Final[Mapping[str, bytes]] = {
    "openai_chat": chat(
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        "tool_calls",
    ),
    "openai_responses": responses(CALL),
    "anthropic_messages": anthropic({"type": "tool_use", "id": "a", "name": "f", "input": {}}, "tool_use"),
    "gemini": gemini({"functionCall": {"name": "f"}}),
}
"""An answer of one call without arguments, as each API tells it."""


def test_a_call_without_arguments_is_complete_and_its_arguments_are_an_empty_object(api: Api) -> None:
    answer = completed(api, CALLS[api.name])
    (call,) = answer.calls
    assert answer.finish is FinishReason.TOOL_CALLS
    assert call.complete
    assert call.parse(dict[str, int]) == {}
    request = HI.assistant(answer).tool_result(call.id, "1")
    for other in APIS:
        assert SENT[other.name](turns(other, request)[1]) in ({}, "{}", "" if other is api else "{}")


# --- refusals ------------------------------------------------------------------------------------

SPOKEN: Final[Json] = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
NO_REFUSALS: Final[Mapping[str, bytes]] = {
    "a delta of Chat Completions": chat({"role": "assistant", "content": "yes", "refusal": ""}, "stop"),
    "a delta of Chat Completions without a word": chat({"role": "assistant", "content": "", "refusal": ""}, "stop"),
    "a part of OpenAI Responses": responses({**SPOKEN, "content": [{"type": "refusal", "refusal": ""}]}),
    "a part of OpenAI Responses beside a text": responses(
        {
            **SPOKEN,
            "content": [
                {"type": "output_text", "text": "yes", "annotations": []},
                {"type": "refusal", "refusal": ""},
            ],
        }
    ),
}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", NO_REFUSALS)
def test_an_empty_refusal_is_none(name: str, mode: Mode) -> None:
    api = next(api for api in APIS if api.name == ("openai_chat" if "Chat" in name else "openai_responses"))
    answer = completed(api, NO_REFUSALS[name], mode)
    assert (answer.finish, answer.text) == (
        FinishReason.STOP,
        "" if "without" in name or name.endswith("Responses") else "yes",
    )


@pytest.mark.parametrize("content", [None, "yes"])
def test_an_empty_refusal_of_a_whole_document_is_none(content: str | None) -> None:
    message: Json = {"role": "assistant", "content": content, "refusal": ""}
    choice: Json = {"index": 0, "message": message, "finish_reason": "stop"}
    document: Json = {"id": "i", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    answer = completed_document(openai_chat.API, document)
    assert (answer.finish, answer.text) == (FinishReason.STOP, content or "")
    output: list[Json] = [{**SPOKEN, "content": [{"type": "refusal", "refusal": ""}]}]
    document = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": output}
    assert completed_document(openai_responses.API, document).finish is FinishReason.STOP


def completed_document(api: Api, document: Mapping[str, Any]) -> Completion:
    decode = openai_chat.decode_document if api is openai_chat.API else openai_responses.decode_document
    return decode(json.dumps(document).encode())


# --- a response that failed ----------------------------------------------------------------------

FAILED: Final[Json] = {
    "id": "r",
    "object": "response",
    "model": "m",
    "status": "failed",
    "output": [],
    "error": {"code": "server_error", "message": "boom"},
    "usage": None,
}


@pytest.mark.parametrize("mode", Mode)
def test_a_failed_response_is_an_error_and_no_answer(mode: Mode) -> None:
    api = openai_responses.API
    stream = api.decoder(CodecOptions(mode=mode), lambda: 0.0)
    document = openai_responses.DocumentDecoder(mode=mode)
    told = sse(
        {
            "type": "response.created",
            "sequence_number": 0,
            "response": {**FAILED, "status": "in_progress", "error": None},
        },
        {"type": "response.failed", "sequence_number": 1, "response": FAILED},
    )
    for decoder, data in ((stream, told), (document, json.dumps(FAILED).encode())):
        error: SvirError | None = decoder.push(data).error or decoder.finish().error
        assert isinstance(error, ServerError)
        assert error.server_message() == "boom"
        assert decoder.completion is None


# --- what the model is told ----------------------------------------------------------------------


@pytest.mark.parametrize("content", ["no", (Text("no"),), (Text("no"), PNG)], ids=["string", "text", "image"])
def test_that_a_result_is_an_error_can_be_seen(api: Api, content: Any) -> None:
    asked = HI.message(Message.assistant(ToolCall("a", "f", "{}")))
    told = [asked.tool_results([ToolResult("a", content, is_error)]) for is_error in (False, True)]
    if api.name == "openai_chat" and PNG in tuple(content):
        with pytest.raises(UnsupportedError, match=r"messages\[2\].*an image"):
            turns(api, told[1])
        return
    well, failed = (turns(api, request)[-1] for request in told)
    assert well != failed
    assert "error" in json.dumps(failed)
    assert "error" not in json.dumps(well)


@pytest.mark.parametrize(
    "parts",
    [(), (Text(""),), (Reasoning("thinking", "x"),), (Opaque("another", "{}"),), (Text("", Opaque("another", "{}")),)],
)
def test_an_answer_that_says_nothing_is_no_empty_list(api: Api, parts: Any) -> None:
    said = turns(api, HI.message(Message.assistant(*parts)).user("go on"))
    assert "[]" not in json.dumps(said)
    if api.name == "openai_chat":  # templates of local models count on answers between questions
        assert said.pop(1) == {"role": "assistant", "content": ""}
    assert len(said) == 2


def test_what_the_model_said_is_no_input() -> None:
    said = turns(openai_responses.API, HI.message(Message.assistant("a", "b")).user("c", PNG))
    assert [part["type"] for part in said[1]["content"]] == ["output_text", "output_text"]
    assert [part["type"] for part in said[2]["content"]] == ["input_text", "input_image"]


@pytest.mark.parametrize("synthetic", [False, True])
def test_a_result_goes_to_gemini_with_the_id_of_its_call(synthetic: bool) -> None:
    call = ToolCall("toolu_1", "f", "{}", synthetic_id=synthetic)
    _, asked, told = turns(gemini_api.API, HI.message(Message.assistant(call)).tool_result("toolu_1", "1"))
    sent = [asked["parts"][0]["functionCall"].get("id"), told["parts"][0]["functionResponse"].get("id")]
    assert sent == ([None, None] if synthetic else ["toolu_1", "toolu_1"])

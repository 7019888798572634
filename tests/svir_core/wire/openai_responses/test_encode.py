"""The encoder: what a case cannot say. Bytes that come back, conversations that grow, conversations that move."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.testing import assert_prefix_stable
from svir_core import serial
from svir_core.errors import ConfigError, UnsupportedError
from svir_core.message import (
    CachePoint,
    Image,
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
    UrlSource,
)
from svir_core.request import Request, Tool, ToolChoice
from svir_core.response import Completion
from svir_core.tool_id import portable_tool_id
from svir_core.wire import anthropic_messages, openai_chat
from svir_core.wire.api import CodecOptions, Compat
from svir_core.wire.openai_responses import API, Decoder, Encoder
from svir_core.wire.openai_responses.encode import COUNTED, FIELDS, OPTIONAL, OWNED
from tests.svir_core.wire.openai_responses.streams import (
    added,
    called,
    completed,
    created,
    done,
    message,
    reasoning,
    said,
)

HI = Request("m").user("hi")


def body(request: Request, **options: Any) -> Any:
    return orjson.loads(bytes(Encoder(**options).encode(request)))


def items(request: Request) -> Any:
    return body(request)["input"]


def test_options_are_checked() -> None:
    options: list[dict[str, Any]] = [{"context_tokens": 0}, {"image_tokens": -1}, {"omit": "include"}, {"omit": 5}]
    options.append({"omit": [5]})
    for wrong in options:
        with pytest.raises(ConfigError):
            Encoder(**wrong)
    nothing: Any = "hi"
    assert Encoder(omit=frozenset({"include", "tools"})).omit == {"include"}
    with pytest.raises(ConfigError):
        Encoder().encode(nothing)


def test_the_tables_agree() -> None:
    assert set(OPTIONAL) <= set(FIELDS) | {"include"}
    assert not COUNTED & {"stream", "store", "include", "max_output_tokens"}
    assert {"tools", "reasoning", "text", "store", "include", "tool_choice"}.isdisjoint(OWNED)


def test_the_settings_come_first_and_the_conversation_last() -> None:
    assert list(body(HI.replace(system="x", max_tokens=1)))[-1] == "input"


# --- what came goes back -----------------------------------------------------------------------------

ODD = '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"g\u00e9=\U0001f914","n":123456789012345678901}'


def answer() -> Completion:
    ended = f'data: {{"type":"response.output_item.done","output_index":0,"item":{ODD}}}\n\n'.encode()
    web = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"b": 1.5, "a": [None]}}
    decoder = Decoder()
    decoder.push(created() + added(0, {"type": "reasoning", "summary": []}) + ended)
    decoder.push(added(1, {"type": "web_search_call"}) + done(1, web) + said(2, "H\u00e9") + called(3, '{"a": 1}'))
    decoder.push(completed())
    return decoder.result()


def test_an_answer_goes_back_byte_for_byte() -> None:
    stored = serial.loads(serial.dumps(answer()), Completion)
    assert stored == answer()
    data = bytes(Encoder().encode(HI.assistant(stored)))
    expected = [ODD.encode()]
    expected += [part.json.encode() for part in stored.parts if isinstance(part, Opaque)]
    expected += [
        part.opaque.json.encode() for part in stored.parts[2:] if isinstance(part, Text | ToolCall) and part.opaque
    ]
    assert len(expected) == 4
    assert data.endswith(b"," + b",".join(expected) + b"]}")


def test_an_answer_that_was_changed_goes_back_as_what_it_says() -> None:
    parts = list(answer().parts)
    before = parts[2]
    assert isinstance(before, Text)
    parts[2] = Text("other", before.opaque)
    told = items(HI.message(Message.assistant(*parts)))
    assert told[3] == {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "other", "annotations": []}],
    }
    assert [each["type"] for each in told[1:]] == ["reasoning", "web_search_call", "message", "function_call"]


def test_an_answer_of_this_api_is_understood_by_the_others() -> None:
    request = HI.assistant(answer()).tool_result("call_1", "42").user("so?")
    for api in (openai_chat.API, anthropic_messages.API):
        data = bytes(api.encode(request, CodecOptions(), Compat()))
        assert b"rs_1" not in data
        assert b"ws_1" not in data
        assert "H\u00e9".encode() in data


def test_a_history_of_other_apis_is_understood() -> None:
    foreign = Opaque("gemini", '{"thoughtSignature":"S"}')
    request = HI.message(
        Message.assistant(
            Reasoning("thinking", "hm", Opaque("anthropic_messages", '{"signature":"S"}')),
            Opaque("anthropic_messages", '{"type":"redacted_thinking"}'),
            Text("A", foreign),
            ToolCall("toolu_1", "f", "{}", opaque=foreign),
            Opaque("openai_chat", '{"reasoning_details":[]}'),
        ),
        Message.tool(ToolResult("toolu_1", "42")),
    )
    assert [each["type"] for each in items(request)[1:]] == ["message", "function_call", "function_call_output"]
    assert b"ignature" not in bytes(Encoder().encode(request))


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call"])
def test_a_call_whose_id_another_api_used_before_it_goes_as_what_it_says(kind: str) -> None:
    key = "arguments" if kind == "function_call" else "input"
    item = f'{{"type":"{kind}","id":"fc_1","call_id":"call_0","name":"f","{key}":"{{}}"}}'
    own = Message.assistant(ToolCall("call_0", "f", "{}", opaque=Opaque("openai_responses", item)))
    foreign = Message.assistant(ToolCall("call_0", "f", "{}"))
    given = Message.tool(ToolResult("call_0", "1"))
    first, _, second, told = items(Request("m").message(foreign, given, own, given))
    assert first == {"type": "function_call", "call_id": "call_0", "name": "f", "arguments": "{}"}
    assert second == {"type": kind, "call_id": portable_tool_id("call_0\n1"), "name": "f", key: "{}"}
    assert told == {"type": f"{kind}_output", "call_id": second["call_id"], "output": "1"}
    first, _, second, _ = items(Request("m").message(own, given, foreign, given))
    assert first == orjson.loads(item)
    assert second["call_id"] == portable_tool_id("call_0\n1")


def test_a_request_without_a_message_is_refused_unless_the_server_holds_the_conversation() -> None:
    hidden = Message.assistant(Opaque("anthropic_messages", "{}"))
    for request in (Request("m", system="s"), Request("m").message(hidden)):
        for encode in (Encoder().encode, Encoder().encode_count):
            with pytest.raises(UnsupportedError, match="no request without a message"):
                encode(request)
    for held in ("previous_response_id", "conversation", "prompt"):
        assert items(Request("m", extra={held: "x"})) == []


@pytest.mark.parametrize("json", ["", "{", "[]", "5", "{}", '{"type":5}', "[" * 300 + "]" * 300])
def test_opaque_data_that_is_no_item(json: str) -> None:
    with pytest.raises(ConfigError, match=r"messages\[1\]\.parts\[0\]"):
        Encoder().encode(HI.message(Message.assistant(Opaque(API.name, json))))
    for part in (Text("a", Opaque(API.name, json)), ToolCall("c", "f", "{}", opaque=Opaque(API.name, json))):
        with pytest.raises(ConfigError, match="item"):
            Encoder().encode(HI.message(Message.assistant(part)))


@pytest.mark.parametrize(
    "item",
    ['{"type":"message"}', '{"type":"message","content":5}', '{"type":"function_call","call_id":5}', '{"type":"x"}'],
)
def test_an_item_that_is_not_what_stands_beside_it(item: str) -> None:
    opaque = Opaque(API.name, item)
    parts: list[Part] = [
        Text("a", opaque),
        ToolCall("c", "f", "{}", opaque=opaque),
        Reasoning("reasoning_text", "hm", opaque),
    ]
    told = items(HI.message(Message.assistant(*parts)))
    assert [each["type"] for each in told[1:]] == ["message", "function_call"]
    assert "content" in told[1]
    assert told[2]["call_id"] == "c"


# --- conversations that grow ---------------------------------------------------------------------------

TURNS = st.sampled_from(
    [
        Message.user("hi"),
        Message.user("a", CachePoint(), "", Image.data(b"abc", "image/png"), TextFile.data("x", "n")),
        Message.system("be brief"),
        Message.assistant(Text("A"), ToolCall("c1", "f", "")),
        Message.assistant(*answer().parts),
        Message.assistant(
            ToolCall(
                "c2",
                "sql",
                "SELECT",
                opaque=Opaque(API.name, '{"type":"custom_tool_call","call_id":"c2","name":"sql","input":"SELECT"}'),
            )
        ),
        Message.tool(ToolResult("c1", "1"), ToolResult("c2", [Text("x"), Image(UrlSource("https://x/y"))])),
        Message.assistant(),
    ]
)


@given(st.lists(TURNS, max_size=5), TURNS)
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter(turns: list[Message], further: Message) -> None:
    request = Request("m", system="x", messages=(Message.user("first"), *turns), tools=[Tool("f")])
    longer = request.message(further)
    if bytes(API.encode(request, CodecOptions(), Compat())) != bytes(API.encode(longer, CodecOptions(), Compat())):
        assert_prefix_stable(request, longer, api=API)
    assert isinstance(items(longer), list)


def test_a_body_is_of_its_length_in_any_block() -> None:
    request = HI.user(Image.data(b"abcd", "image/png"), TextFile.data('a"b', "n"), Media.data(b"x", "application/pdf"))
    whole = Encoder().encode(request)
    assert len(bytes(whole)) == whole.length
    for size in (1, 2, 3, 7):
        assert b"".join(whole.blocks(size)) == bytes(whole)


# --- refused by name -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (HI.replace(stop="x"), "stop"),
        (HI.replace(seed=0), "seed"),
        (HI.user(Media.data(b"x", "audio/wav")), r"messages\[1\]\.parts\[0\]: .*'audio/wav'"),
        (HI.message(Message.tool(ToolResult("c", [Media.data(b"x", "video/mp4")]))), r"parts\[0\]\.content\[0\]"),
        (HI.user("a", CachePoint("5m")), r"parts\[1\]: .*'12h' or '30m'"),
        (HI.message(Message.user(ToolCall("c", "f", "{}"))), "a tool call in OpenAI Responses"),
        (HI.replace(tool_choice=ToolChoice.tool("f")), "not offered"),
        (HI.replace(tools=[Tool("f", schema={"type": "object"}, extra={"type": "custom"})]), r"tools\[0\]"),
    ],
)
def test_what_the_api_cannot_carry(request_: Request, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        Encoder().encode(request_)


def test_a_call_of_another_item_is_not_custom() -> None:
    opaque = Opaque(API.name, orjson.dumps(message("x")).decode())
    told = items(
        HI.message(Message.assistant(ToolCall("c", "f", "{}", opaque=opaque)), Message.tool(ToolResult("c", "1")))
    )
    assert [each["type"] for each in told[1:]] == ["function_call", "function_call_output"]


def test_reasoning_stands_beside_its_own_source() -> None:
    opaque = Opaque(API.name, orjson.dumps(reasoning("hm")).decode())
    assert len(items(HI.message(Message.assistant(Reasoning("reasoning_summary", "hm", opaque))))) == 2
    assert len(items(HI.message(Message.assistant(Reasoning("reasoning_text", "hm", opaque))))) == 1

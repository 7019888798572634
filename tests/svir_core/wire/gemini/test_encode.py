"""What the conformance cases do not see of a body: bytes, prefixes, the way back, drawn histories."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.testing import assert_prefix_stable
from svir_core import serial
from svir_core.errors import ConfigError, UnsupportedError
from svir_core.history import check_history
from svir_core.message import Image, Media, Message, Opaque, Reasoning, Text, TextFile, ToolCall, ToolResult
from svir_core.request import Request, Schema, Tool, ToolChoice
from svir_core.response import Completion
from svir_core.tool_id import with_portable_tool_ids
from svir_core.wire.gemini import API, Encoder
from svir_core.wire.json_value import is_array, is_object
from tests.svir_core.wire.gemini.streams import STREAMS, anonymous, call, chunk, event, see, text, thought

WORDS = st.text(alphabet=["\ud83d", "\ude00", "\ud800", "\udfff", "a", '"', "\\", "\n", "\0", "\u00e9", "\U0001f600"])
STAND_IN = "skip_thought_signature_validator"


def body(request: Request, **options: Any) -> Any:
    return orjson.loads(bytes(Encoder(**options).encode(request)))


def parts_of(request: Request, **options: Any) -> list[Any]:
    return [part for content in body(request, **options)["contents"] for part in content["parts"]]


# --- the way back --------------------------------------------------------------------------------

SIGNED = (
    rb'{"thoughtSignature":"SIG/+w==","text":"\u00e9/b"}',
    rb'{"text":"t","thought":true,"thoughtSignature":"UzE="}',
    rb'{"functionCall":{"args":{"b":1.0,"a":[123456789012345678901234567890]},"name":"f"},"thoughtSignature":"UzE="}',
    rb'{"functionCall":{"id":"x","name":"g"},"later":{"z":1,"a":null}}',
    rb'{"toolCall":{"id":"s","toolType":"X","args":{"b":[],"a":"1\/2"}},"thoughtSignature":"UzI="}',
    rb'{"text":"","thoughtSignature":"UzM="}',
)


def test_what_came_goes_back_byte_for_byte() -> None:
    data = event(b'{"candidates":[{"content":{"parts":[' + b",".join(SIGNED) + b']},"finishReason":"STOP"}]}')
    stored = serial.dumps(see([data]).answer)
    answer = serial.loads(stored, Completion)
    sent = bytes(Encoder().encode(Request("m").assistant(answer)))
    start = sent.index(b'"parts":[') + len(b'"parts":[')
    wanted = b",".join(SIGNED).replace(rb"\u00e9", "\u00e9".encode()).replace(rb"\/", b"/")
    assert sent[start:-4] == wanted


@pytest.mark.parametrize("name", [name for name, data in STREAMS.items() if see([data]).completion is not None])
def test_every_answer_goes_back_and_is_read_alike(name: str) -> None:
    answer = see([STREAMS[name]]).answer
    if not all(each.complete for each in answer.calls):
        return
    sent = bytes(Encoder().encode(Request("m").user("hi").assistant(answer)))
    parts = sent.partition(b'{"role":"model","parts":[')[2].removesuffix(b"]}]}")
    again = see([event(b'{"candidates":[{"content":{"parts":[' + parts + b']},"finishReason":"STOP"}]}')]).answer
    shown = [part for part in answer.parts if not isinstance(part, Reasoning) or part.opaque is not None]
    if any(isinstance(part, Reasoning) for part in answer.parts):  # texts that a thought parted are one without it
        assert again.text == answer.text
    else:
        assert anonymous(again.parts) == anonymous(shown)


def test_a_whole_turn_with_calls() -> None:
    request = Request("m", tools=[Tool("f")]).user("a")
    answer = see([chunk(call("f", args={"x": 1}, id="i"), call("f"), finish="STOP")]).answer
    request = request.assistant(answer).tool_result("call_0", "2").tool_result("i", "1")
    assert not check_history(request.messages, API)
    assert body(request)["contents"][1:] == [
        {"role": "model", "parts": [call("f", args={"x": 1}, id="i"), call("f", args={})]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "i", "name": "f", "response": {"output": "1"}}},
                {"functionResponse": {"name": "f", "response": {"output": "2"}}},
            ],
        },
    ]


def test_portable_ids_of_a_history_do_not_cost_its_signatures() -> None:
    part = call("f", id="a:b", args={}, beside={"thoughtSignature": "UzE="})
    answer = see([chunk(part, finish="STOP")]).answer
    history = with_portable_tool_ids([Message.assistant(*answer.parts), Message.tool(ToolResult("a:b", "r"))])
    sent = parts_of(Request("m", messages=history))
    assert sent[0] == part
    assert sent[1]["functionResponse"]["id"] == "a:b"


# --- signatures that there never were ------------------------------------------------------------

FOREIGN = Message.assistant("x", ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"))


def test_a_stand_in_only_where_it_is_asked_for() -> None:
    request = Request("m", messages=[FOREIGN])
    assert "thoughtSignature" not in json.dumps(body(request))
    assert [part.get("thoughtSignature") for part in parts_of(request, skip_signatures=True)] == [None, STAND_IN, None]


def test_a_signed_call_needs_no_stand_in() -> None:
    signed = see([chunk(call("f", beside={"thoughtSignature": "UzE="}), call("g"), finish="STOP")]).answer
    assert parts_of(Request("m").assistant(signed), skip_signatures=True) == parts_of(Request("m").assistant(signed))


def test_a_call_kept_for_another_reason_gets_a_stand_in() -> None:
    kept = see([chunk(call("f", beside={"x": 1}), finish="STOP")]).answer
    assert parts_of(Request("m").assistant(kept), skip_signatures=True) == [
        {"functionCall": {"name": "f"}, "x": 1, "thoughtSignature": STAND_IN}
    ]


# --- what was kept beside a part -----------------------------------------------------------------


@pytest.mark.parametrize(
    "kept",
    ["{}", '{"functionCall":5}', '{"functionCall":{"name":"f","args":' + '{"a":' * 260 + "1" + "}" * 260 + "}}"],
)
def test_what_was_kept_beside_a_call_and_is_none(kept: str) -> None:
    sent = parts_of(Request("m", messages=[Message.assistant(ToolCall("a", "f", "{}", opaque=Opaque("gemini", kept)))]))
    assert sent == [call("f", id="a", args={})]


@pytest.mark.parametrize(
    "part",
    [Text("x", Opaque("gemini", "5")), ToolCall("a", "f", "{}", opaque=Opaque("gemini", "{")), Opaque("gemini", "x")],
)
def test_what_was_kept_and_is_no_object(part: Any) -> None:
    with pytest.raises(ConfigError, match=r"messages\[0\]\.parts\[0\]: opaque data of gemini"):
        Encoder().encode(Request("m", messages=[Message.assistant(part)]))


def test_a_thought_is_no_text_and_a_text_no_thought() -> None:
    kept = Opaque("gemini", '{"text":"a","thought":true,"thoughtSignature":"UzE="}')
    assert parts_of(Request("m", messages=[Message.assistant(Text("a", kept))])) == [text("a")]
    kept = Opaque("gemini", '{"text":"a","thoughtSignature":"UzE="}')
    assert parts_of(Request("m").user("b").message(Message.assistant(Reasoning("thought", "a", kept)))) == [text("b")]
    signed = see([chunk(thought("a", thoughtSignature="UzE="), finish="STOP")]).answer
    assert parts_of(Request("m").assistant(signed)) == [thought("a", thoughtSignature="UzE=")]


# --- drawn requests ------------------------------------------------------------------------------


def everywhere(word: str) -> Request:
    """A request with ``word`` in every string that a caller or a server may give."""
    history = (
        Message.user(word, TextFile.data("content", word), Image.url("https:" + word)),
        Message.assistant(Reasoning("thought", word), word, ToolCall(word, word, json.dumps({word: word}))),
        Message.tool(ToolResult(word, word, is_error=True), ToolResult(word, [Text(word), Media.data(b"x", "a/b")])),
        Message.system(word),
    )
    return Request(
        "m",
        system=word,
        messages=history,
        tools=[Tool(word, word, {"x" + word: word}, extra={"y" + word: [word]})],
        tool_choice=ToolChoice.tool(word),
        response_format=Schema(word, {word: word}),
        stop=[word],
        extra={"z" + word: {word: word}},
    )


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if is_object(value):
        return [found for key, item in value.items() for found in (key, *strings(item))]
    return [found for item in value for found in strings(item)] if is_array(value) else []


@given(WORDS)
def test_no_string_of_a_body_holds_half_a_character(word: str) -> None:
    planned = Encoder().encode(everywhere(word))
    data = bytes(planned)
    assert len(data) == planned.length
    assert not any("\ud800" <= each <= "\udfff" for found in strings(json.loads(data)) for each in found)


@given(WORDS, WORDS, st.integers(0, 4), st.booleans())
def test_a_further_turn_changes_no_byte_before_it(word: str, more: str, turns: int, skips: bool) -> None:
    request = everywhere(word)
    longer = request.message(*everywhere(more).messages[:turns])
    encoder = Encoder(skip_signatures=skips)
    assert_prefix_stable(encoder.encode(request), encoder.encode(longer))
    if not skips:
        assert_prefix_stable(request, longer, api=API)


def test_settings_first_and_contents_last() -> None:
    assert list(body(everywhere("a"))) == [
        "generationConfig",
        "tools",
        "toolConfig",
        "za",
        "systemInstruction",
        "contents",
    ]


@pytest.mark.parametrize("options", [{"omit": "x"}, {"omit": [5]}, {"omit": 5}, {"skip_signatures": 1}])
def test_options_of_another_kind(options: Any) -> None:
    with pytest.raises(ConfigError):
        Encoder(**options)


@pytest.mark.parametrize(
    "extra", [{"tools": 5}, {"tools": [5]}, {"tools": [{"functionDeclarations": 5}]}, {"generationConfig": 5}]
)
def test_extra_of_another_kind_is_the_servers_to_refuse(extra: Any) -> None:
    contents = [{"role": "user", "parts": [text("hi")]}]
    assert body(Request("m", extra=extra).user("hi")) == {**extra, "contents": contents}


NOTHING = [
    (Request("m", system="s"), "no request without a message"),
    (Request("m").user(), "no request without a message"),
    (Request("m").user(""), "no request without a message"),
    (Request("m").message(Message.system("s")), "no request without a message"),
    (Request("m").message(Message.assistant(Reasoning("thinking", "a"))), "no request without a message"),
    (Request("m").user("a").message(Message.assistant("b")).user(""), "what follows the last answer says nothing"),
]


@pytest.mark.parametrize(("request_", "words"), NOTHING)
def test_a_request_that_says_nothing_is_refused_before_it_is_sent(request_: Request, words: str) -> None:
    for encode in (Encoder().encode, Encoder().encode_count):
        with pytest.raises(UnsupportedError, match=words):
            encode(request_)


def test_an_answer_may_be_the_last_word_and_nothing_may_follow_what_the_user_said() -> None:
    answered = Request("m").user("a").message(Message.assistant("b"))
    assert [content["role"] for content in body(answered)["contents"]] == ["user", "model"]
    unsaid = Request("m").user("a").message(Message.assistant("")).user("")
    assert [content["role"] for content in body(unsaid)["contents"]] == ["user"]


def test_calls_join_the_answers_that_paused_before_them() -> None:
    paused = Request("m").user("a").message(Message.assistant("b"), Message.assistant(""), Message.assistant("b"))
    called = paused.user("").message(Message.assistant("c", ToolCall("1", "f", "{}")))
    answered = called.tool_result("1", "x").message(Message.assistant("d"), Message.assistant("e"))
    assert [[*content["parts"][0], len(content["parts"])] for content in body(answered)["contents"]] == [
        ["text", 1],
        ["text", 4],
        ["functionResponse", 1],
        ["text", 1],
        ["text", 1],
    ]


def test_a_file_in_a_result_is_of_the_part_it_stands_in() -> None:
    asked = Request("m", messages=[FOREIGN]).tool_result("a", [Image.path("no.png")])
    with pytest.raises(Exception, match=r"messages\[1\]\.parts\[0\]\.content\[0\].*was not measured"):
        Encoder().encode(asked)

"""What the encoder's cases cannot say: names in refusals, stable prefixes, answers that go back byte for byte."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.testing import assert_prefix_stable
from svir_core import serial
from svir_core.errors import AttachmentError, ConfigError, ContextOverflowError, UnsupportedError
from svir_core.message import (
    CachePoint,
    Image,
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
)
from svir_core.request import Request, Tool, ToolChoice
from svir_core.response import Completion
from svir_core.wire.anthropic_messages import API, Encoder
from svir_core.wire.anthropic_messages.content import Content
from svir_core.wire.anthropic_messages.encode import OPTIONAL, OWNED, optional_fields
from svir_core.wire.names import optional_names
from tests.svir_core.wire.anthropic_messages.streams import (
    STOP,
    call,
    closed,
    delta,
    opened,
    reason,
    see,
    stream,
    text,
    thinking,
)

HI = Request("m").user("hi")
MARKED: list[Part | str] = ["a", CachePoint()]


def body(request: Request, **options: Any) -> Any:
    return orjson.loads(bytes(Encoder(**options).encode(request)))


def messages(request: Request) -> Any:
    return body(request)["messages"]


def answers(completion: Completion) -> Any:
    """The content of an answer as it goes back, after a way through its JSON form."""
    stored = serial.loads(serial.dumps(completion), Completion)
    return messages(HI.assistant(stored))[1]["content"]


# --- what goes back as it came -------------------------------------------------------------------


def test_an_answer_goes_back_block_by_block() -> None:
    cited = {"type": "text", "text": "ab", "citations": [{"type": "x", "n": 1.5, "z": None, "a": "\u00e9"}]}
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "s",
        "content": [{"encrypted_content": "E=", "page": None}],
    }
    data = stream(
        thinking(0, "plan", "SIG=="),
        opened(1, "redacted_thinking", data="AAA") + closed(1),
        opened(2, "server_tool_use", id="s", name="web_search", input={})
        + delta(2, "input_json_delta", partial_json='{"q": ')
        + delta(2, "input_json_delta", partial_json='"x"}')
        + closed(2),
        opened(3, "web_search_tool_result", tool_use_id="s", content=found["content"]) + closed(3),
        opened(4, text="", citations=[])
        + delta(4, "text_delta", text="a")
        + delta(4, "citations_delta", citation=cited["citations"][0])
        + delta(4, "text_delta", text="b")
        + closed(4),
        text(5, "  "),
        call(6, "toolu_1", '{"k": 1}'),
        end=reason("tool_use") + STOP,
    )
    assert answers(see([data]).answer) == [
        {"type": "thinking", "thinking": "plan", "signature": "SIG=="},
        {"type": "redacted_thinking", "data": "AAA"},
        searched,
        found,
        cited,
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"k": 1}},
    ]


strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(strings, values, max_size=4))
def test_a_block_that_nobody_knows_goes_back_with_the_same_bytes(fields: dict[str, Any]) -> None:
    block = json.dumps({**fields, "type": "odd_result"}, ensure_ascii=False, separators=(",", ":"))
    data = stream(opened(0, "@@").replace(b'{"type":"@@"}', block.encode()) + closed(0))
    answer = see([data]).answer
    stored = serial.loads(serial.dumps(answer), Completion)
    (opaque,) = stored.parts
    assert isinstance(opaque, Opaque)
    assert json.loads(opaque.json) == json.loads(block)
    assert list(json.loads(opaque.json)) == list(json.loads(block))
    assert opaque.json.encode() in bytes(Encoder().encode(HI.assistant(stored)))


def test_what_was_kept_of_a_signed_block_is_sent_verbatim() -> None:
    kept = ' {"type": "thinking",  "thinking": "a", "signature": "S", "n": 1.50} '
    part = Reasoning("thinking", "a", Opaque("anthropic_messages", kept))
    sent = bytes(Encoder().encode(HI.message(Message.assistant(part))))
    assert kept.strip()[1:-1].encode() in sent


# --- prefixes ------------------------------------------------------------------------------------

turns = st.sampled_from(
    [
        [Message.user("hi")],
        [Message.user("a", "b", Image.data(b"abc", "image/png"))],
        [Message.user("a", CachePoint())],
        [Message.system("now")],
        [Message.assistant("ok")],
        [Message.assistant("")],
        [
            Message.assistant("ok", ToolCall("call|1", "f", '{"x": 1}'), ToolCall("b", "f", "{}")),
            Message.tool(ToolResult("call|1", "1"), ToolResult("b", "2", is_error=True)),
            Message.assistant("done"),
        ],
    ]
)


@given(st.lists(turns, max_size=6), turns)
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter_one(
    before: list[list[Message]], after: list[Message]
) -> None:
    said = [message for turn in before for message in turn]
    shorter = Request("m", system="s", tools=[Tool("f")]).user("first").message(*said)
    marks = sum(isinstance(part, CachePoint) for turn in [*before, after] for each in turn for part in each.parts)
    if marks <= 4:
        assert_prefix_stable(shorter, shorter.message(*after), api=API)


def test_a_system_message_behind_system_messages_alone_joins_them() -> None:
    shorter = Request("m").message(Message.system("a"))
    longer = shorter.message(Message.system("b"))
    assert (body(shorter.user("hi"))["system"], body(longer.user("hi"))["system"]) == ("a", "a\n\nb")
    assert_prefix_stable(shorter.user("hi"), shorter.user("hi").message(Message.system("b")), api=API)


# --- refusals ------------------------------------------------------------------------------------

REFUSED: list[tuple[Request, type[Exception], str]] = [
    (HI.replace(seed=5), UnsupportedError, "seed"),
    (HI.replace(response_format="json"), UnsupportedError, "response_format"),
    (HI.replace(tool_choice="required"), UnsupportedError, "tool_choice"),
    (HI.replace(max_tokens=-1), ConfigError, "max_tokens"),
    (HI.replace(extra={"stream": False}), ConfigError, "stream"),
    (HI.replace(extra={"metadata": {1: 2}}), ConfigError, "extra.metadata"),
    (
        HI.message(Message(Role.USER, (ToolResult("a", "x"),))),
        UnsupportedError,
        r"messages\[1\].parts\[0\].*a tool result",
    ),
    (HI.message(Message.system(Image.data(b"x", "image/png"))), UnsupportedError, r"messages\[1\].*an image"),
    (HI.user("a", Image.data(b"x", "image/bmp")), UnsupportedError, r"messages\[1\].parts\[1\].*image/bmp"),
    (HI.user(Image.url("file:///x.png")), UnsupportedError, r"messages\[1\].parts\[0\]"),
    (HI.user(Media.data(b"x", "audio/wav")), UnsupportedError, r"messages\[1\].parts\[0\].*audio/wav"),
    (HI.user(Media.path("a.bin")), AttachmentError, r"messages\[1\].parts\[0\].*media type"),
    (HI.user(Image.path("a.png")), AttachmentError, r"messages\[1\].parts\[0\].*a\.png"),
    (
        HI.tool_result("a", [Text("x"), Media.data(b"x", "video/mp4")]),
        UnsupportedError,
        r"messages\[1\].parts\[0\].content\[1\].*video/mp4",
    ),
    (HI.user(CachePoint()), UnsupportedError, r"messages\[1\].parts\[0\].*a part before it"),
    (HI.user("", CachePoint()), UnsupportedError, r"messages\[1\].parts\[1\].*a part before it"),
    (HI.user("a", CachePoint("2h")), UnsupportedError, r"messages\[1\].parts\[1\].*'5m' or '1h'"),
    (HI.user(*MARKED * 5), UnsupportedError, "4 cache points, and the request has 5"),
    (HI.message(Message.assistant(ToolCall("a", "f", "[1]"))), UnsupportedError, r"messages\[1\].parts\[0\]"),
    (
        HI.message(Message.assistant(ToolCall("a", "f", "{}", opaque=Opaque("anthropic_messages", '{"id":1}')))),
        UnsupportedError,
        "'id'",
    ),
    (HI.message(Message.assistant(Opaque("anthropic_messages", "5"))), ConfigError, r"messages\[1\].parts\[0\]"),
    (
        HI.message(Message.assistant(Text("a", Opaque("anthropic_messages", "no")))),
        ConfigError,
        r"messages\[1\].parts\[0\]",
    ),
]


@pytest.mark.parametrize(("request_", "kind", "words"), REFUSED)
def test_what_cannot_be_carried_is_refused_by_name(request_: Request, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        Encoder().encode(request_)


def test_a_part_that_has_no_block_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"here: .*opaque data"):
        Content(None).block(Opaque("x", "{}"), "here")


@pytest.mark.parametrize("key", sorted(OWNED))
def test_extra_sets_nothing_that_the_codec_owns(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        Encoder().encode(HI.replace(extra={key: None}))


# --- settings ------------------------------------------------------------------------------------


def test_a_lean_request_leaves_the_effort_out() -> None:
    assert set(OPTIONAL) <= optional_names()
    low, off = HI.replace(effort="low"), HI.replace(effort="off")
    assert [sorted(optional_fields(request)) for request in (HI, low, off)] == [[], ["effort"], ["thinking"]]
    for request in (low, off):
        assert body(request, omit=optional_fields(request)) == body(HI)
        assert body(request, omit={"max_tokens"}) == body(request)
    asked = low.replace(extra={"thinking": {"type": "adaptive"}})
    assert body(asked, omit={"effort", "thinking"}) == {**body(HI), "thinking": {"type": "adaptive"}}


@pytest.mark.parametrize("omit", ["effort", 5, [5]])
def test_names_to_leave_out_are_checked(omit: Any) -> None:
    with pytest.raises(ConfigError):
        Encoder(omit=omit)


def test_admission_counts_what_is_sent() -> None:
    length = Encoder().encode(HI).length
    assert Encoder(context_tokens=length + 4096).encode(HI).length == length
    with pytest.raises(ContextOverflowError):
        Encoder(context_tokens=length + 4095).encode(HI)
    picture = HI.replace(max_tokens=1).user(Image.data(bytes(3000), "image/png"))
    with pytest.raises(ContextOverflowError):
        Encoder(context_tokens=2000).encode(picture)
    assert Encoder(context_tokens=2000, image_tokens=100).encode(picture).length > 4000


def test_counting_asks_without_what_an_answer_needs() -> None:
    request = Request(
        "m",
        system="s",
        tools=[Tool("f", "d")],
        tool_choice=ToolChoice.tool("f"),
        effort="low",
        max_tokens=5,
        temperature=0.5,
        top_p=0.5,
        stop=["x"],
        extra={"metadata": {"user_id": "u"}, "top_k": 5, "thinking": {"type": "adaptive"}, "speed": "fast"},
    ).user("hi")
    assert orjson.loads(bytes(Encoder(context_tokens=1).encode_count(request))) == {
        "model": "m",
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}],
        "tool_choice": {"type": "tool", "name": "f"},
        "output_config": {"effort": "low"},
        "thinking": {"type": "adaptive"},
        "speed": "fast",
        "system": "s",
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_cache_points_of_unusual_settings_are_not_miscounted() -> None:
    marked = HI.user(*MARKED * 4)
    assert len(messages(marked.replace(extra={"tools": {"cache_control": 1}}))) == 2
    assert len(messages(marked.replace(extra={"tools": [5, {"cache_control": None}]}))) == 2


# --- messages ------------------------------------------------------------------------------------


def test_a_text_file_stands_in_an_answer_too() -> None:
    answer = Message(Role.ASSISTANT, (TextFile.data("x", "n"),))
    assert messages(HI.message(answer))[1] == {"role": "assistant", "content": '<file name="n">\nx\n</file>'}


NOTHING = [
    (Request("m", system="a").message(Message.system("b"), Message.system("")), "no request without a message"),
    (Request("m").user(), "no request without a message"),
    (Request("m").user(" \n"), "no request without a message"),
    (Request("m").message(Message.assistant(Reasoning("thought", "a"))), "no request without a message"),
    (HI.message(Message.assistant("b")).user(" "), "what follows the last answer says nothing"),
    (HI.message(Message.assistant("b"), Message.system("")), "what follows the last answer says nothing"),
]


@pytest.mark.parametrize(("request_", "words"), NOTHING)
def test_a_request_that_says_nothing_is_refused_before_it_is_sent(request_: Request, words: str) -> None:
    for encode in (Encoder().encode, Encoder().encode_count):
        with pytest.raises(UnsupportedError, match=words):
            encode(request_)


def test_an_answer_may_be_the_last_word_and_nothing_may_follow_what_the_user_said() -> None:
    assert [message["role"] for message in messages(HI.message(Message.assistant("b")))] == ["user", "assistant"]
    unsaid = HI.message(Message.assistant(Reasoning("thought", "a"))).user("")
    assert [message["role"] for message in messages(unsaid)] == ["user"]


def test_a_key_of_a_text_that_is_another_apis_is_no_reason_to_fail() -> None:
    parts = (
        Text("a", Opaque("openai_responses", "no JSON")),
        Reasoning("thought", "b", Opaque("gemini", "no JSON")),
        ToolCall("c", "f", "", opaque=Opaque("gemini", "no JSON")),
        Opaque("gemini", "no JSON"),
    )
    assert messages(HI.message(Message(Role.ASSISTANT, parts)))[1]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {}},
    ]


@given(st.text(max_size=12))
def test_any_text_is_sent_clean(said: str) -> None:
    sent = messages(HI.user(said, "end"))[1]["content"]
    clean = said.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert sent == ([{"type": "text", "text": clean}, {"type": "text", "text": "end"}] if said.strip() else "end")

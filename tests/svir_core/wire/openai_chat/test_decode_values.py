"""Values of types that nobody expects: what is absent and what is wrong, and numbers that no float holds
(10 section 2, 11 sections A and B); and what a decoder that is done still holds."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest

from svir_core import serial, slow_json
from svir_core.errors import ConfigError
from svir_core.message import Message, Opaque, Role, Text, ToolCall
from svir_core.quirk import Quirk
from svir_core.refusal import read_failure
from svir_core.request import Request
from svir_core.response import Partial, Usage
from svir_core.sse import Framer
from svir_core.wire.api import CodecOptions
from svir_core.wire.openai_chat.api import ChatCompletions
from svir_core.wire.openai_chat.decode import Decoder
from svir_core.wire.openai_chat.document_decoder import DocumentDecoder, decode_document
from svir_core.wire.openai_chat.encode import Encoder
from tests.svir_core.wire.openai_chat.streams import (
    DONE,
    Json,
    both,
    call,
    calls,
    chunk,
    decoded,
    document,
    event,
    finish,
    refused,
    stream,
    text,
)

HUGE = ("1e400", "-1E+400", "9" * 309, "9" * 5000)
"""Numbers that no float holds."""

FALSY: list[Any] = [False, 0, 0.0, [], {}]
"""Of another type than a text, and not absent."""


def spelled(data: bytes, number: str) -> bytes:
    """``data`` with ``number`` in place of every 777."""
    return data.replace(b"777", number.encode())


# --- numbers that no float holds ------------------------------------------------------------------


@pytest.mark.parametrize("number", HUGE)
def test_a_payload_with_a_huge_number_is_an_object(number: str) -> None:
    seen = both(spelled(stream(text("a"), chunk({"content": "b"}, created=777), text("c")), number))
    assert seen.answer.text == "abc"


@pytest.mark.parametrize("number", HUGE)
def test_a_huge_number_as_content_is_its_spelling(number: str) -> None:
    data = spelled(stream(text("a"), chunk({"content": 777})), number)
    assert refused(data, "protocol", "number_as_content").answer.text == "a" + number


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("before", [b"", text("a")])
def test_a_failure_with_a_huge_number(number: str, before: bytes) -> None:
    failure = b'{"error":{"message":"m","x":777}}'
    for data in (event(failure), b"event: error\n" + event(failure), failure + b"\n\n", b"error: " + failure + b"\n\n"):
        seen = both(spelled(before + data, number))
        assert (seen.kind, seen.message) == ("server", "m")
    assert read_failure(spelled(failure, number)).message == "m"


@pytest.mark.parametrize("number", HUGE)
def test_documents_and_listings_with_a_huge_number(number: str) -> None:
    answer = {"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}], "created": 777}
    assert decode_document(spelled(orjson.dumps(answer), number)).text == "a"
    listing = spelled(b'{"data":[{"id":"m","created":777}]}', number)
    assert [model.id for model in ChatCompletions().models(listing).models] == ["m"]


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "[1e400", "1e400]"])
def test_what_is_no_json_stays_none(constant: str) -> None:
    data = spelled(stream(text("a"), chunk({"content": "x"}, created=777), text("b")), constant)
    assert refused(data, "protocol", "not_an_object").answer.text == "ab"


def test_a_huge_number_in_a_deep_nest_is_a_typed_error() -> None:
    nest = b'{"choices":[],"x":' + b"[" * 256 + b"1e400" + b"]" * 256 + b"}"
    assert both(event(nest)).kind == "protocol"


def test_a_huge_number_beside_a_lone_surrogate() -> None:
    data = stream(event(b'{"choices":[{"index":0,"delta":{"content":"a\\ud800"}}],"x":1e400}'))
    assert refused(data, "protocol", "lone_surrogate").answer.text == "a\ufffd"


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("quirks", [Quirk(0), Quirk.CHOICES_MERGED])
def test_extra_keeps_a_huge_number_as_its_spelling(number: str, quirks: Quirk) -> None:
    piece = chunk({"content": "a"}, timings=[777, 1.5])
    piece = piece.replace(b'"finish_reason"', b'"logprobs":{"a":777},"finish_reason"')
    data = spelled(stream(piece, event(b'{"choices":[],"x":777}'), end=finish() + event(document(y=1)) + DONE), number)
    lenient = decoded(data, "lenient", extra=True, quirks=quirks).answer
    assert lenient.extra == {"timings": [number, 1.5], "logprobs": {"a": number}, "x": number, "y": 1}
    assert serial.loads(serial.dumps(lenient)) == lenient


@pytest.mark.parametrize("number", HUGE)
def test_unknown_keys_of_a_call_keep_a_huge_number_for_the_way_back(number: str) -> None:
    piece = calls(call(id="i", name="f", arguments="{}", signature=[777, 888]))
    piece = piece.replace(b"888", b"18446744073709551616")
    data = spelled(stream(piece, end=finish("tool_calls") + DONE), number)
    (made,) = both(data).answer.calls
    assert made.opaque == Opaque("openai_chat", f'{{"signature":[{number},{2**64}]}}')
    assert made.opaque is not None
    assert made.opaque.data == {"signature": [number, 2.0**64]}
    body = bytes(
        Encoder().encode(
            Request(model="m", messages=[Message(Role.USER, [Text("q")]), Message(Role.ASSISTANT, [made])])
        )
    )
    assert f'"signature":[{number},'.encode() in body


def test_opaque_data_that_is_no_json_is_refused_as_ever() -> None:
    with pytest.raises(orjson.JSONDecodeError):
        _ = Opaque("openai_chat", '{"a":1e400').data


@pytest.mark.parametrize("number", HUGE)
def test_arguments_with_a_huge_number_are_an_object(number: str) -> None:
    arguments = f'{{"x":{number}}}'
    data = stream(calls(call(id="i", name="f", arguments=arguments)), end=finish("tool_calls") + DONE)
    (made,) = both(data).answer.calls
    assert (made.arguments, made.complete) == (arguments, True)
    piece = spelled(calls(call(id="i", name="f", arguments={"x": 777})), number)
    (made,) = both(stream(piece), quirks=Quirk.TOOL_ARGUMENTS_OBJECT).answer.calls
    assert (made.arguments, made.complete) == (arguments, True)
    again = stream(calls(call(id="i", name="f", arguments=arguments)), calls(call(arguments=arguments)))
    (made,) = both(again, quirks=Quirk.TOOL_ARGUMENTS_RESENT).answer.calls
    assert made.arguments == arguments


@pytest.mark.parametrize("index", ["64", str(2**63), str(2**64), "9" * 309, "9" * 5000])
@pytest.mark.parametrize("quirks", [Quirk(0), Quirk.TOOL_INDEX_MISSING])
def test_an_index_of_a_call_over_the_limit_however_long(index: str, quirks: Quirk) -> None:
    data = spelled(stream(calls(call(0, id="a", name="f"), call(777, id="i", name="f"))), index)
    assert both(data, quirks=quirks).kind == "response_limit"


@pytest.mark.parametrize("index", ["-1", "-" + "9" * 309, "0.0", "1e400", "1e30", "64.5"])
def test_an_index_of_a_call_that_is_none(index: str) -> None:
    assert both(spelled(stream(calls(call(777, id="i", name="f"))), index)).kind == "protocol"


# --- absent, or of the wrong type -----------------------------------------------------------------


@pytest.mark.parametrize("word", [*FALSY, True, 1])
def test_a_finish_reason_that_is_no_text(word: Any) -> None:
    assert both(stream(text("a"), text("b"), chunk({}, word))).kind == "unsupported"
    assert both(stream(text("a"), text("b"), chunk({"content": "c"}, word))).text == "ab"
    note = document(None, word)
    note["choices"] = [{"index": 0, "finish_reason": word, "content_filter_offsets": {"start_offset": 0}}]
    assert both(stream(text("a"), event(note))).kind == "unsupported"


@pytest.mark.parametrize("calls_", [False, 0, 0.0, {}])
def test_tool_calls_of_the_wrong_type(calls_: Any) -> None:
    seen = refused(stream(text("a"), chunk({"tool_calls": calls_}), text("b")), "protocol", "wrong_type")
    assert seen.answer.text == "ab"


@pytest.mark.parametrize("calls_", [None, "", []])
def test_tool_calls_that_are_absent(calls_: Any) -> None:
    assert both(stream(text("a"), chunk({"tool_calls": calls_, "content": "b"}))).answer.text == "ab"


@pytest.mark.parametrize("value", FALSY)
@pytest.mark.parametrize("key", ["role", "refusal", "reasoning", "reasoning_content"])
def test_a_known_key_that_is_falsy(key: str, value: Any) -> None:
    assert refused(stream(text("a"), chunk({key: value})), "protocol", "wrong_type").answer.text == "a"


@pytest.mark.parametrize("value", FALSY)
def test_usage_that_is_falsy(value: Any) -> None:
    assert refused(stream(text("a"), chunk({}, usage=value)), "protocol", "usage_incomplete").answer.usage is None


@pytest.mark.parametrize("value", FALSY)
@pytest.mark.parametrize("key", ["id", "name", "type", "function", "arguments"])
def test_a_key_of_a_call_that_is_falsy(key: str, value: Any) -> None:
    piece = call(id="i", name="f", arguments="{}", type="function")
    (piece["function"] if key in piece["function"] else piece)[key] = value
    data = stream(calls(piece), end=finish("tool_calls") + DONE)
    assert both(data).kind == "protocol"


@pytest.mark.parametrize("value", [False, 0, 0.0, {}])
def test_choices_that_are_falsy(value: Any) -> None:
    odd = event({"id": "c1", "choices": value})
    assert refused(stream(text("a"), odd, text("b")), "protocol", "wrong_type").answer.text == "ab"
    assert refused(stream(text("a"), end=finish() + odd + DONE), "protocol", "wrong_type").answer.text == "a"


@pytest.mark.parametrize("value", [None, "", []])
def test_choices_that_are_absent(value: Any) -> None:
    assert both(stream(text("a"), end=finish() + event({"id": "c1", "choices": value}) + DONE)).answer.text == "a"


@pytest.mark.parametrize("delta", [{}, {"delta": None}, {"delta": ""}])
def test_a_delta_that_is_absent(delta: dict[str, Any]) -> None:
    blocked = {"content_filter_offsets": {"start_offset": 0}, "content_filter_results": {"x": {"filtered": True}}}
    note = event({"choices": [{"index": 0, **delta, **blocked}]})
    assert both(stream(text("a"), note)).answer.finish == "content_filter"
    whole = {"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop", **delta}]}
    assert decode_document(orjson.dumps(whole)).text == "a"


# --- which choice ---------------------------------------------------------------------------------

APART: list[tuple[Any, Any]] = [("0", "1"), (0.0, 1), (3.0, "0"), (True, 1), ([], 1), ("x", 1), (10**19, 0)]
SAME: list[tuple[Any, Any]] = [
    ("0", 0),
    (0.0, "0"),
    ("7", 7),
    (True, 0),
    ({}, []),
    ("x", 0),
    ("0.0", 0),
    ("1234567890", 0),
]


def choice(index: Any, content: str, finish_reason: str | None = None, **more: Any) -> bytes:
    entry = {"index": index, "delta": {"content": content}, "finish_reason": finish_reason, **more}
    return event(document() | {"choices": [entry]})


@pytest.mark.parametrize(("first", "other"), APART)
def test_an_index_of_another_type_is_the_number_it_says(first: Any, other: Any) -> None:
    data = choice(first, "A") + choice(other, "x") + choice(first, "B") + choice(other, "y")
    strict = decoded(data + DONE)
    assert strict.kind == "protocol" if type(first) is not int else strict.kind == "unsupported"
    lenient = decoded(data + choice(first, "C", "stop") + DONE, "lenient")
    assert lenient.answer.text == "ABC"
    assert lenient.codes.count("wrong_type") == 3 * (type(first) is not int) + 2 * (type(other) is not int)


@pytest.mark.parametrize(("first", "other"), SAME)
def test_an_index_that_says_no_number_says_nothing(first: Any, other: Any) -> None:
    data = choice(first, "A") + choice(other, "B") + choice(first, "C", "stop") + DONE
    assert decoded(data, "lenient").answer.text == "ABC"


def test_merged_choices_of_another_type_are_apart() -> None:
    def piece(index: str, **fields: Any) -> bytes:
        delta = {"tool_calls": [call(0, **fields)]}
        return event(document() | {"choices": [{"index": index, "delta": delta, "finish_reason": "stop"}]})

    data = piece("0", id="a", name="f") + piece("1", id="b", name="g") + DONE
    seen = decoded(data, "lenient", quirks=Quirk.CHOICES_MERGED)
    assert [made.id for made in seen.answer.calls] == ["a", "b"]
    assert decoded(data, quirks=Quirk.CHOICES_MERGED).kind == "protocol"


def test_usage_in_another_choice_is_skipped_with_it() -> None:
    own, other = ({"prompt_tokens": number, "completion_tokens": number} for number in (1, 9))
    data = choice(0, "a", usage=own) + choice(1, "x", usage=other) + choice(0, "b", "stop") + DONE
    seen = refused(data, "unsupported", "other_choice")
    assert seen.answer.usage == Usage(1, 1)
    two: Json = document() | {
        "choices": [{"index": 1, "delta": {}, "usage": other}, {"index": 0, "delta": {}, "usage": own}]
    }
    seen = refused(stream(text("a"), event(two)), "unsupported", "other_choice")
    assert seen.answer.usage == Usage(1, 1)


# --- pieces with unknown keys ---------------------------------------------------------------------


def test_many_pieces_with_unknown_keys_are_read_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = slow_json._read  # pyright: ignore[reportPrivateUsage]

    def counted(data: str, options: dict[str, Any]) -> Any:
        read.append(len(data))
        return real(data, options)

    monkeypatch.setattr(slow_json, "_read", counted)
    first = call(id="a", name="f", arguments="{}", z=0)
    for count in (10, 1000):
        read.clear()
        decoder = Decoder()
        decoder.push(stream(calls(first, *(call(z=number) for number in range(count))), end=finish() + DONE))
        (made,) = decoder.result().calls
        assert made.opaque == Opaque("openai_chat", f'{{"z":{count - 1}}}')
        assert len(read) == 1


def test_an_unknown_key_after_the_answer_stood_at_another_place() -> None:
    two: Json = document() | {
        "choices": [{"index": 1, "delta": {}}, {"index": 0, "delta": {"tool_calls": [call(id="a", name="f")]}}]
    }
    data = stream(event(two), calls(call(arguments="{}", z=1)), end=finish("tool_calls") + DONE)
    (made,) = refused(text("a") + data, "unsupported", "other_choice").answer.calls
    assert made.opaque == Opaque("openai_chat", '{"z":1}')


# --- dropped events -------------------------------------------------------------------------------


def test_the_data_of_a_dropped_event_is_no_line() -> None:
    data = b'event: foo\ndata: error: {"a":1}\n\n' + stream(text("a"))
    assert refused(data, "unsupported", "unknown_event").answer.text == "a"
    failure = b'event: foo\ndata: {"error":"m"}\n\n' + stream(text("a"))
    assert decoded(failure, "lenient").message == "m"
    assert both(text("a") + b'error: {"message":"m"}').message == "m"  # a line that the input cuts


# --- options --------------------------------------------------------------------------------------

WRONG: list[dict[str, Any]] = [
    {"limits": 5}, {"limits": 0}, {"limits": {}}, {"think": 5}, {"think": []}, {"think": None}, {"mode": 5},
    {"mode": []}, {"mode": None}, {"quirks": 5}, {"quirks": 0}, {"quirks": "DONE_OPTIONAL"}, {"clock": 5},
    {"clock": None}, {"extra": 1}, {"extra": None},
]  # fmt: skip


@pytest.mark.parametrize("made", [Decoder, DocumentDecoder])
@pytest.mark.parametrize("options", WRONG)
def test_an_option_of_the_wrong_type_is_named(made: type[Decoder], options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=name):
        made(**options)


@pytest.mark.parametrize("options", [each for each in WRONG if not each.keys() & {"clock", "extra"}])
def test_a_codec_option_of_the_wrong_type_is_named(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=name):
        CodecOptions(**options)


@pytest.mark.parametrize(
    "options", [{"types": 5}, {"types": {"a"}}, {"terminator": "x"}, {"limit": 0}, {"limit": True}, {"limit": "5"}]
)
def test_an_argument_of_a_framer_of_the_wrong_type_is_named(options: dict[str, Any]) -> None:
    (name,) = options
    fine: dict[str, Any] = {"types": None, "terminator": None, "limit": 1}
    with pytest.raises(ConfigError, match=name):
        Framer(**fine | options)


# --- what a decoder that is done holds ------------------------------------------------------------


def held(value: Any, seen: set[int]) -> int:
    """How many characters and bytes ``value`` holds, each object once."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(held(item, seen) for pair in cast("dict[Any, Any]", value).items() for item in pair)
    if isinstance(value, list | tuple | set):
        return sum(held(item, seen) for item in cast("list[Any]", value))
    if not type(value).__module__.startswith("svir_core."):
        return 0
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    fields = [getattr(value, name, None) for name in names if not name.startswith("__")]
    return sum(held(item, seen) for item in [*fields, *getattr(value, "__dict__", {}).values()])


@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize("quirks", [Quirk(0), Quirk.CONTENT_CUMULATIVE | Quirk.TOOL_ARGUMENTS_RESENT])
def test_a_decoder_that_completed_holds_the_answer_once(mode: str, quirks: Quirk) -> None:
    cumulative = Quirk.CONTENT_CUMULATIVE in quirks
    pieces = ["x" * 1000 * (number if cumulative else 1) for number in range(1, 21)]
    decoder = Decoder(mode=mode, quirks=quirks)
    made = calls(call(id="i", name="f", arguments='{"a":"'), call(arguments="y" * 1000 + '"}'))
    decoder.push(stream(*map(text, pieces), made))
    completion = decoder.result()
    assert completion.text == "x" * 20_000
    assert held(decoder, set()) < 23_000
    (display,) = (part for part in decoder.partial.parts if isinstance(part, ToolCall))
    assert display == ToolCall("i", "f", '{"a":"' + "y" * 1000 + '"}', complete=False)
    assert decoder.partial.text == completion.text


def test_partial_after_the_end_is_what_was_delivered() -> None:
    pieces = calls(call(name="f", arguments="{}", z=1))
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    details = chunk({"reasoning_details": [{"type": "reasoning.text", "text": "t"}]}, usage=usage)
    decoder = Decoder(quirks=Quirk.TOOL_ID_MISSING | Quirk.REASONING_DETAILS)
    decoder.push(text("a") + details + pieces)
    before = decoder.partial
    decoder.push(finish() + DONE)
    assert decoder.result().calls[0].synthetic_id
    assert decoder.partial == before
    assert before.usage == Usage(1, 2)


def test_partial_after_an_error_is_that_of_the_error() -> None:
    decoder = Decoder()
    decoder.push(text("a" * 1000) + text("b"))
    error = decoder.push(event("{}")).error
    assert error is not None
    assert error.partial is decoder.partial
    assert decoder.partial == Partial((Text("a" * 1000 + "b"),), None, "m", "c1")
    assert held(decoder, set()) < 1500

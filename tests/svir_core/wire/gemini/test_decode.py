"""What the conformance cases do not see of a decoded stream: its events, ``extra``, tokens, offsets, bounds."""

from __future__ import annotations

import time
from typing import Any

import pytest

from svir_core.errors import ConfigError, ServerError
from svir_core.event import Completed, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.limits import Limits
from svir_core.message import Opaque, Text, ToolCall
from svir_core.response import Usage
from svir_core.wire.gemini import Decoder, decode
from tests.svir_core.wire.gemini.streams import (
    STOP,
    STREAMS,
    Json,
    both,
    call,
    chunk,
    decoded,
    event,
    piece,
    pieces,
    see,
    text,
    thought,
)


def test_events_come_in_the_order_of_the_wire() -> None:
    data = chunk(thought("t"), text("a"), call("f", args={"x": 1}, id="i")) + chunk(call("g"), text("b")) + STOP
    seen = both(data)
    assert list(seen.events[:-1]) == [
        ReasoningDelta("thought", "t"),
        TextDelta("a"),
        ToolCallDelta(0, "i", "f", '{"x":1}'),
        ToolCallDelta(1, None, "g", "{}"),
        TextDelta("b"),
    ]
    assert isinstance(seen.events[-1], Completed)
    assert list(decode([data]))[:-1] == list(seen.events[:-1])


def test_a_call_whose_string_never_ended_is_told_once() -> None:
    decoder = Decoder()
    decoder.push(chunk(call("f", willContinue=True)))
    decoder.push(chunk(pieces(piece("$.a", stringValue="x", willContinue=True))))
    assert list(decoder.push(chunk(call()))) == [ToolCallDelta(0, None, None, '{"a":"x"}')]
    decoder.push(STOP)
    (last,) = decoder.finish()
    assert isinstance(last, Completed)
    assert last.completion.calls == (ToolCall("call_0", "f", '{"a":"x"}', complete=False, synthetic_id=True),)


def test_streamed_arguments_are_told_when_their_call_is_closed() -> None:
    opened = chunk(call("f", willContinue=True))
    going = chunk(pieces(piece("$.a", stringValue="x"), id="late"))
    decoder = Decoder()
    assert list(decoder.push(opened)) == [ToolCallDelta(0, None, "f", None)]
    assert not decoder.push(going)
    assert list(decoder.push(chunk(call()))) == [ToolCallDelta(0, None, None, '{"a":"x"}')]
    decoder.push(STOP)
    (*_, last) = decoder.finish()
    assert isinstance(last, Completed)
    assert last.completion.calls == (ToolCall("late", "f", '{"a":"x"}'),)


def test_a_name_and_the_last_piece_in_one_part() -> None:
    seen = both(chunk(call("f", partialArgs=[piece("$.a", stringValue="x")]), finish="STOP"))
    assert list(seen.events[:-1]) == [ToolCallDelta(0, None, "f", None), ToolCallDelta(0, None, None, '{"a":"x"}')]
    assert seen.answer.calls[0].complete


def test_what_comes_beside_streamed_arguments_is_kept_with_the_call() -> None:
    first = call("f", willContinue=True, x=1, beside={"thoughtSignature": "UzE="})
    later = {**pieces(piece("$.a", numberValue=1), y=None, z=2), "more": True}
    seen = both(chunk(first) + chunk(later) + chunk(call(id="i"), finish="STOP"))
    kept = '{"functionCall":{"id":"i","name":"f","x":1,"z":2,"args":{"a":1}},"thoughtSignature":"UzE=","more":true}'
    assert seen.answer.calls == (ToolCall("i", "f", '{"a":1}', opaque=Opaque("gemini", kept)),)


def test_whole_calls_lose_what_only_streams_have() -> None:
    part = call("f", args={}, willContinue=False, partialArgs=[], beside={"thoughtSignature": "UzE="})
    (found,) = both(chunk(part, finish="STOP")).answer.calls
    assert found.opaque == Opaque("gemini", '{"functionCall":{"name":"f","args":{}},"thoughtSignature":"UzE="}')


WRONG_CALLS = {
    "name": call(args={}) | {"functionCall": {"name": 5}},
    "id": call("f", id=5),
    "goes on": call("f", willContinue="yes"),
    "pieces": call("f", partialArgs={}),
    "a piece": call("f", partialArgs=[5]),
    "arguments both ways": call("f", args={"a": 1}, willContinue=True),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_nothing_of_a_call_is_ignored(name: str) -> None:
    for mode in ("strict", "lenient"):
        assert decoded(chunk(WRONG_CALLS[name], finish="STOP"), mode).kind == "protocol"


def streamed(*found: Json) -> bytes:
    return chunk(call("f", willContinue=True)) + chunk(pieces(*found)) + chunk(call(), finish="STOP")


WRONG_PIECES = {
    "two values": piece("$.a", stringValue="x", boolValue=True),
    "a string that is none": piece("$.a", stringValue=5),
    "a number that is none": piece("$.a", numberValue="5"),
    "a number that is true": piece("$.a", numberValue=True),
    "a boolean that is none": piece("$.a", boolValue=1),
    "a null that is none": piece("$.a", nullValue=0),
    "no path": {"stringValue": "x"},
    "a path of another type": piece(5, stringValue="x"),
    "no dollar": piece("a", stringValue="x"),
    "the arguments themselves": piece("$", stringValue="x"),
    "an index of the arguments": piece("$[0]", stringValue="x"),
    "a slice": piece("$.a[0:1]", stringValue="x"),
    "a wildcard": piece("$.a[*]", stringValue="x"),
    "an empty name": piece("$.", stringValue="x"),
    "a bad escape": piece("$['\\q']", stringValue="x"),
    "too deep": piece("$" + ".a" * 129, stringValue="x"),
}


@pytest.mark.parametrize("name", WRONG_PIECES)
def test_a_piece_that_cannot_be_placed(name: str) -> None:
    for mode in ("strict", "lenient"):
        assert decoded(streamed(WRONG_PIECES[name]), mode).kind == "protocol"


CONTRADICTIONS = {
    "a string where a number was": (piece("$.a", numberValue=1), piece("$.a", stringValue="x")),
    "a number where a string was": (piece("$.a", stringValue="x"), piece("$.a", numberValue=1)),
    "a key of an array": (piece("$.a[0]", numberValue=1), piece("$.a.b", numberValue=1)),
    "an index of an object": (piece("$.a.b", numberValue=1), piece("$.a[0]", numberValue=1)),
    "a gap": (piece("$.a[0]", numberValue=1), piece("$.a[2].b", numberValue=1)),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_pieces_that_contradict_each_other(name: str) -> None:
    for mode in ("strict", "lenient"):
        assert decoded(streamed(*CONTRADICTIONS[name]), mode).kind == "protocol"


def test_an_id_of_streamed_arguments_never_changes() -> None:
    start = chunk(call("f", id="a", willContinue=True))
    assert decoded(start + chunk(call(id="b"), finish="STOP")).kind == "protocol"
    assert both(start + chunk(call(id="a"), finish="STOP")).answer.calls[0].id == "a"


def test_a_piece_without_a_value_says_nothing() -> None:
    data = streamed(piece("$.a", willContinue=True), piece("$.b", stringValue=None), piece("$.c", numberValue=1))
    assert both(data).answer.calls[0].arguments == '{"c":1}'


def test_paths_in_brackets() -> None:
    paths = ["$['a']", '$["b"]', "$['it\\'s']", '$["\\u00e9"]', "$['q\"']", "$['x'][0]['y']"]
    data = streamed(*(piece(path, numberValue=number) for number, path in enumerate(paths)))
    assert both(data).answer.calls[0].arguments == '{"a":0,"b":1,"it\'s":2,"\u00e9":3,"q\\"":4,"x":[{"y":5}]}'


def test_streamed_numbers_are_exact() -> None:
    raw = b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","partialArgs":[PIECE]}}]}}]}'
    number = b'{"jsonPath":"$.a","numberValue":123456789012345678901234567890}'
    assert both(event(raw.replace(b"PIECE", number)) + STOP).answer.calls[0].arguments == (
        '{"a":123456789012345678901234567890}'
    )


def test_halves_of_a_character_in_streamed_arguments_are_joined() -> None:
    def half(escaped: bytes, goes_on: bytes) -> bytes:
        found = b'{"jsonPath":"$.a","stringValue":"' + escaped + b'","willContinue":' + goes_on + b"}"
        part = b'{"functionCall":{"partialArgs":[' + found + b'],"willContinue":true}}'
        return event(b'{"candidates":[{"content":{"parts":[' + part + b"]}}]}")

    data = (
        chunk(call("f", willContinue=True))
        + half(rb"\ud83d", b"true")
        + half(rb"\ude00\ud800", b"false")
        + chunk(call())
        + STOP
    )
    assert decoded(data).kind == "protocol"
    seen = decoded(data, "lenient")
    assert seen.codes == ["lone_surrogate", "lone_surrogate"]
    assert seen.answer.calls[0].arguments == '{"a":"\U0001f600\ufffd"}'


def test_half_a_character_stays_half_where_another_part_begins() -> None:
    data = event(rb'{"candidates":[{"content":{"parts":[{"text":"a\ud83d"}]}}]}') + chunk(thought("t")) + STOP
    seen = decoded(data, "lenient")
    assert seen.answer.parts[0] == Text("a\ufffd")
    assert seen.text == "a\ufffd"


def test_half_a_character_is_not_delivered_when_the_input_ends() -> None:
    data = event(rb'{"candidates":[{"content":{"parts":[{"text":"\ud83d"}]}}]}')
    seen = decoded(data, "lenient")
    assert seen.kind == "truncated_stream"
    assert seen.text == ""


def test_a_signed_text_with_half_a_character() -> None:
    part = rb'{"text":"a\ud83d","thoughtSignature":"UzE="}'
    data = event(b'{"candidates":[{"content":{"parts":[' + part + b'],"role":"model"},"finishReason":"STOP"}]}')
    (found,) = decoded(data, "lenient").answer.parts
    assert found == Text("a\ufffd", Opaque("gemini", '{"text":"a\ufffd","thoughtSignature":"UzE="}'))


def test_a_signed_text_of_the_wrong_type_keeps_its_signature() -> None:
    seen = decoded(chunk({"text": 5, "thoughtSignature": "UzE="}, finish="STOP"), "lenient")
    assert seen.answer.parts == (Text("", Opaque("gemini", '{"text":5,"thoughtSignature":"UzE="}')),)
    assert seen.codes == ["wrong_type"]


def test_thought_of_the_wrong_type_is_ignored() -> None:
    data = chunk({"text": "a", "thought": "yes"}, finish="STOP")
    assert decoded(data).kind == "protocol"
    seen = decoded(data, "lenient")
    assert (seen.text, seen.reasoning, seen.codes) == ("a", "", ["wrong_type"])


# --- extra, tokens -------------------------------------------------------------------------------


def test_extra_keeps_what_is_beyond_the_protocol() -> None:
    usage = {"promptTokenCount": 1, "trafficType": "ON_DEMAND"}
    data = chunk(text("a"), usage=usage, citationMetadata={"x": 1}, tokenCount=1)
    data += chunk(finish="STOP", usage={"candidatesTokenCount": 2}, groundingMetadata={"y": 2}, citationMetadata=None)
    data += event({"promptFeedback": {"safetyRatings": []}, "createTime": "now"})
    assert both(data).answer.extra == {}
    assert both(data, extra=True).answer.extra == {
        "citationMetadata": {"x": 1},
        "tokenCount": 1,
        "groundingMetadata": {"y": 2},
        "promptFeedback": {"safetyRatings": []},
        "createTime": "now",
        "usage": {"promptTokenCount": 1, "trafficType": "ON_DEMAND", "candidatesTokenCount": 2},
    }


def test_extra_without_usage() -> None:
    assert both(STOP, extra=True).answer.extra == {}


def test_numbers_beyond_a_float_are_texts_in_extra() -> None:
    data = event(b'{"candidates":[{"avgLogprobs":1e999,"finishReason":"STOP"}],"usageMetadata":{"x":1e999}}')
    assert both(data, extra=True).answer.extra == {"avgLogprobs": "1e999", "usage": {"x": "1e999"}}


def test_a_pause_has_its_token_whether_extra_is_kept_or_not() -> None:
    data = chunk(text("a"), continuationToken="T1") + chunk(finish="CONTINUATION", continuationToken="T2")
    assert both(data).answer.extra == {"continuationToken": "T2"}
    assert both(data, extra=True).answer.extra == {"continuationToken": "T2"}
    assert both(data).token == "T2"


def test_a_pause_without_a_token() -> None:
    assert both(chunk(text("a"), finish="CONTINUATION")).answer.extra == {}


def test_a_checkpoint_is_no_extra_of_a_whole_answer() -> None:
    assert both(chunk(text("a"), continuationToken="T1") + STOP).answer.extra == {}


def test_the_token_of_a_cut_answer_is_on_the_decoder() -> None:
    decoder = Decoder()
    decoder.push(chunk(text("a"), continuationToken="T1"))
    decoder.push(chunk(text("b"), continuationToken=""))
    error = decoder.finish().error
    assert error is not None
    assert error.kind.value == "truncated_stream"
    assert decoder.continuation_token == "T1"


# --- errors --------------------------------------------------------------------------------------


def test_a_partial_answer_knows_usage_model_and_id() -> None:
    head = {"modelVersion": "m", "responseId": "r"}
    first = event(
        {"candidates": [{"content": {"parts": [text("a")]}}], "usageMetadata": {"promptTokenCount": 3}, **head}
    )
    error = decoded(first + chunk(call("f", args={"x": 1}))).error
    assert error is not None
    assert error.partial is not None
    assert (error.partial.usage, error.partial.model, error.partial.id) == (Usage(input=3), "m", "r")
    assert error.partial.parts == (Text("a"), ToolCall("", "f", '{"x":1}', complete=False))


def test_a_chunk_that_is_refused_delivers_nothing() -> None:
    seen = decoded(chunk(text("a")) + chunk(text("b"), call("f", args=5)) + STOP)
    assert seen.kind == "protocol"
    assert seen.text == "a"


@pytest.mark.parametrize("rest", [b"data: {", b'data: {"usageMetadata":{}', b"data: x"])
def test_an_answer_that_is_cut_inside_an_event_is_none_even_after_its_finish(rest: bytes) -> None:
    for mode in ("strict", "lenient"):
        assert decoded(chunk(text("a"), finish="STOP") + rest, mode).kind == "truncated_stream"


def test_a_last_field_without_data_cuts_nothing() -> None:
    assert both(chunk(text("a"), finish="STOP") + b"id: 1\n").text == "a"


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", "OTHER"])
def test_the_offset_is_that_of_the_finish_reason(finish: str) -> None:
    first = chunk(text("a"))
    error = decoded(first + chunk(finish=finish) + event({"usageMetadata": {}})).error
    assert error is not None
    assert error.offset == len(first)


def test_an_unknown_finish_is_on_record_where_it_stood() -> None:
    first = chunk(text("a"))
    last = chunk(finish="OTHER")
    (anomaly,) = decoded(first + last + event({}), "lenient").answer.anomalies
    assert anomaly.offset == len(first)
    assert anomaly.excerpt == last[6:-4][:80]


def test_the_words_of_a_failure_are_the_servers_message_only() -> None:
    error = decoded(chunk(finish="MALFORMED_FUNCTION_CALL", finishMessage="secret words")).error
    assert error is not None
    assert error.server_message() == "secret words"
    assert "secret" not in f"{error}{error!r}"


def test_names_of_candidates_that_were_skipped_count() -> None:
    other = event({"candidates": [{"index": 1, "finishReason": "STOP"}]})
    more = event({"candidates": [{"index": 1, "content": {"parts": [text("x")]}}]})
    seen = decoded(chunk(text("a"), finish="STOP") + other + more, "lenient")
    assert seen.answer.text == "a"
    assert seen.codes == ["other_choice", "other_choice"]


# --- options and bounds --------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"mode": "loose"}, {"limits": 5}, {"clock": 5}, {"extra": 1}])
def test_options_of_another_kind(options: Any) -> None:
    with pytest.raises(ConfigError):
        Decoder(**options)


def test_decode_stops_at_an_error() -> None:
    def source() -> Any:
        yield b'{"error":{"message":"no"}}'
        raise AssertionError("read on")

    with pytest.raises(ServerError, match="reported a failure"):
        list(decode(source()))


def test_decode_stops_at_a_whole_document() -> None:
    def source() -> Any:
        yield b'{"candidates":[{"finishReason":"STOP"}]}'
        raise AssertionError("read on")

    (only,) = decode(source(), mode="lenient")
    assert isinstance(only, Completed)


@pytest.mark.parametrize("depth", [100, 300, 1100])
def test_nests_are_kept_or_typed_errors(depth: int) -> None:
    nest = b'{"a":' * depth + b"1" + b"}" * depth
    for part in (b'{"new":' + nest + b"}", b'{"functionCall":{"name":"f","args":' + nest + b"}}"):
        seen = decoded(event(b'{"candidates":[{"content":{"parts":[' + part + b']},"finishReason":"STOP"}]}'))
        assert seen.kind in (None, "protocol")
        assert (seen.kind is None) is (depth == 100)


def test_the_decoder_is_linear() -> None:
    """Four times the pieces take about four times the time: text, parts, calls, and pieces of arguments."""

    def stream(size: int) -> bytes:
        fragment = chunk(pieces(piece("$.a[0].b", stringValue="x" * 20, willContinue=True)))
        items = b"".join(chunk(pieces(piece(f"$.l[{number}]", numberValue=1))) for number in range(size))
        kept = chunk(text("a"), {"new": 1}, text("b", thoughtSignature="UzE="), call("g", args={"a": 1}))
        return kept * size + chunk(call("f", willContinue=True)) + fragment * size + items + chunk(call()) + STOP

    def seconds(size: int) -> float:
        data = split_events(stream(size))
        begun = time.process_time()
        answer = see(data, limits=Limits(tool_calls=10_000)).answer
        assert len(answer.calls) == size + 1
        return time.process_time() - begun

    seconds(50)
    small = min(seconds(250) for _ in range(3))
    large = min(seconds(1000) for _ in range(3))
    assert large < 10 * small


def split_events(data: bytes) -> list[bytes]:
    return [each + b"\r\n\r\n" for each in data.split(b"\r\n\r\n") if each]


def test_there_are_streams() -> None:
    assert len(STREAMS) > 100

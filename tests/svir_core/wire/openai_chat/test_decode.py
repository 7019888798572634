"""The rules of 10-chat-completions sections 1 to 7 in both modes, each held at three cuts."""

from __future__ import annotations

from typing import Any

import pytest

from svir_core.errors import ConfigError, ProtocolError, TruncatedStreamError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.limits import Limits
from svir_core.message import Opaque, Reasoning, Text, ToolCall
from svir_core.response import FinishReason, Usage
from svir_core.think import Think
from svir_core.wire.openai_chat.decode import Decoder, decode
from tests.svir_core.wire.openai_chat.streams import (
    DONE,
    MODES,
    both,
    call,
    calls,
    choices,
    chunk,
    decoded,
    document,
    event,
    finish,
    refused,
    see,
    stream,
    text,
)

HELLO = stream(text("Hel"), text("lo"))


# --- 1 framing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n\n", b"\xef\xbb\xbf\n"])
def test_line_ends_and_a_byte_order_mark_say_nothing(ending: bytes, start: bytes) -> None:
    seen = both((start + HELLO).replace(b"\n", ending))
    assert seen.answer.text == "Hello"
    assert seen.events[:2] == (TextDelta("Hel"), TextDelta("lo"))


def test_line_ends_may_be_mixed() -> None:
    body = text("a").replace(b"\n", b"\r\n") + text("b").replace(b"\n", b"\r") + text("c") + finish() + DONE
    assert both(body).answer.text == "abc"


def test_a_line_separator_inside_json_ends_no_line() -> None:
    assert both(stream(text("a\u2028b\u2029c\x85d"))).answer.text == "a\u2028b\u2029c\x85d"


@pytest.mark.parametrize("prefix", [b"data:", b"data: "])
def test_one_space_after_the_colon_is_not_payload(prefix: bytes) -> None:
    assert both(HELLO.replace(b"data: ", prefix)).answer.text == "Hello"


def test_two_spaces_are_one_of_payload() -> None:
    assert both(stream(text("x")).replace(b"data: {", b"data:  {")).answer.text == "x"
    assert decoded(text("x") + finish() + b"data:  [DONE]\n\n").kind == "protocol"


def test_data_lines_join_with_a_line_feed() -> None:
    body = chunk({"content": "joined"}).replace(b',"object"', b'\ndata: ,"object"')
    assert both(stream(body)).answer.text == "joined"


@pytest.mark.parametrize(
    "heartbeat",
    [
        b": ping\n\n",
        b":\n",
        b": a\n: b\n",
        b"id: 1\n\n",
        b"retry: 5\n\n",
        b"id\n\n",
        b"event: message\n\n",
        b"data:\n\n",
        b"data: \n\n",
        b"data\n\n",
        b"\n\n\n",
        b": \xff\n",
        b"event:\n\n",
        b"event: message\ndata:\n\n",
    ],
)
def test_heartbeats_and_known_fields_say_nothing(heartbeat: bytes) -> None:
    assert both(heartbeat + text("a") + heartbeat + text("b") + heartbeat + finish() + heartbeat + DONE).text == "ab"


def test_a_comment_above_the_data_and_fields_beside_it() -> None:
    body = stream(b": c\nevent: message\nid: 7\n" + text("a"))
    assert both(body).answer.text == "a"


def test_heartbeats_and_comments_are_counted() -> None:
    decoder = Decoder()
    for _ in decoder.push(b": a\n: b\n\nid: 1\n\n\n\n" + text("a") + b"data:\n\n"):
        pass
    assert decoder.events_seen == 5
    assert decoder.output_seen == 1


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"foo: bar\n\n", "unknown_field"),
        (b"foo\n", "unknown_field"),
        (b" data: x\n", "unknown_field"),
        (b"Data: x\n", "unknown_field"),
        (b"error: words\n\n", "unknown_field"),
        (b'{"neither": 1}\n', "unknown_field"),
        (b"event: ping\n\n", "unknown_event"),
        (b"event: ping\ndata: skipped\n\n", "unknown_event"),
        (b"id: \xff\n\n", "invalid_utf8"),
    ],
)
def test_junk_lines_and_event_types(line: bytes, code: str) -> None:
    kind = "protocol" if code == "invalid_utf8" else "unsupported"
    seen = refused(text("a") + line + stream(text("b")), kind, code)
    assert seen.answer.text == "ab"
    assert seen.answer.anomalies[0].offset == len(text("a"))
    assert seen.answer.anomalies[0].excerpt == line.split(b"\n")[0]


def test_an_unknown_type_takes_its_data_with_it_wherever_it_stands() -> None:
    body = text("a") + b"event: ping\n" + text("x") + b"data: [DONE]\nevent: other\n\n" + finish() + DONE
    assert decoded(body, "lenient").kind == "truncated_stream"  # [DONE] ends at its line
    body = text("a") + text("x").rstrip() + b"\nevent: ping\n\n" + finish() + DONE
    assert refused(body, "unsupported", "unknown_event").text == "a"


def test_the_last_type_of_an_event_counts() -> None:
    assert refused(b"event: ping\nevent: message\n" + stream(text("a")), "unsupported", "unknown_event").text == "a"


@pytest.mark.parametrize("tail", [b"foo: bar\n", b"event: ping\n"])
def test_a_junk_line_at_the_end_is_judged_though_its_event_never_ends(tail: bytes) -> None:
    assert decoded(text("a") + tail).kind == "unsupported"
    assert decoded(text("a") + tail, "lenient").kind == "truncated_stream"


def test_a_junk_line_without_its_end_is_not_judged() -> None:
    assert both(text("a") + b"foo: ba").kind == "truncated_stream"


def test_bytes_after_done_are_never_looked_at() -> None:
    for trailing in (b"foo: junk\n", event('{"error": "late"}'), b"\xff" * 50, text("late")):
        assert both(HELLO + trailing).answer.text == "Hello"
        assert both(HELLO[:-1] + trailing).answer.text == "Hello"
    assert see([HELLO + b"x" * 1_000_000]).answer.text == "Hello"
    decoder = Decoder()
    assert decoder.push(HELLO + b": x\n\n: y\n").error is None
    seen = decoder.events_seen
    assert seen == 4
    assert list(decoder.push(b"foo: junk\n\n")) == []
    assert list(decoder.finish()) == []
    assert decoder.events_seen == seen


@pytest.mark.parametrize(
    "end", [b"data: [DONE]", b"data: [DONE]\n", b"data:[DONE]", b"data: [DONE]\r", b": c\ndata: [DONE]"]
)
def test_done_at_the_end_of_input_needs_no_line_end(end: bytes) -> None:
    assert both(text("a") + finish() + end).answer.text == "a"


def test_done_is_the_whole_payload_of_its_event() -> None:
    body = text("a") + finish() + b"data: x\ndata: [DONE]\n\n"
    assert decoded(body).kind == "protocol"
    assert decoded(text("a") + finish() + b"data: [DONE]x\n\n").kind == "protocol"
    assert both(text("a") + finish() + b"data: [DO").kind == "truncated_stream"


def test_input_that_ends_inside_an_event_drops_it() -> None:
    cut_finish = finish().rstrip(b"\n")
    assert decoded(text("a") + cut_finish).kind == "truncated_stream"
    assert decoded(text("a") + chunk({}, "tool_calls").rstrip()).kind == "truncated_stream"
    assert decoded(text("a") + chunk({"odd": 1}).rstrip()).kind == "truncated_stream"


@pytest.mark.parametrize("rest", [b"\n", b""])
def test_lenient_delivers_an_unfinished_event_that_is_whole(rest: bytes) -> None:
    body = text("a") + text("b").rstrip() + rest
    strict, lenient = decoded(body), decoded(body, "lenient")
    assert (strict.kind, strict.text) == ("truncated_stream", "a")
    assert (lenient.kind, lenient.text) == ("truncated_stream", "ab")
    assert lenient.codes == ["unterminated_event"]
    assert lenient.error is not None
    assert lenient.error.anomalies[0].offset == len(text("a"))


def test_an_unfinished_event_completes_nothing_by_itself() -> None:
    seen = decoded(text("a") + finish().rstrip(), "lenient")
    assert (seen.kind, seen.codes) == ("truncated_stream", ["unterminated_event"])
    assert decoded(text("a") + text("b")[:-4], "lenient").codes == []
    assert decoded(text("a") + b"data: 5", "lenient").codes == []
    assert decoded(text("a") + text("b").rstrip() + b"\nid: 5", "lenient").text == "ab"
    assert decoded(text("a") + b"event: odd\n" + text("b").rstrip(), "lenient").text == "a"
    assert decoded(text("a") + chunk({}, "odd").rstrip(), "lenient").kind == "unsupported"


@pytest.mark.parametrize("kind", [b"id", b"data"])
def test_invalid_utf8(kind: bytes) -> None:
    seen = refused(stream(text("a"), chunk({"content": "x"}).replace(b"x", b"\xe2\x82")), "protocol", "invalid_utf8")
    assert seen.answer.text == "a\ufffd"


def test_a_cut_inside_a_character_is_not_invalid() -> None:
    assert both(stream(text("日本語 🙂"))).answer.text == "日本語 🙂"


@pytest.mark.parametrize("payload", ["5", '"x"', "[1]", "null", "{", "nonsense", '{"a": NaN}', " ", "\xff"])
def test_a_payload_that_is_no_object(payload: str) -> None:
    seen = refused(stream(text("a"), event(payload), text("b")), "protocol", "not_an_object")
    assert seen.answer.text == "ab"
    assert seen.answer.anomalies[0].excerpt == payload.encode()


# --- 2 chunks -------------------------------------------------------------------------------------


def test_unknown_keys_of_chunk_and_choice_are_accepted() -> None:
    body = stream(
        event(
            document(obfuscation="xyz", timings={"a": 1}, service_tier=None) | {"choices": choices({"content": "a"})}
        ),
        event(document() | {"choices": choices({"content": "b"}, logprobs={"content": []}, token_ids=[1])}),
    )
    assert both(body).answer.text == "ab"


def test_unknown_keys_of_the_delta_are_not() -> None:
    seen = refused(stream(chunk({"content": "a", "audio": {}})), "unsupported", "unknown_delta_key")
    assert seen.answer.text == "a"
    assert refused(stream(chunk({"name": ""})), "unsupported", "unknown_delta_key").answer.text == ""
    legacy = {"function_call": {"name": "f", "arguments": "{}"}}
    assert refused(stream(chunk(legacy)), "unsupported", "unknown_delta_key").answer.calls == ()


def test_null_says_nothing() -> None:
    delta = {"tool_call_id": None, "name": None, "role": None, "content": None, "reasoning": None, "refusal": None}
    body = stream(chunk({**delta, "tool_calls": None}), chunk({"content": "a", "name": None}))
    assert both(body).answer.text == "a"


def test_absent_and_empty_values() -> None:
    body = (
        event({"choices": [{"delta": None}]})
        + event({"id": "", "model": None, "choices": [{"index": None, "delta": "", "finish_reason": ""}]})
        + event({"choices": [{"index": 0, "delta": {"role": "", "content": "", "tool_calls": [], "refusal": ""}}]})
        + text("a")
        + event({"usage": "", "choices": [{"index": 0, "finish_reason": "stop"}]})
        + event({"choices": None})
        + event({})
        + DONE
    )
    answer = both(body).answer
    assert (answer.text, answer.id, answer.model, answer.usage) == ("a", "c1", "m", None)


@pytest.mark.parametrize(
    "delta",
    [
        {"content": True},
        {"content": ["x"]},
        {"content": {}},
        {"role": 1},
        {"reasoning": 1},
        {"reasoning_content": []},
        {"refusal": 2.5},
        {"tool_calls": "x"},
        {"tool_calls": {"0": 1}},
    ],
)
def test_a_known_key_of_the_wrong_type(delta: dict[str, Any]) -> None:
    assert refused(stream(text("a"), chunk(delta)), "protocol", "wrong_type").answer.text == "a"


WRONG_MEMBERS: list[dict[str, Any]] = [
    {"id": 5},
    {"model": ["m"]},
    {"choices": [5]},
    {"choices": {"index": 0}},
    {"choices": [{"index": "0", "delta": {}}]},
    {"choices": [{"index": False, "delta": {}}]},
    {"choices": [{"index": 0, "delta": [1]}]},
]


@pytest.mark.parametrize("members", WRONG_MEMBERS)
def test_a_chunk_with_a_member_of_the_wrong_type(members: dict[str, Any]) -> None:
    assert refused(stream(text("a"), event(document() | members), text("b")), "protocol", "wrong_type").text == "ab"


def test_several_choices() -> None:
    two = [*choices({"content": "a"}), {"index": 1, "delta": {"content": "x"}}]
    seen = refused(
        stream(event(document() | {"choices": two}), event(document() | {"choices": two[1:]}), text("b")),
        "unsupported",
        "other_choice",
        "other_choice",
    )
    assert seen.answer.text == "ab"


def test_lenient_takes_the_index_first_seen() -> None:
    other = event(document() | {"choices": [{"index": 2, "delta": {"content": "two"}, "finish_reason": "stop"}]})
    assert refused(other + DONE, "unsupported", "other_choice").answer.text == "two"
    seen = refused(other + text("zero") + DONE, "unsupported", "other_choice", "other_choice")
    assert seen.answer.text == "two"
    late: list[Any] = [{"index": 1, "delta": {}}, {"index": 2, "delta": {"content": 1.50}}]
    body = other.replace(b'"stop"', b"null") + event(document() | {"choices": late}) + other + DONE
    assert refused(body, "unsupported", *["other_choice"] * 2, "number_as_content").answer.text == "two1.5two"


def test_the_answer_twice_in_one_chunk_is_refused_by_both() -> None:
    body = stream(event(document() | {"choices": choices({"content": "a"}) * 2}))
    assert [decoded(body, mode).kind for mode in MODES] == ["unsupported", "unsupported"]


@pytest.mark.parametrize("value", [[], None])
def test_no_choices_before_the_finish(value: Any) -> None:
    report = {"prompt_tokens": 1, "completion_tokens": 2}
    body = stream(event(document(usage=report) | {"choices": value}), text("a"))
    seen = refused(body, "protocol", "no_choices")
    assert (seen.answer.text, seen.answer.usage) == ("a", Usage(1, 2))


def test_id_and_model_stay() -> None:
    assert refused(stream(text("a"), chunk({"content": "b"}, id="c2")), "protocol", "id_changed").answer.id == "c1"
    seen = refused(stream(text("a"), chunk({"content": "b"}, model="n")), "protocol", "model_changed")
    assert (seen.answer.model, seen.answer.text) == ("m", "ab")


@pytest.mark.parametrize("word", ["eos", "STOP", "function_call", 5, True, ["stop"]])
def test_an_unknown_finish_reason_is_refused_by_both(word: Any) -> None:
    seen = both(stream(text("a"), chunk({"content": "b"}, word)))
    assert (seen.kind, seen.text) == ("unsupported", "a")
    assert seen.message == (word if isinstance(word, str) else None)
    assert str(word) not in str(seen.error)


@pytest.mark.parametrize(
    "late",
    [
        {"content": "x"},
        {"reasoning": "x"},
        {"reasoning_content": "x"},
        {"refusal": "x"},
        {"tool_calls": [call(id="a")]},
        {"tool_calls": [call(arguments="{}")]},
    ],
)
def test_content_after_the_finish_is_refused_by_both(late: dict[str, Any]) -> None:
    assert both(text("a") + finish() + chunk(late) + DONE).kind == "unsupported"


@pytest.mark.parametrize("word", ["stop", "length"])
def test_another_finish_reason_is_refused_by_both(word: str) -> None:
    assert both(text("a") + finish() + finish(word) + DONE).kind == "unsupported"


def test_text_in_the_finish_chunk_and_empty_deltas_after_it() -> None:
    late: list[dict[str, Any]] = [
        {},
        {"content": ""},
        {"tool_calls": []},
        {"tool_calls": [call(3, arguments="", id=None, name="")]},
    ]
    body = chunk({"content": "a"}, "stop") + b"".join(map(chunk, late)) + chunk({"role": "assistant"}) + DONE
    assert both(body).answer.text == "a"


def test_text_is_never_trimmed() -> None:
    assert both(stream(text("\n\n a \n"))).answer.text == "\n\n a \n"


def test_one_delta_may_carry_everything() -> None:
    delta = {
        "tool_calls": [call(0, id="i", name="f"), call(0, arguments="{"), call(0, arguments="}")],
        "content": "said",
        "reasoning": "thought",
    }
    seen = both(chunk(delta, "tool_calls") + DONE)
    assert seen.events[:-1] == (
        ReasoningDelta("reasoning", "thought"),
        TextDelta("said"),
        ToolCallDelta(0, "i", "f", None),
        ToolCallDelta(0, None, None, "{"),
        ToolCallDelta(0, None, None, "}"),
    )
    assert seen.answer.parts == (Reasoning("reasoning", "thought"), Text("said"), ToolCall("i", "f", "{}"))


# --- 3 tool calls ---------------------------------------------------------------------------------


def test_pieces_of_calls_interleave() -> None:
    body = stream(
        calls(call(1, id="b", type="function", name="se")),
        calls(call(0, id="a", name="fi"), call(1, name="cond", arguments="{")),
        calls(call(0, id="a", type="", name="rst")),
        calls(call(1, id="", arguments="}"), call(0, arguments="{}")),
        end=finish("tool_calls") + DONE,
    )
    seen = both(body)
    assert seen.answer.calls == (ToolCall("a", "first", "{}"), ToolCall("b", "second", "{}"))
    assert seen.answer.finish is FinishReason.TOOL_CALLS
    assert seen.events[0] == ToolCallDelta(1, "b", "se", None)


def test_parts_keep_the_order_they_came_in() -> None:
    body = stream(
        text("a"),
        text("b"),
        calls(call(0, id="x", name="f", arguments="{")),
        text("c"),
        calls(call(0, arguments="}")),
        text("d"),
        chunk({"reasoning": "r"}),
        chunk({"reasoning_content": "s"}),
        chunk({"reasoning": "t"}),
        end=finish("tool_calls") + DONE,
    )
    answer = both(body).answer
    assert answer.parts == (
        Text("ab"),
        ToolCall("x", "f", "{}"),
        Text("cd"),
        Reasoning("reasoning", "r"),
        Reasoning("reasoning_content", "s"),
        Reasoning("reasoning", "t"),
    )
    assert answer.reasoning == (Reasoning("reasoning", "rt"), Reasoning("reasoning_content", "s"))


WHOLE = call(0, id="i", name="f", arguments="{}")


REFUSED_CALLS: list[tuple[list[Any], str]] = [
    ([WHOLE, call(0, id="other")], "protocol"),
    ([call(1, id="i", name="f")], "protocol"),
    ([WHOLE, call(2, id="j", name="f")], "protocol"),
    ([call(0, name="f")], "protocol"),
    ([call(0, id="", name="f")], "protocol"),
    ([call(0, id="i")], "protocol"),
    ([call(0, id="i", arguments="{}")], "protocol"),
    ([WHOLE, call(1, id="i", name="g")], "protocol"),
    ([call(64, id="i", name="f")], "response_limit"),
    ([WHOLE, call(10**9, id="j")], "response_limit"),
    ([call(-1, id="i")], "protocol"),
    ([call(None, id="i", name="f")], "protocol"),
    ([call("0", id="i", name="f")], "protocol"),
    ([call(True, id="i", name="f")], "protocol"),
    ([call(0.0, id="i", name="f")], "protocol"),
    ([{"id": "i"}], "protocol"),
    ([5], "protocol"),
    ([call(0, id=5)], "protocol"),
    ([call(0, id="i", name=["f"])], "protocol"),
    ([call(0, id="i", name="f", arguments={})], "protocol"),
    ([{"index": 0, "function": []}], "protocol"),
    ([call(0, id="i", name="f", type=7)], "protocol"),
    ([call(0, id="i", name="f", type="custom")], "unsupported"),
]


@pytest.mark.parametrize(("pieces", "kind"), REFUSED_CALLS)
def test_calls_that_no_mode_takes(pieces: list[Any], kind: str) -> None:
    body = stream(*map(calls, pieces), end=finish("tool_calls") + DONE)
    assert both(body).kind == kind
    assert both(stream(calls(*pieces), end=finish("tool_calls") + DONE)).kind == kind


def test_the_limit_of_calls_is_an_option() -> None:
    body = stream(calls(WHOLE, call(1, id="j", name="g")), end=finish("tool_calls") + DONE)
    assert both(body, limits=Limits(tool_calls=1)).kind == "response_limit"
    assert len(both(body, limits=Limits(tool_calls=2)).answer.calls) == 2


def test_an_id_may_come_late_and_come_again() -> None:
    body = stream(
        calls(call(0, name="f")), calls(call(0, id="i")), calls(call(0, id="i")), end=finish("tool_calls") + DONE
    )
    assert both(body).answer.calls == (ToolCall("i", "f", ""),)


@pytest.mark.parametrize(
    ("word", "arguments", "complete"),
    [
        ("tool_calls", '{"a": 1}', True),
        ("tool_calls", "", True),
        ("tool_calls", '{"a": ', False),
        ("tool_calls", "[]", False),
        ("tool_calls", "null", False),
        ("stop", "{}", True),
        ("length", "{}", True),
        ("length", '{"a', False),
        ("length", "", False),
    ],
)
def test_a_call_is_complete_when_its_arguments_are_one_object(word: str, arguments: str, complete: bool) -> None:
    body = stream(calls(call(0, id="i", name="f", arguments=arguments)), end=finish(word) + DONE)
    answer = both(body).answer
    assert answer.calls == (ToolCall("i", "f", arguments, complete=complete),)
    assert answer.finish.value == ("length" if word == "length" else "tool_calls")
    assert answer.raw_finish == word


@pytest.mark.parametrize("word", ["tool_calls", "content_filter"])
def test_finishes_that_do_not_fit_the_answer(word: str) -> None:
    with_calls = stream(calls(WHOLE), end=finish(word) + DONE)
    without = stream(text("a"), end=finish(word) + DONE)
    assert both(with_calls).kind == (None if word == "tool_calls" else "protocol")
    assert both(without).kind == ("protocol" if word == "tool_calls" else None)


def test_calls_exist_only_after_finish_and_done() -> None:
    decoder = Decoder()
    assert decoder.push(calls(WHOLE) + finish("tool_calls")).error is None
    assert decoder.completion is None
    assert decoder.partial.parts == (ToolCall("i", "f", "{}", complete=False),)
    last = list(decoder.push(DONE))
    assert isinstance(last[-1], Completed)
    assert decoder.result().calls[0].complete


def test_unknown_keys_of_a_call_are_kept() -> None:
    body = stream(
        calls({**WHOLE, "extra_content": {"z": "é", "a": [1, 2.5]}, "nothing": None}),
        calls(call(0, more="x", id="i")),
        end=finish("tool_calls") + DONE,
    )
    opaque = Opaque("openai_chat", '{"extra_content":{"z":"é","a":[1,2.5]},"more":"x"}')
    assert both(body).answer.calls == (ToolCall("i", "f", "{}", opaque=opaque),)


def test_numbers_in_unknown_keys_of_a_call_are_exact() -> None:
    large = 2**80 + 1
    piece = calls({**WHOLE, "extra": 0}).replace(b'"extra":0', b'"extra":{"n":[%d,0.5,-1e5]}' % large)
    (made,) = both(stream(piece, end=finish("tool_calls") + DONE)).answer.calls
    assert made.opaque == Opaque("openai_chat", f'{{"extra":{{"n":[{large},0.5,-100000.0]}}}}')


def test_calls_must_be_a_list_also_after_calls() -> None:
    body = stream(calls(WHOLE), chunk({"tool_calls": "x"}), end=finish("tool_calls") + DONE)
    assert len(refused(body, "protocol", "wrong_type").answer.calls) == 1


def test_a_piece_that_says_nothing_opens_no_call() -> None:
    assert both(stream(calls(call(5, id=None, function=None)), text("a"))).answer.calls == ()


# --- 4 refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "finished"), [("stop", "refusal"), ("length", "refusal"), ("content_filter",) * 2])
def test_a_refusal_is_text_and_a_finish(word: str, finished: str) -> None:
    body = stream(chunk({"refusal": "I <think>"}), chunk({"refusal": "can't"}), end=finish(word) + DONE)
    answer = both(body).answer
    assert (answer.text, answer.finish.value, answer.raw_finish) == ("I <think>can't", finished, word)


@pytest.mark.parametrize("nothing", ["", None])
def test_an_empty_refusal_is_none(nothing: Any) -> None:
    assert both(stream(chunk({"refusal": nothing}), text("a"))).answer.finish is FinishReason.STOP


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"content": "a"}, {"refusal": "r"}),
        ({"refusal": "r"}, {"content": "a"}),
        ({"refusal": "r"}, {"tool_calls": [WHOLE]}),
        ({"tool_calls": [WHOLE]}, {"refusal": "r"}),
    ],
)
def test_a_refusal_mixes_with_nothing(first: dict[str, Any], second: dict[str, Any]) -> None:
    seen = both(stream(chunk(first), chunk(second)))
    assert seen.kind == "protocol"
    assert len(seen.events) == 1
    seen = both(stream(chunk({**first, **second})))
    assert (seen.kind, seen.events) == ("protocol", ())


def test_a_refusal_with_a_tool_calls_finish() -> None:
    assert both(stream(chunk({"refusal": "r"}), end=finish("tool_calls") + DONE)).kind == "protocol"


def test_reasoning_before_a_refusal_is_fine() -> None:
    answer = both(stream(chunk({"reasoning": "hm"}), chunk({"refusal": "no", "reasoning": "x"}))).answer
    assert (answer.text, answer.reasoning) == ("no", (Reasoning("reasoning", "hmx"),))


# --- 5 reasoning ----------------------------------------------------------------------------------


def test_the_same_text_under_both_keys_is_one_piece() -> None:
    seen = both(stream(chunk({"reasoning": "a", "reasoning_content": "a"})))
    assert seen.events[:-1] == (ReasoningDelta("reasoning_content", "a"),)


def test_different_texts_under_both_keys_are_two() -> None:
    seen = both(stream(chunk({"reasoning": "a", "reasoning_content": "b"})))
    assert seen.events[:-1] == (ReasoningDelta("reasoning_content", "b"), ReasoningDelta("reasoning", "a"))


@pytest.mark.parametrize("stride", [1, 2, 3, 5, 100])
def test_think_tags_split_at_any_cut(stride: int) -> None:
    whole = "a <b<think>why<think> </thin</think>z</think><"
    body = stream(*(text(whole[start : start + stride]) for start in range(0, len(whole), stride)))
    answer = both(body).answer
    assert answer.parts == (Text("a <b"), Reasoning("think", "why<think> </thin"), Text("z</think><"))


def test_think_tags_are_kept_on_request() -> None:
    assert both(stream(text("<think>a</think>b")), think="keep").answer.text == "<think>a</think>b"


def test_think_may_begin_inside() -> None:
    answer = both(stream(text("why"), text("</th"), text("ink>b")), think="inside").answer
    assert answer.parts == (Reasoning("think", "why"), Text("b"))


def test_think_markers_may_be_others() -> None:
    think = Think(start="inside", markers=("[THINK]", "[/THINK]"))
    answer = both(stream(text("why[/THINK]b[THINK]c[/T")), think=think).answer
    assert answer.parts == (Reasoning("think", "why"), Text("b"), Reasoning("think", "c[/T"))


def test_a_held_back_tail_is_text_at_the_end_and_nothing_on_an_error() -> None:
    held = text("a<thi")
    seen = both(stream(held))
    assert seen.events[:-1] == (TextDelta("a"), TextDelta("<thi"))
    for rest in (b"", finish(), finish() + event('{"error": "x"}'), finish("tool_calls") + DONE):
        seen = both(held + rest)
        assert seen.error is not None
        assert seen.error.partial is not None
        assert seen.error.partial.text == seen.text == "a"


def test_a_delta_of_only_a_marker_is_no_event() -> None:
    seen = both(stream(text("<think>"), text("x"), text("</think>"), text("y")))
    assert seen.events[:-1] == (ReasoningDelta("think", "x"), TextDelta("y"))


# --- 6 usage --------------------------------------------------------------------------------------

REPORT = {"prompt_tokens": 5, "completion_tokens": 7}


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (REPORT, Usage(5, 7)),
        ({**REPORT, "total_tokens": 12}, Usage(5, 7, 12)),
        (
            {
                **REPORT,
                "total_tokens": None,
                "completion_tokens_details": {"reasoning_tokens": 3, "other": 1},
                "prompt_tokens_details": {"cached_tokens": 0},
            },
            Usage(5, 7, None, 3, 0),
        ),
        ({**REPORT, "completion_tokens_details": None, "prompt_tokens_details": {}}, Usage(5, 7)),
    ],
)
def test_usage_is_read_wherever_it_stands(report: dict[str, Any], expected: Usage) -> None:
    last = event(document(usage=report) | {"choices": []})
    assert both(text("a") + finish() + last + DONE).answer.usage == expected
    assert both(stream(chunk({"content": "a"}, usage=report))).answer.usage == expected
    assert both(stream(text("a"), chunk(x_groq={"id": 1, "usage": report}))).answer.usage == expected
    inside = event(document() | {"choices": choices({"content": "b"}, usage=report)})
    assert (
        both(stream(text("a"), inside, last.replace(b'"choices":[]', b'"choices":[{"index":0}]'))).answer.usage
        == expected
    )


def test_no_report_is_fine_and_null_is_none() -> None:
    assert both(stream(chunk({"content": "a"}, usage=None, x_groq={}), chunk(x_groq=5))).answer.usage is None


def test_the_same_figures_twice_are_one_report() -> None:
    assert both(stream(chunk(usage=REPORT, x_groq={"usage": REPORT}), chunk(usage=REPORT))).answer.usage == Usage(5, 7)


def test_two_reports() -> None:
    body = stream(chunk({"content": "a"}, usage=REPORT), chunk(usage={**REPORT, "completion_tokens": 8}))
    assert refused(body, "protocol", "usage_repeated").answer.usage == Usage(5, 8)


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"prompt_tokens": 1},
        {"completion_tokens": 1},
        {"prompt_tokens": None, "completion_tokens": 1},
        {**REPORT, "total_tokens": "12"},
        {**REPORT, "total_tokens": -1},
        {**REPORT, "prompt_tokens": True},
        {**REPORT, "completion_tokens": 7.0},
        {**REPORT, "prompt_tokens_details": 5.5},
        [1],
        5,
    ],
)
def test_a_report_that_is_none(report: Any) -> None:
    body = stream(chunk({"content": "a"}), chunk(usage=report))
    assert refused(body, "protocol", "usage_incomplete").answer.usage is None


def test_a_bad_report_takes_its_chunk_with_it() -> None:
    seen = decoded(stream(text("a"), chunk({"content": "b"}, usage={})))
    assert (seen.kind, seen.text) == ("protocol", "a")


# --- 7 failures, limits, what is delivered --------------------------------------------------------


@pytest.mark.parametrize("cut", [b"", text("a"), text("a") + finish(), b": ping\n\n"])
def test_an_end_of_input_before_done(cut: bytes) -> None:
    assert both(cut).kind == "truncated_stream"


def test_done_before_a_finish() -> None:
    seen = both(text("a") + DONE)
    assert (seen.kind, seen.text) == ("truncated_stream", "a")
    assert seen.error is not None
    assert seen.error.retryable


def test_the_wire_limit_counts_all_bytes() -> None:
    size = len(HELLO)
    assert both(HELLO, limits=Limits(wire_bytes=size)).answer.text == "Hello"
    assert both(HELLO + b": trailing", limits=Limits(wire_bytes=size)).answer.text == "Hello"
    seen = both(HELLO, limits=Limits(wire_bytes=len(text("Hel")) + 5))
    assert (seen.kind, seen.text) == ("response_limit", "Hel")
    assert both(b": " + b"x" * 50 + b"\n" + HELLO, limits=Limits(wire_bytes=40)).kind == "response_limit"
    assert both(b" " * 50, limits=Limits(wire_bytes=40)).kind == "response_limit"
    assert both(b"<html>" + b" " * 50, limits=Limits(wire_bytes=40)).kind == "response_limit"


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_the_event_limit(ending: bytes) -> None:
    big = text("x" * 200)
    body = stream(text("a"), big).replace(b"\n", ending)
    size = len(big) - 1  # the data line and one byte for its end
    assert both(body, limits=Limits(event_bytes=size)).answer.text == "a" + "x" * 200
    seen = both(body, limits=Limits(event_bytes=size - 1))
    assert (seen.kind, seen.text) == ("response_limit", "a")


@pytest.mark.parametrize(
    "large",
    [
        b"data: a\n" * 40,
        b"id: 1\n" * 40,
        b": " + b"x" * 300,
        b": " + b"x" * 300 + b"\n",
        b"foo" * 100,
        b"{\n" + b'"a": 1,\n' * 40,
        b"data: " + b" " * 300 + b"\n\n",
    ],
)
def test_whatever_is_held_is_bounded(large: bytes) -> None:
    assert both(text("a") + large, limits=Limits(event_bytes=150)).kind == "response_limit"


def test_comments_belong_to_no_event() -> None:
    assert both(b": ping\n" * 100 + HELLO, limits=Limits(event_bytes=150)).answer.text == "Hello"


def test_the_limits_themselves() -> None:
    assert see([text("x" * 300_000)]).kind == "response_limit"
    assert see([text("x" * 300_000)[:290_000]]).kind == "response_limit"
    body = text("x" * 200_000)
    pieces = 64 * 1024 * 1024 // len(body)
    assert see([body] * pieces).kind == "truncated_stream"
    assert see([body] * (pieces + 1)).kind == "response_limit"


def test_events_come_first_then_the_error() -> None:
    events = Decoder().push(text("a") + text("b") + event("nonsense") + text("c"))
    assert list(events.items) == [TextDelta("a"), TextDelta("b")]
    with pytest.raises(ProtocolError):
        list(events)
    told: list[Event] = []
    with pytest.raises(ProtocolError) as raised:
        told.extend(events)
    assert told == [TextDelta("a"), TextDelta("b")]
    assert raised.value.partial is not None
    assert raised.value.partial.text == "ab"
    assert raised.value.offset == 2 * len(text("a"))
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("following", ["push", "finish", "result"])
def test_an_error_nobody_saw_is_raised_by_the_next_call(following: str) -> None:
    decoder = Decoder()
    events = decoder.push(text("a") + event("nonsense"))
    assert (len(events), events[0]) == (1, TextDelta("a"))
    with pytest.raises(ProtocolError) as raised:
        decoder.push(b"x") if following == "push" else getattr(decoder, following)()
    assert raised.value is decoder.error
    assert list(decoder.push(b"x")) == []
    assert list(decoder.finish()) == []


def test_an_error_that_was_seen_is_not_raised_again() -> None:
    decoder = Decoder()
    with pytest.raises(ProtocolError):
        list(decoder.push(event("nonsense")))
    assert list(decoder.push(text("x"))) == []
    assert list(decoder.finish()) == []
    with pytest.raises(ProtocolError):
        decoder.result()


def test_a_finished_decoder_says_nothing() -> None:
    decoder = Decoder()
    with pytest.raises(ConfigError, match="not ended"):
        decoder.result()
    events = list(decoder.push(HELLO))
    assert (decoder.done, decoder.error) == (True, None)
    assert decoder.result() is decoder.completion
    assert events[-1] == Completed(decoder.result())
    assert list(decoder.push(text("x"))) == []
    assert list(decoder.finish()) == []
    assert decoder.bytes_seen == len(HELLO)


def test_a_chunk_contributes_all_or_nothing() -> None:
    bad = [
        chunk({"content": "x", "reasoning": "y", "tool_calls": [WHOLE, call(1, id=5)]}),
        chunk({"content": "x", "tool_calls": [call(0, id="i", name="f"), call(0, id="j")]}),
        chunk({"content": "x"}, "odd"),
        chunk({"content": "x", "refusal": "y"}),
        chunk({"content": "x"}, usage={"prompt_tokens": -1}),
    ]
    for last in bad:
        seen = decoded(text("a") + last)
        assert seen.error is not None
        assert seen.events == (TextDelta("a"),)
        assert seen.error.partial is not None
        assert seen.error.partial.parts == (Text("a"),)


def test_partial_is_on_every_error_with_its_parts_in_order() -> None:
    body = chunk({"reasoning": "r"}) + text("a") + calls(call(0, id="i", name="f", arguments="{")) + text("b")
    seen = both(body + chunk(usage=REPORT))
    assert seen.error is not None
    partial = seen.error.partial
    assert partial is not None
    assert partial.parts == (
        Reasoning("reasoning", "r"),
        Text("a"),
        ToolCall("i", "f", "{", complete=False),
        Text("b"),
    )
    assert (partial.usage, partial.model, partial.id) == (Usage(5, 7), "m", "c1")
    assert (partial.text, partial.reasoning) == ("ab", "r")


# --- the decoder as an object ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_push_takes_bytes_of_any_kind(kind: type) -> None:
    decoder = Decoder()
    assert [type(each) for each in decoder.push(kind(HELLO))] == [TextDelta, TextDelta, Completed]


def test_push_takes_nothing_else() -> None:
    unchecked: Any = "data"
    with pytest.raises(ConfigError, match="str"):
        Decoder().push(unchecked)


@pytest.mark.parametrize("option", [{"mode": "odd"}, {"think": "odd"}, {"limits": 0}, {"limits": "odd"}])
def test_options_are_checked(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Decoder(**option)


def test_an_empty_push_says_nothing() -> None:
    decoder = Decoder()
    for data in (b"", text("a")[:9], b"", text("a")[9:], b""):
        decoder.push(data)
    assert decoder.partial.text == "a"


class Clock:
    """A clock that counts how often it is read."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reads = 0

    def __call__(self) -> float:
        self.reads += 1
        return self.now


def test_timing_comes_from_the_clock_given() -> None:
    clock = Clock()
    decoder = Decoder(clock=clock)
    assert clock.reads == 1
    for seconds, data in (
        (1.0, chunk({"role": "assistant", "content": ""})),
        (1.0, b": ping\n\n"),
        (2.0, calls(call(0, id="i", name="f"))),
        (3.0, chunk({"reasoning": "a"}) + text("b")),
        (4.0, text("<thi")),
        (5.0, text("c")),
        (6.0, finish("tool_calls")),
        (7.0, DONE),
    ):
        clock.now = 100.0 + seconds
        decoder.push(data)
    assert clock.reads == 1 + 2 + 1  # once per push that has a visible delta, and for the end
    timing = decoder.result().timing
    assert timing is not None
    assert (timing.first, timing.last, timing.end, timing.visible) == (3.0, 5.0, 7.0, 3)
    assert decoder.output_seen == 4


def test_a_push_that_delivers_and_completes_reads_the_clock_once() -> None:
    clock = Clock()
    decoder = Decoder(clock=clock)
    decoder.push(HELLO)
    assert clock.reads == 2
    timing = decoder.result().timing
    assert timing is not None
    assert (timing.first, timing.last, timing.visible) == (0.0, 0.0, 2)


def test_an_answer_without_visible_deltas_has_no_first() -> None:
    timing = see([stream()]).answer.timing
    assert timing is not None
    assert (timing.first, timing.last, timing.visible) == (None, None, 0)


def test_decode_is_push_and_finish() -> None:
    def chunks() -> Any:
        yield text("a")
        yield finish() + DONE
        raise AssertionError("read beyond the end")

    assert [type(each) for each in decode(chunks(), mode="lenient")] == [TextDelta, Completed]
    told: list[Event] = []
    with pytest.raises(TruncatedStreamError):
        told.extend(decode([text("a"), finish()]))
    assert told == [TextDelta("a")]
    assert len(list(decode([text("a") + finish() + b"data: [DONE]"]))) == 2

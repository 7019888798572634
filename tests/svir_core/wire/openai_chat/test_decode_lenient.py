"""What lenient forgives and records, strict refuses, and ``extra`` keeps: 11 section B."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from svir_core.event import ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Reasoning, Text, ToolCall
from svir_core.response import Anomaly, AnomalyCode, FinishReason, Usage
from tests.svir_core.wire.openai_chat.streams import (
    DONE,
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
    stream,
    text,
)

# --- anomalies ------------------------------------------------------------------------------------


def test_an_anomaly_says_what_where_and_a_little_of_it() -> None:
    odd = event("[" + "x" * 200)
    seen = refused(text("a") + odd + stream(text("b")), "protocol", "not_an_object")
    (anomaly,) = seen.answer.anomalies
    assert anomaly == Anomaly(AnomalyCode.NOT_AN_OBJECT, len(text("a")), b"[" + b"x" * 79)
    assert seen.answer.anomaly_count == 1


def test_a_hundred_anomalies_are_kept_and_all_are_counted() -> None:
    seen = decoded(event("x") * 130 + stream(text("a")), "lenient")
    assert (len(seen.answer.anomalies), seen.answer.anomaly_count) == (100, 130)


def test_an_error_has_the_anomalies_before_it() -> None:
    assert decoded(event("x") + text("a"), "lenient").codes == ["not_an_object"]


# --- numbers as content ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["0.10", "5", "-0", "1e3", "12345678901234567890123", "1.50E-2"])
def test_a_number_as_content_keeps_its_spelling(number: str) -> None:
    body = chunk({"content": 0}).replace(b'"content":0', b'"content": ' + number.encode())
    seen = refused(stream(text("a"), body, text("b")), "protocol", "number_as_content")
    assert seen.answer.text == f"a{number}b"


def test_a_number_as_reasoning_is_only_of_the_wrong_type() -> None:
    assert refused(stream(chunk({"reasoning": 5})), "protocol", "wrong_type").answer.parts == ()


@pytest.mark.parametrize("levels", [300, 1000])
def test_a_number_in_a_deep_payload_is_a_typed_error(levels: int) -> None:
    nest = b"[" * levels + b"]" * levels
    body = event(orjson.dumps(document({"content": 5}, deep=0)).replace(b'"deep":0', b'"deep":' + nest))
    assert decoded(stream(body)).kind == "protocol"
    assert decoded(stream(body), "lenient").kind == "protocol"
    assert both(stream(body.replace(b'"content":5', b'"content":"a"'))).answer.text == "a"


# --- payloads that start with a colon -------------------------------------------------------------


@pytest.mark.parametrize("payload", [":", ": ping", ':{"a": 1}'])
def test_a_payload_that_starts_with_a_colon(payload: str) -> None:
    seen = refused(stream(text("a"), event(payload), text("b")), "protocol", "payload_with_colon")
    assert seen.answer.text == "ab"


# --- lone surrogates ------------------------------------------------------------------------------


def raw(delta: str, **more: Any) -> bytes:
    """A chunk whose delta is JSON text, escapes and all."""
    return event(orjson.dumps(document({"D": 0}, **more)).replace(b'{"D":0}', delta.encode()))


HIGH, LOW = "\\ud83d", "\\ude42"


@pytest.mark.parametrize("half", [HIGH, LOW, HIGH.upper().replace("\\U", "\\u")])
def test_a_lone_surrogate(half: str) -> None:
    seen = refused(stream(raw(f'{{"content": "a{half}b"}}')), "protocol", "lone_surrogate")
    assert seen.answer.text == "a\ufffdb"


def test_a_pair_in_one_string_is_no_anomaly() -> None:
    assert both(stream(raw(f'{{"content": "{HIGH}{LOW}"}}'))).answer.text == "🙂"
    seen = refused(stream(raw(f'{{"content": "{HIGH}{LOW}{LOW}"}}')), "protocol", "lone_surrogate")
    assert seen.answer.text == "🙂\ufffd"
    assert both(stream(raw('{"content": "\\\\ud83d"}'))).answer.text == "\\ud83d"


def test_a_pair_split_over_two_deltas_is_joined() -> None:
    body = stream(raw(f'{{"content": "a{HIGH}"}}'), raw(f'{{"content": "{LOW}b"}}'))
    seen = refused(body, "protocol", "lone_surrogate", "lone_surrogate")
    assert seen.events[:-1] == (TextDelta("a"), TextDelta("🙂b"))


def test_a_half_waits_for_the_next_piece_of_its_own_text() -> None:
    body = stream(
        raw(f'{{"content": "{HIGH}", "reasoning": "{HIGH}"}}'),
        chunk({"content": "", "reasoning_content": "x"}),
        raw(f'{{"reasoning": "{LOW}"}}'),
        text("b"),
        text("c"),
    )
    seen = refused(body, "protocol", "lone_surrogate", "lone_surrogate")
    assert seen.answer.parts == (
        Reasoning("reasoning_content", "x"),
        Reasoning("reasoning", "🙂"),
        Text("\ufffdbc"),
    )


def test_halves_that_wait_at_the_end_are_replaced() -> None:
    body = stream(
        raw(
            f'{{"content": "<{HIGH}", "reasoning": "{HIGH}", "tool_calls": ['
            f'{{"index": 0, "id": "i", "function": {{"name": "f", "arguments": "{{\\"{HIGH}"}}}}]}}'
        ),
        end=finish("length") + DONE,
    )
    seen = refused(body, "protocol", "lone_surrogate")
    assert seen.events[:-1] == (
        ToolCallDelta(0, "i", "f", '{"'),
        ReasoningDelta("reasoning", "\ufffd"),
        TextDelta("<\ufffd"),
        ToolCallDelta(0, None, None, "\ufffd"),
    )
    assert seen.answer.calls[0].arguments == '{"\ufffd'
    assert seen.answer.text == "<\ufffd"
    refusal = refused(stream(raw(f'{{"refusal": "no{HIGH}"}}')), "protocol", "lone_surrogate").answer
    assert (refusal.text, refusal.finish) == ("no\ufffd", FinishReason.REFUSAL)


def test_a_half_is_not_delivered_on_an_error() -> None:
    assert decoded(raw(f'{{"content": "a{HIGH}"}}'), "lenient").text == "a"


HALF_CALL = f'{{"tool_calls": [{{"index": 0, "function": {{"arguments": "{HIGH}"}}}}]}}'


@pytest.mark.parametrize("delta", [f'{{"content": "{HIGH}"}}', f'{{"reasoning": "{HIGH}"}}', HALF_CALL])
def test_a_half_alone_is_judged_as_a_piece_of_the_answer(delta: str) -> None:
    after = decoded(text("a") + finish() + raw(delta) + DONE, "lenient")
    assert (after.kind, after.text) == ("unsupported", "a")


@pytest.mark.parametrize(("delta", "then"), [(f'{{"content": "{HIGH}"}}', "refusal"), (HALF_CALL, "refusal")])
def test_a_half_alone_is_content_or_a_call(delta: str, then: str) -> None:
    assert decoded(stream(raw(delta), chunk({then: "x"})), "lenient").kind == "protocol"


def test_a_call_of_half_a_character_has_no_id_and_no_name() -> None:
    assert decoded(stream(raw(HALF_CALL)), "lenient").kind == "protocol"


def test_a_message_beside_a_delta_is_no_text_with_surrogates_either() -> None:
    odd = raw("{}", odd=0).replace(b'"odd":0', b'"odd":"\\ud83d"')
    body = stream(odd.replace(b'"delta":{}', b'"delta":{},"message":{"content":"x"}'))
    assert refused(body, "protocol", "lone_surrogate").text == ""


def test_the_same_half_under_both_keys_is_one_piece() -> None:
    body = stream(raw(f'{{"reasoning": "{HIGH}", "reasoning_content": "{HIGH}"}}'))
    seen = refused(body, "protocol", "lone_surrogate")
    assert seen.answer.parts == (Reasoning("reasoning_content", "\ufffd"),)


def test_arguments_split_inside_a_character_are_joined() -> None:
    def piece(arguments: str) -> bytes:
        return raw(
            f'{{"tool_calls": [{{"index": 0, "id": "i", "function": {{"name": "", "arguments": "{arguments}"}}}}]}}'
        )

    body = stream(
        calls(call(0, id="i", name="f", arguments='{"a":"')),
        piece(HIGH),
        piece(LOW),
        piece('\\"}'),
        end=finish("tool_calls") + DONE,
    )
    seen = refused(body, "protocol", "lone_surrogate", "lone_surrogate")
    assert seen.answer.calls == (ToolCall("i", "f", '{"a":"🙂"}'),)


@pytest.mark.parametrize(
    "pieces",
    ["5", "[5]", '[{"index": "x"}]', '[{"index": 0, "function": 5}]', '[{"index": 0, "function": {"arguments": 5}}]'],
)
def test_broken_calls_beside_a_surrogate(pieces: str) -> None:
    body = stream(raw(f'{{"content": "{HIGH}", "tool_calls": {pieces}}}'))
    assert decoded(body, "lenient").kind == (None if pieces == "5" else "protocol")


def test_surrogates_elsewhere_become_replacements() -> None:
    body = event(
        orjson.dumps(document({"content": "a"}, odd=0)).replace(
            b'"odd":0', b'"odd":"\\udc00","n":123456789012345678901'
        )
    )
    seen = refused(stream(text("b"), body), "protocol", "lone_surrogate")
    assert seen.answer.text == "ba"
    model = event(orjson.dumps(document({"content": "a"})).replace(b'"m"', b'"m\\ud800"'))
    assert refused(stream(model), "protocol", "lone_surrogate", "model_changed").answer.model == "m\ufffd"
    report = event(b'{"prompt_filter_results": "\\ud800", "choices": []}')
    assert refused(report + stream(text("a")), "protocol", "lone_surrogate").answer.text == "a"


def test_a_number_and_a_surrogate_in_one_chunk() -> None:
    body = stream(raw(f'{{"content": 0.10, "reasoning": "{HIGH}{HIGH}{LOW}"}}'))
    seen = refused(body, "protocol", "lone_surrogate", "number_as_content")
    assert seen.answer.parts == (Reasoning("reasoning", "\ufffd🙂"), Text("0.10"))


def test_not_utf8_and_a_surrogate_in_one_chunk() -> None:
    body = stream(raw(f'{{"content": "{HIGH}?"}}').replace(b"?", b"\xff"))
    assert refused(body, "protocol", "invalid_utf8", "lone_surrogate").answer.text == "\ufffd\ufffd"


@pytest.mark.parametrize("levels", [300, 1100, 100_000])
@pytest.mark.parametrize("value", ['"\\ud83d"', "1"])
def test_deep_payloads_are_typed_errors(levels: int, value: str) -> None:
    nest = "[" * levels + value + "]" * levels
    body = stream(text("a"), event('{"deep": ' + nest + ', "choices": []}'))
    if levels == 300 and value == "1":
        assert refused(body, "protocol", "no_choices").answer.text == "a"
    else:
        assert (decoded(body).kind, decoded(body, "lenient").kind) == ("protocol", "protocol")


# --- whole documents ------------------------------------------------------------------------------

WHOLE: dict[str, Any] = {
    "id": "c9",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "<think>why</think>so",
                "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}


def test_a_message_is_a_documents_whatever_offsets_stand_beside_it() -> None:
    whole = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop", "content_filter_offsets": {}}]}
    for body in (orjson.dumps(whole), event(whole) + DONE):
        assert refused(body, "unsupported", "whole_document").answer.text == "a"


def test_a_whole_document_is_replayed_as_events() -> None:
    for body in (orjson.dumps(WHOLE), b"\n " + orjson.dumps(WHOLE, option=orjson.OPT_INDENT_2) + b"\n"):
        seen = refused(body, "unsupported", "whole_document")
        assert seen.events[:3] == (
            ReasoningDelta("reasoning_content", "hm"),
            ReasoningDelta("think", "why"),
            TextDelta("so"),
        )
        assert seen.answer.calls == (ToolCall("a", "f", "{}"), ToolCall("b", "g", ""))
        assert (seen.answer.usage, seen.answer.id) == (Usage(3, 4, 7), "c9")
        assert seen.answer.anomalies[0].excerpt == body.strip()[:80]


def test_a_document_as_one_event_of_a_stream() -> None:
    seen = refused(event(WHOLE) + DONE, "unsupported", "whole_document")
    assert seen.answer.text == "so"
    assert decoded(event(WHOLE), "lenient").kind == "truncated_stream"


def with_message(message: Any, word: str | None = "stop", **more: Any) -> bytes:
    return orjson.dumps({"choices": [{"index": 0, "message": message, "finish_reason": word, **more}]})


def test_documents_hold_the_rules_of_chunks() -> None:
    assert refused(with_message({"content": None}), "unsupported", "whole_document").answer.text == ""
    assert decoded(with_message({"content": "a"}, None), "lenient").kind == "truncated_stream"
    assert decoded(with_message({"content": "a"}, "odd"), "lenient").kind == "unsupported"
    assert decoded(with_message({"content": "a", "refusal": "b"}), "lenient").kind == "protocol"
    assert decoded(with_message({"tool_calls": [5]}), "lenient").kind == "protocol"
    assert decoded(with_message({"content": "a"}, error="boom"), "lenient").kind == "server"
    codes = ("whole_document", "unknown_delta_key")
    assert refused(with_message({"content": "a", "annotations": []}), "unsupported", *codes).answer.text == "a"
    codes = ("whole_document", "wrong_type")
    assert refused(with_message({"content": "a", "tool_calls": 5}), "unsupported", *codes).answer.text == "a"
    codes = ("whole_document", "number_as_content")
    body = with_message({"content": 5}).replace(b"5", b"5.0")
    assert refused(body, "unsupported", *codes).answer.text == "5.0"
    codes = ("whole_document", "lone_surrogate")
    body = with_message({"content": "H"}).replace(b"H", HIGH.encode() + LOW.encode() + HIGH.encode())
    assert refused(body, "unsupported", *codes).answer.text == "🙂\ufffd"


def test_a_document_of_several_choices() -> None:
    both_choices: list[Any] = [
        {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"},
        {"index": 1, "message": {}},
        5,
    ]
    seen = refused(
        orjson.dumps({"choices": both_choices}), "unsupported", "whole_document", "other_choice", "wrong_type"
    )
    assert seen.answer.text == "a"


def test_object_does_not_make_a_document() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    body = text("a") + finish() + event({"object": "chat.completion", "choices": [], "usage": usage}) + DONE
    assert both(body).answer.usage == Usage(1, 2)


# --- extra ----------------------------------------------------------------------------------------


def test_nothing_is_kept_unless_asked() -> None:
    assert both(stream(chunk({"content": "a"}, service_tier="x"))).answer.extra == {}


def test_extra_keeps_the_last_value_and_lists_in_order() -> None:
    def piece(content: str, logprobs: Any, **more: Any) -> bytes:
        return event(document(**more) | {"choices": choices({"content": content}, logprobs=logprobs)})

    first = {"content": [{"token": "a", "top": [1]}], "refusal": None}
    body = (
        event({"choices": [], "prompt_filter_results": [{"i": 0}]})
        + piece("a", first, citations=["x"], timings={"a": {"b": {"c": 1}}, "n": 1})
        + piece("b", {"content": [{"token": "b"}]}, citations=["y"], timings={"a": {"b": {"d": 2}}}, service_tier="t")
        + piece("c", None, citations=None, timings=None, service_tier=None, system_fingerprint="")
        + finish()
        + event({"choices": [], "citations": "mixed"})
        + DONE
    )
    seen = both(body, extra=True)
    assert seen.answer.text == "abc"
    assert seen.answer.extra == {
        "prompt_filter_results": [{"i": 0}],
        "logprobs": {"content": [{"token": "a", "top": [1]}, {"token": "b"}]},
        "citations": "mixed",
        "timings": {"a": {"b": {"d": 2}}, "n": 1},
        "service_tier": "t",
        "system_fingerprint": "",
    }


def test_extra_keeps_what_an_annotation_says() -> None:
    choice: dict[str, Any] = {
        "index": 0,
        "content_filter_offsets": {"check_offset": 4},
        "content_filter_results": {"a": {}},
    }
    seen = both(stream(text("a"), event({"choices": [choice]})), extra=True)
    assert seen.answer.extra == {"content_filter_offsets": {"check_offset": 4}, "content_filter_results": {"a": {}}}


def test_extra_replaces_a_value_by_one_of_another_type() -> None:
    bodies = [chunk({"content": "a"}, x=value) for value in (1, {"a": 1}, [1], {"b": 2})]
    assert both(stream(*bodies), extra=True).answer.extra == {"x": {"b": 2}}

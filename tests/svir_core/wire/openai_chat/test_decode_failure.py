"""Failures in a 200 stream, bodies that are no stream, content filtering: 10 sections 7 to 9, 11 section A."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from svir_core.limits import DOCUMENT_BYTES
from svir_core.response import FinishReason, Usage
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
    see,
    stream,
    text,
)

# --- failures -------------------------------------------------------------------------------------

SHAPES: list[tuple[Any, str | None]] = [
    ({"error": {"message": "boom"}}, "boom"),
    ({"error": {"message": "boom", "code": 500, "type": None}}, "boom"),
    ({"error": {"message": "boom", "code": "x"}, "message": "other"}, "boom"),
    ({"error": "boom"}, "boom"),
    ({"error": {"code": 1}, "message": "boom"}, "boom"),
    ({"error": {"code": 1}, "detail": "boom"}, "boom"),
    ({"error": ["a", "b"]}, None),
    ({"error": True}, None),
    ({"error": {"code": 7}}, None),
    ({"choices": [{"error": {"message": "boom"}}]}, "boom"),
    ({"choices": [{"index": 0, "delta": {"content": "x"}, "error": "boom"}]}, "boom"),
    ({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}, None),
    ({"choices": [{"index": 0, "finish_reason": "error"}], "message": "boom"}, "boom"),
    ({"object": "error", "message": "boom"}, "boom"),
    ({"object": "error", "message": {"odd": 1}}, None),
    ({"detail": "boom"}, "boom"),
    ({"detail": [{"msg": "boom", "loc": []}]}, "boom"),
    ({"detail": {"odd": 1}}, None),
    ({"detail": "boom", "choices": []}, "boom"),
    ({"base_resp": {"status_code": 1004, "status_msg": "boom"}, "choices": None}, "boom"),
    ({"base_resp": {"status_code": 2, "status_msg": ""}, "choices": choices({"content": "x"})}, None),
    ({"id": "other", "error": {"message": "boom"}, "choices": [], "odd": 1}, "boom"),
    ({"error": {"message": "boom"}, "choices": choices({"content": "x", "odd": 1})}, "boom"),
]


@pytest.mark.parametrize(("payload", "message"), SHAPES)
@pytest.mark.parametrize("place", ["start", "middle", "after the finish", "unfinished", "unfinished line"])
def test_every_shape_of_failure(payload: Any, message: str | None, place: str) -> None:
    sent = orjson.dumps(payload)
    body = {
        "start": event(sent),
        "middle": text("a") + event(sent) + stream(text("b")),
        "after the finish": text("a") + finish() + event(sent) + DONE,
        "unfinished": text("a") + b"data: " + sent,
        "unfinished line": text("a") + b"data: " + sent + b"\n",
    }[place]
    seen = both(body)
    assert seen.kind == "server"
    assert seen.message == (message or sent.decode())
    assert seen.text == ("" if place == "start" else "a")
    assert "boom" not in repr(seen.error)


@pytest.mark.parametrize(
    "payload",
    [
        {"error": None},
        {"error": {}},
        {"error": ""},
        {"error": False},
        {"base_resp": {"status_code": 0, "status_msg": "fine"}},
        {"base_resp": None},
        {"detail": "a word beside choices"},
        {"message": "no object says error"},
    ],
)
def test_what_is_no_failure(payload: dict[str, Any]) -> None:
    assert both(stream(text("a"), event(document({"content": "b"}) | payload))).answer.text == "ab"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b'event: error\ndata: {"error": {"message": "boom"}}', "boom"),
        (b'event: error\ndata: {"error": "boom"}', "boom"),
        (b'event: error\ndata: {"message": "boom"}', "boom"),
        (b"event: error\ndata: boom", "boom"),
        (b"event: error\ndata: boom\ndata: twice", "boom\ntwice"),
        (b'event: error\ndata: {"odd": 1}', '{"odd": 1}'),
        (b"event: error\ndata: [1]", "[1]"),
        (b"data: boom\nevent:error", "boom"),
        (b"event: error", None),
        (b"event: error\ndata:", None),
        (b"event: error\nid: 5", None),
        (b"event: error\ndata: bad \xff", "bad \ufffd"),
        (b"event: error\ndata: [DONE]", "[DONE]"),
        (b'error: {"message": "boom"}', "boom"),
        (b'error:{"error": {"message": "boom"}}', "boom"),
        (b'error: {"code": 5}', '{"code": 5}'),
        (b"error: {}", "{}"),
        (b'{"error": {"message": "boom"}}', "boom"),
        (b'{ "error": {\n  "message": "bo}om \\" {",\n\n  "code": 5\n }\n}', 'bo}om " {'),
        (b'{ "error":\n: ping\n {"message": "boom"}}', "boom"),
        (b'{"detail": [{"msg": "boom"}]}', "boom"),
    ],
)
@pytest.mark.parametrize("end", [b"\n\n", b"\n", b""])
def test_failures_outside_data(lines: bytes, message: str | None, end: bytes) -> None:
    seen = both(text("a") + lines + end)
    assert (seen.kind, seen.text, seen.message) == ("server", "a", message)
    if end == b"\n\n":
        assert both(text("a") + lines + end + stream(text("b"))) == seen


def test_a_failure_that_is_not_utf8_or_has_half_a_character_is_still_one() -> None:
    assert both(text("a") + event(b'{"error": "bad \xff"}')).message == "bad \ufffd"
    assert both(text("a") + event(rb'{"error": "bad \ud83d"}')).message == "bad \ufffd"
    assert both(text("a") + rb'{"error": "bad \ud83d"}').message == "bad \ufffd"


def test_a_failure_in_an_event_of_unknown_type_is_one() -> None:
    body = text("a") + b"event: odd\n" + event({"error": "boom"})
    assert decoded(body).kind == "unsupported"
    seen = decoded(body, "lenient")
    assert (seen.kind, seen.message) == ("server", "boom")
    assert decoded(body.rstrip(), "lenient").kind == "server"


@pytest.mark.parametrize(
    "junk",
    [
        b'{"neither": 1}\n',
        b'{\n "neither": 1\n}\n',
        b'{"a": 1} and more\n',
        b"{\n",
        b"{ not json\n",
        b'{\n "a": 1,\n\n',
        b"{\nretry: 5\n",
    ],
)
def test_bare_lines_that_are_no_failure_are_one_junk_line(junk: bytes) -> None:
    seen = refused(text("a") + junk + stream(text("b")), "unsupported", "unknown_field")
    assert seen.answer.text == "ab"
    assert seen.answer.anomalies[0].offset == len(text("a"))


def test_an_event_that_a_bare_line_interrupts_ends_where_it_ends() -> None:
    start, rest = text("b").rstrip() + b"\n", b"\n" + finish() + DONE
    for junk in (b'{"neither": 1}\n', b'{\n\n"x": 1}\n'):
        assert refused(text("a") + start + junk + rest, "unsupported", "unknown_field").answer.text == "ab"


@pytest.mark.parametrize("tail", [b"{", b"{\n", b'{"a": 1', b'{\n "a": 1\n', b'{"a": 1}', b'{\ndata: {"x'])
def test_bare_lines_at_the_end_of_input(tail: bytes) -> None:
    strict, lenient = (decoded(text("a") + tail, mode) for mode in ("strict", "lenient"))
    assert strict.kind == ("unsupported" if b"\n" in tail else "truncated_stream")
    assert lenient.kind == "truncated_stream"
    assert decoded(text("a") + finish() + b"{\ndata: [DONE]", "lenient").answer.text == "a"


# --- overflow -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [
        {"error": {"message": "too long", "code": "context_length_exceeded"}},
        {"error": {"message": "too long", "type": "exceed_context_size_error", "code": 400}},
        {"error": {"message": "too long", "type": "context_window_exceeded"}},
        {"error": "greater than the CONTEXT Length"},
        {"error": {"message": "This model's maximum context length is 5"}},
        {"detail": "exceeds the available context budget."},
        {"detail": "no room for compacted context."},
        {"error": {"code": 1, "reason": "context window"}},
        {"object": "error", "message": "context size"},
    ],
)
def test_overflows(payload: dict[str, Any]) -> None:
    assert both(text("a") + event(payload)).kind == "context_overflow"
    assert both(b"event: error\n" + event(payload)).kind == "context_overflow"


def test_an_overflow_in_plain_words() -> None:
    assert both(b"event: error\ndata: the context length is short\n\n").kind == "context_overflow"
    assert both(b"event: error\ndata: contextual\n\n").kind == "server"


# --- bodies that are no stream --------------------------------------------------------------------


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\n \t\r\n", b"\xef\xbb\xbf\n "])
@pytest.mark.parametrize("page", [b"<!DOCTYPE html>\n<html>\xc3\xa9" + b"x" * 300, b"<", b"<a>\n\ndata: {}\n\n"])
def test_a_page_is_no_stream(before: bytes, page: bytes) -> None:
    seen = both(before + page)
    assert seen.kind == "unsupported"
    assert seen.message == page[:200].decode()
    assert seen.error is not None
    assert seen.error.offset == len(before)


def test_a_compressed_body_is_no_stream() -> None:
    seen = both(b"\x1f\x8b\x08" + b"\x00" * 300)
    assert seen.kind == "unsupported"
    assert seen.message == "\x1f\ufffd\x08" + "\x00" * 197
    assert both(b"\x1f").kind == "truncated_stream"
    assert decoded(b"\x1fx\n").kind == "unsupported"
    assert decoded(b"\x1fx\n", "lenient").kind == "truncated_stream"


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "boom"}}',
        b'\xef\xbb\xbf {\n "error": {\n  "message": "boom"\n }\n}\n',
        b'[{"error": {"message": "boom"}}]',
        b'{"detail": "boom"}\n\ndata: {}\n\n',
        b'{"object": "error", "message": "boom"}',
        b'{"error": "boom"} trailing',
    ],
)
def test_a_body_that_is_a_failure(body: bytes) -> None:
    seen = both(body)
    assert (seen.kind, seen.message) == ("server", "boom")


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"[1, 2]",
        b'[{"a": 1}]',
        b'{"choices": []}',
        b'{"choices": [{"text": "a legacy completion"}]}',
        b'{"choices": [{"delta": {"content": "x"}}]}\n',
        b'{"a": 1}\n{"error": "late"}',
        b'{"cut off": ',
        b"{nonsense}",
        b"{" + b"[" * 3000 + b"]" * 3000 + b"}",
    ],
)
def test_a_body_of_other_json_is_no_stream(body: bytes) -> None:
    seen = both(body)
    assert seen.kind == "unsupported"
    assert seen.message is not None
    assert body.decode().startswith(seen.message)


def test_an_overflow_as_a_body() -> None:
    assert both(b'{"error": {"code": "context_length_exceeded"}}').kind == "context_overflow"


@pytest.mark.parametrize("body", [b"", b"\n", b"  ", b"\xef", b"\xef\xbb", b"\xef\xbb\xbf", b"\r\n\r\n"])
def test_nothing_is_a_truncated_stream(body: bytes) -> None:
    assert both(body).kind == "truncated_stream"


def test_what_comes_before_the_first_byte_is_bounded() -> None:
    assert see([b" " * 300_000 + b"<"]).kind == "response_limit"
    assert see([b" " * 200_000, b" " * 200_000]).kind == "response_limit"
    assert see([b"\n" * 300_000 + stream(text("a"))]).answer.text == "a"
    large = b'{"error": "' + b"x" * DOCUMENT_BYTES + b'"}'
    assert see([large]).kind == "response_limit"
    assert see([large[:1000], large[1000:-5], large[-5:]]).kind == "response_limit"


# --- content filtering ----------------------------------------------------------------------------


def note(results: Any = None, word: Any = None, **more: Any) -> bytes:
    """An annotation of the asynchronous filter."""
    choice = {"index": 0, "finish_reason": word, "content_filter_offsets": {"check_offset": 1}, **more}
    if results is not None:
        choice["content_filter_results"] = results
    return event({"id": "", "object": "", "created": 0, "model": "", "choices": [choice]})


FINE: dict[str, Any] = {
    "hate": {"filtered": False, "severity": "safe"},
    "custom_blocklists": [],
    "jailbreak": {"detected": True},
}
BLOCKS = [
    {"hate": {"filtered": True, "severity": "high"}},
    {"filtered": True},
    {"custom_blocklists": [{"id": "x", "filtered": False}, {"id": "y", "filtered": True}]},
    {"custom_blocklists": {"filtered": False, "details": [{"filtered": True, "id": "z"}]}},
]


@pytest.mark.parametrize("key", ["prompt_filter_results", "prompt_annotations"])
def test_a_prompt_report_is_skipped_whole(key: str) -> None:
    report: dict[str, Any] = {"id": "", "model": "", "choices": [], "usage": {}, key: [{"prompt_index": 0}]}
    answer = both(event(report) + stream(text("a"))).answer
    assert (answer.text, answer.id, answer.usage) == ("a", "c1", None)
    assert both(event({key: None}) + stream(text("a"))).answer.text == "a"


def test_after_the_finish_a_usage_beside_a_prompt_report_is_read() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    body = text("a") + finish() + event({"choices": [], "usage": usage, "prompt_filter_results": []}) + DONE
    assert both(body).answer.usage == Usage(1, 2)


@pytest.mark.parametrize("results", [None, {}, FINE])
def test_annotations_that_block_nothing_are_skipped(results: Any) -> None:
    seen = both(note(results) + text("a") + note(results) + finish() + note(results, delta=None) + DONE)
    assert (seen.answer.text, seen.answer.finish) == ("a", FinishReason.STOP)


@pytest.mark.parametrize("results", BLOCKS)
def test_an_annotation_that_blocks_makes_the_finish(results: Any) -> None:
    usage = event(document(usage={"prompt_tokens": 1, "completion_tokens": 1}) | {"choices": []})
    for body in (
        text("a") + note(results) + text("b") + finish(),
        text("a") + text("b") + finish() + note(results),
        text("a") + text("b") + finish("length") + usage + note(results),
    ):
        answer = both(body + DONE).answer
        assert (answer.text, answer.finish) == ("ab", FinishReason.CONTENT_FILTER)


def test_a_block_is_no_finish_reason() -> None:
    assert both(text("a") + note(BLOCKS[0]) + DONE).kind == "truncated_stream"


def test_a_filter_finish_in_an_annotation_ends_the_answer() -> None:
    ended = text("a") + note(BLOCKS[0], "content_filter")
    assert both(ended + DONE).answer.finish is FinishReason.CONTENT_FILTER
    assert both(ended + text("b") + DONE).kind == "unsupported"
    assert both(ended + finish() + DONE).kind == "unsupported"
    late = both(text("a") + finish() + note(None, "content_filter") + note(None, "content_filter") + DONE).answer
    assert (late.finish, late.raw_finish) == (FinishReason.CONTENT_FILTER, "content_filter")


@pytest.mark.parametrize("word", ["stop", "length", "odd", 5])
def test_any_other_finish_in_an_annotation_is_refused(word: Any) -> None:
    assert both(text("a") + note({}, word) + finish() + DONE).kind == "unsupported"


def test_a_block_on_an_answer_of_calls_is_refused() -> None:
    answer = calls(call(id="i", name="f", arguments="{}"))
    assert both(answer + finish("tool_calls") + note(BLOCKS[0]) + DONE).kind == "protocol"
    assert both(answer + note(BLOCKS[0]) + finish("stop") + DONE).kind == "protocol"
    assert both(answer + note({}, "content_filter") + DONE).kind == "protocol"


def test_results_beside_a_delta_end_nothing() -> None:
    body = event(document() | {"choices": choices({"content": "a", "refusal": None}, content_filter_results=BLOCKS[0])})
    assert both(stream(body)).answer.finish is FinishReason.STOP
    assert both(stream(body, end=finish("content_filter") + DONE)).answer.finish is FinishReason.CONTENT_FILTER
    assert both(stream(text("a"), event({"choices": [{"index": 0, "content_filter_results": {}}]}))).answer.text == "a"


def test_a_blocked_refusal_is_a_content_filter() -> None:
    body = stream(chunk({"refusal": "no"}), note(BLOCKS[0]))
    assert both(body).answer.finish is FinishReason.CONTENT_FILTER


def test_a_deeply_nested_verdict_is_found() -> None:
    nest = b'{"a":' * 900 + b'{"filtered":true}' + b"}" * 900
    body = note({}).replace(b'"content_filter_results":{}', b'"content_filter_results":' + nest)
    assert see([text("a") + body + finish() + DONE]).answer.finish is FinishReason.CONTENT_FILTER

"""Documents: the recorded ones, every failure in their place, every cut, and the same rules as a stream."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import orjson
import pytest

from svir_core.errors import ConfigError, ErrorKind, SvirError
from svir_core.event import Completed, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.limits import Limits
from svir_core.message import Reasoning, Text, ToolCall
from svir_core.quirk import Quirk
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.openai_chat import DocumentDecoder, decode_document
from tests.svir_core.wire.openai_chat.streams import DONE, MODES, finish, text

RECORDED = sorted((pathlib.Path(__file__).parents[4] / "conformance" / "decoder" / "recorded").glob("*_nostream.sse"))


def message(content: Any = None, word: Any = "stop", **more: Any) -> dict[str, Any]:
    """A document as an object; ``more`` are members of its message."""
    said = {"role": "assistant", "content": content, **more}
    choice = {"index": 0, "message": said, "finish_reason": word}
    return {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice]}


def outcome(data: bytes, mode: str, **options: Any) -> Completion | SvirError:
    """What ``data`` comes to, whole and byte by byte."""
    found: list[Completion | SvirError | None] = []
    for stride in (len(data) or 1, 1):
        decoder = DocumentDecoder(mode=mode, clock=lambda: 0.0, **options)
        for start in range(0, len(data), stride):
            if not decoder.done:
                decoder.push(data[start : start + stride])
        if not decoder.done:
            decoder.finish()
        found.append(decoder.completion or decoder.error)
    assert found[0] == found[1]
    assert found[0] is not None
    return found[0]


def both(data: bytes | dict[str, Any], **options: Any) -> Completion:
    """``data`` decoded in both modes, which agree and have nothing to forgive."""
    data = orjson.dumps(data) if isinstance(data, dict) else data
    strict, lenient = (outcome(data, mode, **options) for mode in MODES)
    assert strict == lenient
    assert isinstance(strict, Completion), strict
    assert strict.anomalies == ()
    assert decode_document(data, **options) == strict
    return strict


def failed(data: bytes | dict[str, Any], mode: str, **options: Any) -> SvirError:
    data = orjson.dumps(data) if isinstance(data, dict) else data
    error = outcome(data, mode, **options)
    assert isinstance(error, SvirError), error
    with pytest.raises(type(error)) as raised:
        decode_document(data, mode=mode, **options)
    assert raised.value == error
    return error


# --- recorded ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recording", RECORDED, ids=[path.stem for path in RECORDED])
def test_a_recorded_document(recording: pathlib.Path, mode: str) -> None:
    data = recording.read_bytes()
    choices = json.loads(data)["choices"]
    if len(choices) > 1 and mode == "strict":
        assert failed(data, mode).kind is ErrorKind.UNSUPPORTED
        return
    answer = outcome(data, mode)
    assert isinstance(answer, Completion), answer
    said = choices[0]["message"]
    assert answer.text == (said.get("content") or "")
    thought = said.get("reasoning_content") or said.get("reasoning") or ""
    assert "".join(each.text for each in answer.reasoning) == thought
    calls = [
        (each["id"], each["function"]["name"], each["function"]["arguments"]) for each in said.get("tool_calls", ())
    ]
    assert [(call.id, call.name, call.arguments) for call in answer.calls] == calls
    assert all(call.complete for call in answer.calls)
    assert answer.finish == choices[0]["finish_reason"]
    figures = json.loads(data)["usage"]
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (figures["prompt_tokens"], figures["completion_tokens"])
    assert [anomaly.code.value for anomaly in answer.anomalies] == (["other_choice"] if len(choices) > 1 else [])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recording", RECORDED, ids=[path.stem for path in RECORDED])
def test_every_prefix_of_a_recorded_document_is_truncated(recording: pathlib.Path, mode: str) -> None:
    data = recording.read_bytes().rstrip()
    for end in range(len(data)):
        decoder = DocumentDecoder(mode=mode)
        decoder.push(data[:end])
        error = decoder.finish().error
        assert error is not None
        assert (error.kind, error.offset, error.retryable) == (ErrorKind.TRUNCATED_STREAM, end, True)
        assert error.partial is not None
        assert error.partial.parts == ()


def test_there_are_recordings() -> None:
    assert len(RECORDED) > 20


# --- answers ----------------------------------------------------------------------------------------


def test_a_document_tells_the_events_of_a_stream() -> None:
    data = message("Hi", "tool_calls", reasoning_content="hm", tool_calls=[{"id": "a", "function": {"name": "f"}}])
    decoder = DocumentDecoder(clock=lambda: 0.0)
    *told, last = decoder.push(orjson.dumps(data))
    assert told == [ReasoningDelta("reasoning_content", "hm"), TextDelta("Hi"), ToolCallDelta(0, "a", "f", None)]
    assert isinstance(last, Completed)
    answer = last.completion
    assert answer.parts == (Reasoning("reasoning_content", "hm"), Text("Hi"), ToolCall("a", "f", ""))
    assert (answer.finish, answer.id, answer.model) == (FinishReason.TOOL_CALLS, "c1", "m")
    assert decoder.done
    assert decoder.result() == answer


def test_think_tags_refusals_and_an_empty_answer() -> None:
    assert both(message("<think>a</think>b")).reasoning == (Reasoning("think", "a"),)
    assert both(message("<think>a</think>b"), think="keep").text == "<think>a</think>b"
    assert both(message(None, refusal="no")).finish is FinishReason.REFUSAL
    assert both(message("")).parts == ()


def test_keys_that_openai_and_vllm_send_empty_say_nothing() -> None:
    assert both(message("a", refusal=None, annotations=[], audio=None, function_call=None, tool_calls=[])).text == "a"
    assert failed(message("a", annotations=[{"type": "url_citation"}]), "strict").kind is ErrorKind.UNSUPPORTED


def test_usage_and_what_is_beyond_the_protocol() -> None:
    data = {**message("a"), "usage": {"prompt_tokens": 1, "completion_tokens": 2}, "service_tier": "flex"}
    assert both(data).usage == Usage(1, 2)
    assert both(data, extra=True).extra == {"service_tier": "flex"}


def test_a_byte_order_mark_blank_bytes_and_what_follows_say_nothing() -> None:
    data = orjson.dumps(message("a"))
    assert both(b"\xef\xbb\xbf \r\n\n " + data + b"\n  \n").text == "a"
    assert both(data + b"more").text == "a"


def test_bytes_of_every_kind() -> None:
    data = orjson.dumps(message("a"))
    assert decode_document(bytearray(data)).text == decode_document(memoryview(data)).text == "a"
    unchecked: Any = "text"
    with pytest.raises(ConfigError):
        decode_document(unchecked)


# --- refusals ---------------------------------------------------------------------------------------

FAILURES = [
    ({"error": {"message": "no", "code": 500}}, ErrorKind.SERVER),
    ({"error": "no"}, ErrorKind.SERVER),
    ({"error": {"message": "no", "code": "context_length_exceeded"}}, ErrorKind.CONTEXT_OVERFLOW),
    ({"object": "error", "message": "no"}, ErrorKind.SERVER),
    ({"detail": "no"}, ErrorKind.SERVER),
    ({"detail": [{"msg": "no"}]}, ErrorKind.SERVER),
    ({"choices": [{"error": {"message": "no"}}]}, ErrorKind.SERVER),
    ({"choices": [{"message": {"content": "a"}, "finish_reason": "error"}], "message": "no"}, ErrorKind.SERVER),
    ({"base_resp": {"status_code": 1, "status_msg": "no"}}, ErrorKind.SERVER),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("document", "kind"), FAILURES)
def test_a_failure_in_place_of_a_document(document: dict[str, Any], kind: ErrorKind, mode: str) -> None:
    error = failed(document, mode)
    assert error.kind is kind
    assert error.server_message() == "no"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", ErrorKind.TRUNCATED_STREAM),
        (b" \n", ErrorKind.TRUNCATED_STREAM),
        (b"\xef\xbb", ErrorKind.TRUNCATED_STREAM),
        (b"\xef\xbb\xbf", ErrorKind.TRUNCATED_STREAM),
        (b'{"a"', ErrorKind.TRUNCATED_STREAM),
        (b"[", ErrorKind.TRUNCATED_STREAM),
        (b"{}", ErrorKind.UNSUPPORTED),
        (b"{no json}", ErrorKind.UNSUPPORTED),
        (b"[1]", ErrorKind.UNSUPPORTED),
        (b'{"choices": [{"delta": {}}]}', ErrorKind.UNSUPPORTED),
        (b'"text"', ErrorKind.UNSUPPORTED),
        (b"Internal Server Error", ErrorKind.UNSUPPORTED),
        (b"<html></html>", ErrorKind.UNSUPPORTED),
        (b"\x1f\x8b\x08", ErrorKind.UNSUPPORTED),
        (text("a") + finish() + DONE, ErrorKind.UNSUPPORTED),
        (b'{"choices": [{"message": {}}], "x": ' + b"[" * 1100 + b"]" * 1100 + b"}", ErrorKind.UNSUPPORTED),
    ],
)
def test_what_is_no_document(data: bytes, kind: ErrorKind, mode: str) -> None:
    assert failed(data, mode).kind is kind


@pytest.mark.parametrize("mode", MODES)
def test_the_rules_of_a_stream_hold(mode: str) -> None:
    assert failed(message("a", "eos"), mode).kind is ErrorKind.UNSUPPORTED
    assert failed(message("a", None), mode).kind is ErrorKind.TRUNCATED_STREAM
    assert failed(message("a", "tool_calls"), mode).kind is ErrorKind.PROTOCOL
    assert failed(message("a", refusal="b"), mode).kind is ErrorKind.PROTOCOL
    calls = [{"id": "a", "function": {"name": "f"}}, {"id": "a", "function": {"name": "f"}}]
    assert failed(message(None, "tool_calls", tool_calls=calls), mode).kind is ErrorKind.PROTOCOL
    assert failed(message("a" * 99), mode, limits=Limits(wire_bytes=99)).kind is ErrorKind.RESPONSE_LIMIT


def test_what_lenient_forgives_is_on_record() -> None:
    for document, code, kind in (
        (message(7), "number_as_content", "protocol"),
        (message("a", mood="good"), "unknown_delta_key", "unsupported"),
        ({**message("a"), "choices": [*message("a")["choices"], 7]}, "other_choice", "unsupported"),
        ({**message("a"), "choices": [*message("a")["choices"], {"index": 1}]}, "other_choice", "unsupported"),
    ):
        assert failed(document, "strict").kind == kind
        answer = outcome(orjson.dumps(document), "lenient")
        assert isinstance(answer, Completion)
        assert answer.anomalies[0].code == code
    data = orjson.dumps(message("x")).replace(b'"x"', b'"a\\ud800"')
    assert failed(data, "strict").kind == "protocol"
    answer = outcome(data, "lenient")
    assert isinstance(answer, Completion)
    assert answer.text == "a\ufffd"


TOOLS = Quirk.TOOL_ID_MISSING | Quirk.TOOL_ARGUMENTS_OBJECT


def test_a_quirk_repairs_a_document_too() -> None:
    assert both(message("a", "eos"), quirks=Quirk.FINISH_OPEN).raw_finish == "eos"
    parts = [{"type": "text", "text": "a"}]
    assert both(message(parts), quirks=Quirk.CONTENT_PARTS).text == "a"
    called = both(message(None, tool_calls=[{"function": {"name": "f", "arguments": {}}}]), quirks=TOOLS).calls
    assert [(call.name, call.arguments, call.synthetic_id) for call in called] == [("f", "{}", True)]

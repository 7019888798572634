"""Messages that were not streamed: by the rules of the stream, and that they are documents deviates from nothing."""

from __future__ import annotations

import sys
from typing import Any

import orjson
import pytest

from svir_core.errors import SvirError
from svir_core.event import Completed, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Opaque, Reasoning, Text, ToolCall
from svir_core.response import FinishReason, Usage
from svir_core.slow_json import read_exact
from svir_core.wire.anthropic_messages import DocumentDecoder, decode_document
from svir_core.wire.anthropic_messages.said import Reading
from tests.svir_core.wire.anthropic_messages.streams import MODES, RECORDED, STOP, see, start

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "t", "signature": "S"},
        {"type": "redacted_thinking", "data": "AAA"},
        {"type": "text", "text": "hi", "citations": [{"n": 1}]},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"b": 1, "a": 2.5}, "caller": {"type": "direct"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 5},
}


def document(**fields: Any) -> bytes:
    return orjson.dumps({**MESSAGE, **fields})


@pytest.mark.parametrize("mode", MODES)
def test_a_message_is_an_answer(mode: str) -> None:
    answer = decode_document(document(), mode=mode)
    assert answer.parts == (
        Reasoning("thinking", "t", _own('{"type":"thinking","thinking":"t","signature":"S"}')),
        _own('{"type":"redacted_thinking","data":"AAA"}'),
        Text("hi", _own('{"type":"text","text":"hi","citations":[{"n":1}]}')),
        ToolCall("a", "f", '{"b":1,"a":2.5}', opaque=_own('{"caller":{"type":"direct"}}')),
    )
    assert (answer.finish, answer.usage) == (FinishReason.TOOL_CALLS, Usage(8, 2, cache_read=5))
    assert (answer.id, answer.model, answer.anomalies) == ("msg_1", "m", ())


def _own(json: str) -> Opaque:
    return Opaque("anthropic_messages", json)


def test_its_events_are_those_of_a_stream() -> None:
    decoder = DocumentDecoder(clock=lambda: 0.0)
    events = [event for piece in (document()[:50], document()[50:]) for event in decoder.push(piece)]
    events += decoder.finish()
    assert events[:-1] == [
        ReasoningDelta("thinking", "t"),
        TextDelta("hi"),
        ToolCallDelta(0, "a", "f", None),
        ToolCallDelta(0, None, None, '{"b":1,"a":2.5}'),
    ]
    assert isinstance(events[-1], Completed)


def test_lenient_reads_the_same_where_a_stream_was_asked_for() -> None:
    seen = see([document()], "lenient")
    assert seen.answer.parts == decode_document(document()).parts
    assert seen.codes == ["whole_document"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "truncated_stream"),
        (b"\xef\xbb", "truncated_stream"),
        (document()[:-1], "truncated_stream"),
        (document(stop_reason=None), "truncated_stream"),
        (document(stop_reason=5), "protocol"),
        (document(stop_reason="odd"), "protocol"),
        (document(content=[5]), "protocol"),
        (document(content={}), "unsupported"),
        (b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', "rate_limited"),
        (start() + STOP, "unsupported"),
        (b"no", "unsupported"),
        (b"<html>", "unsupported"),
        (b'{"input_tokens":5}', "unsupported"),
        (b"{]", "unsupported"),
    ],
)
def test_what_is_no_answer(data: bytes, kind: str) -> None:
    with pytest.raises(SvirError) as caught:
        decode_document(data)
    assert caught.value.kind == kind


@pytest.mark.parametrize("mode", MODES)
def test_every_prefix_is_truncated(mode: str) -> None:
    data = document()
    for end in range(len(data)):
        with pytest.raises(SvirError) as caught:
            decode_document(data[:end], mode=mode)
        assert caught.value.kind == "truncated_stream"


def test_numbers_and_surrogates_are_read_as_in_a_stream() -> None:
    call = {"type": "tool_use", "id": "a", "name": "f", "input": "@"}
    exact = b'{"z":12345678901234567890123,"a":1e400}'
    data = document(content=[call]).replace(b'"@"', exact)
    assert decode_document(data).calls[0].arguments.encode() == exact
    halved = document(content=[{"type": "text", "text": "@"}], stop_reason="end_turn").replace(b"@", rb"\ud83d")
    with pytest.raises(SvirError):
        decode_document(halved)
    assert decode_document(halved, mode="lenient").text == "\ufffd"


def test_a_message_is_read_again_once_however_many_blocks_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> Any:
        read.append(text)
        return read_exact(text)

    monkeypatch.setattr(sys.modules[Reading.__module__], "read_exact", counted)
    blocks = [{"type": "server_tool_use", "id": f"s{number}", "name": "q", "input": {"n": 1}} for number in range(50)]
    data = document(content=blocks, stop_reason="end_turn")
    assert [part.json for part in decode_document(data).parts if isinstance(part, Opaque)] == [
        orjson.dumps(block).decode() for block in blocks
    ]
    assert len(read) == 1
    assert len(see([b"data: " + data + b"\n\n"], mode="lenient").answer.parts) == 50
    assert len(read) == 2


def test_the_recorded_documents_are_answers() -> None:
    found = [path for path in RECORDED if path.stem.endswith("nostream")]
    assert len(found) == 4
    for path in found:
        answer = decode_document(path.read_bytes(), extra=True)
        assert answer.finish in (FinishReason.STOP, FinishReason.TOOL_CALLS)
        assert answer.anomalies == ()
        assert "usage" in answer.extra

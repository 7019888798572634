"""Bodies that were not streamed."""

from __future__ import annotations

import orjson
import pytest

from svir_core.errors import (
    ContentFilterError,
    ProtocolError,
    RateLimitedError,
    ServerError,
    SvirError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.response import FinishReason
from svir_core.wire.gemini import DocumentDecoder, decode_document
from tests.svir_core.wire.gemini.streams import MODES, call, candidate, see, split, text, thought

WHOLE = {
    "candidates": [candidate(thought("t"), text("a"), call("f", args={"x": 1}), finish="STOP")],
    "usageMetadata": {"promptTokenCount": 1},
    "responseId": "r",
}
BYTES = orjson.dumps(WHOLE)
ARRAY = orjson.dumps([{"candidates": [candidate(text("a"))]}, {"candidates": [candidate(text("b"), finish="STOP")]}])


@pytest.mark.parametrize("mode", MODES)
def test_a_whole_response(mode: str) -> None:
    answer = decode_document(BYTES, mode=mode)
    assert answer.finish is FinishReason.TOOL_CALLS
    assert answer.text == "a"
    assert answer.calls[0].arguments == '{"x":1}'
    assert answer.anomaly_count == 0
    assert answer.id == "r"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("data", [BYTES, ARRAY, b"\xef\xbb\xbf\r\n" + ARRAY + b"  trailing"])
def test_the_cut_does_not_matter(data: bytes, mode: str) -> None:
    whole = see([data], mode, DocumentDecoder)
    assert whole.answer.anomaly_count == 0
    for stride in (1, 3, 50):
        assert see(split(data, stride), mode, DocumentDecoder) == whole


def test_every_cut_document_is_truncated() -> None:
    for data in (BYTES, ARRAY):
        for end in range(len(data)):
            with pytest.raises(TruncatedStreamError):
                decode_document(data[:end])


def test_an_array_is_the_chunks_it_holds() -> None:
    assert decode_document(ARRAY, extra=True).text == "ab"


REFUSED: list[tuple[bytes, type[SvirError]]] = [
    (b"data: {}\n\n", UnsupportedError),
    (b"<html>", UnsupportedError),
    (b'{"x":1}', UnsupportedError),
    (b"[]", UnsupportedError),
    (b"[5]", UnsupportedError),
    (b'{"error":{"message":"no","status":"INTERNAL"}}', ServerError),
    (b'{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}', RateLimitedError),
    (b'[{"candidates":[]},{"error":{"message":"no","status":"INTERNAL"}}]', ServerError),
    (b'{"promptFeedback":{"blockReason":"SAFETY"}}', ContentFilterError),
    (b'{"candidates":[]}', TruncatedStreamError),
    (b'[{"candidates":[]},5]', ProtocolError),
    (b'[{"candidates":[{"content":{"parts":[{"text":"\\ud800"}]},"finishReason":"STOP"}]}]', ProtocolError),
    (b'[{"candidates":[' + b"[" * 300 + b"]" * 300 + b"]}]", ProtocolError),
    (b'[{"candidates":[' + b"[" * 1300 + b"]" * 1300 + b"]}]", UnsupportedError),
    (b"", TruncatedStreamError),
    (b"\xef\xbb", TruncatedStreamError),
]


@pytest.mark.parametrize(("data", "error"), REFUSED)
def test_what_is_no_answer(data: bytes, error: type[SvirError]) -> None:
    with pytest.raises(SvirError) as caught:
        decode_document(data)
    assert type(caught.value) is error


def test_lenient_reads_arrays_with_halves_and_junk() -> None:
    data = b'[5,{"candidates":[{"content":{"parts":[{"text":"a\\ud800"}]},"finishReason":"STOP"}]}]'
    answer = decode_document(data, mode="lenient")
    assert answer.text == "a\ufffd"
    assert [anomaly.code.value for anomaly in answer.anomalies] == ["lone_surrogate", "not_an_object"]


def test_where_a_document_ended_does_not_depend_on_the_cut() -> None:
    for data in (b'{"candidates":[]}data: x', b' [{"candidates":[{}]}]\n\n'):
        whole = see([data], "lenient")
        assert whole.kind == "truncated_stream"
        assert see(split(data, 1), "lenient") == whole

"""Every prefix of every stream of the conformance cases, in both modes: a connection may be cut at any byte.

The end of the input is what completes an answer here, so a cut between two events is an answer when the last word of
the model before it was a finish reason: where a server says ``STOP`` more than once, or tells usage after it. All
other prefixes are truncated, or the failure that already stands in them.
"""

from __future__ import annotations

import pytest

from svir_core.errors import ErrorKind
from tests.svir_core.wire.gemini.streams import MODES, STREAMS, see

FINISH = b'"finishReason":"'
STREAMED = {name: data for name, data in STREAMS.items() if data.startswith(b"data:") and b"\r" not in data}
ENDED = {name: data for name, data in STREAMED.items() if see([data]).completion is not None}
LATE = {
    name for name, data in ENDED.items() if data.count(FINISH) > 1 or FINISH not in data.rstrip().rpartition(b"\n")[2]
}
"""Answers that are whole before their last event."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ENDED)
def test_a_prefix_is_truncated_until_the_answer_is_whole(name: str, mode: str) -> None:
    data = ENDED[name]
    whole = see([data], mode)
    text, reasoning = whole.text, whole.reasoning
    for end in range(len(data)):
        found = see([data[:end]], mode)
        assert text.startswith(found.text)
        assert reasoning.startswith(found.reasoning)
        if found.completion is not None:
            assert name in LATE or data[end:].strip() == b""
            assert FINISH in data[:end]
            assert data[:end].endswith(b"\n")
        elif found.kind != ErrorKind.TRUNCATED_STREAM.value:
            # a name of a field, or of an event, that is cut is another one
            assert (found.kind, mode) == (ErrorKind.UNSUPPORTED.value, "strict")
        else:
            assert found.error is not None
            assert found.error.offset == end
            assert found.error.retryable
            assert found.message is None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", sorted(STREAMED.keys() - ENDED.keys()))
def test_no_prefix_of_a_stream_that_fails_is_a_longer_answer(name: str, mode: str) -> None:
    data = STREAMED[name]
    whole = see([data], mode)
    for end in range(len(data)):
        found = see([data[:end]], mode)
        assert whole.text.startswith(found.text) or found.kind is None
        if found.completion is not None:
            assert FINISH in data[:end]


def test_there_are_enough() -> None:
    assert len(ENDED) > 50
    assert len(LATE) < 20

"""Every prefix of every stream, in both modes: a connection may be cut at any byte.

A prefix of a stream that completes is a truncated stream, or the very same completion when the terminal is inside. A
prefix of one that fails is never an answer. Of the case streams besides the tricky ones every seventh prefix is tried.
"""

from __future__ import annotations

import pytest

from tests.svir_core.wire.anthropic_messages.streams import MODES, see, streams

STREAMS = {name: data for name, data in streams() if data.lstrip()[:1] not in (b"{", b"<", b"N")}
TERMINAL = b'"message_stop"'
EVERY = 7


def test_there_are_streams() -> None:
    assert len(STREAMS) > 150


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("mode", MODES)
def test_a_prefix_is_no_other_answer(name: str, mode: str) -> None:
    data = STREAMS[name]
    whole = see([data], mode)
    every = 1 if name.startswith("00") or "__" in name else EVERY
    for end in range(0, len(data), every):
        seen = see([data[:end]], mode)
        if seen.completion is not None:
            assert seen.completion == whole.completion
            assert TERMINAL in data[:end]
        elif whole.completion is not None:
            assert seen.kind == "truncated_stream", end
            assert seen.events == whole.events[: len(seen.events)]

"""Every prefix of every recorded stream, in both modes: a connection may be cut at any byte.

A prefix is a truncated stream, or the failure that already stands in it; it is a completion only when the terminal
is inside. Each prefix is decoded in full: a decoder that holds the events before the cut is restored from a pickle,
is given the rest, and told that the input ended. Of recordings above 100 KB (one: a context filled to its end, 2,000
events alike) the first and the last 2 KB are checked byte by byte, and in between every cut near the edge of every
16th event and every 997th byte.
"""

from __future__ import annotations

import io
import pathlib
import pickle
import re
import types
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest

from svir_core.errors import ErrorKind, SvirError
from svir_core.event import ReasoningDelta, TextDelta
from svir_core.opening import Opening
from svir_core.response import Completion
from svir_core.slow_json import Nesting
from svir_core.sse import Framer
from svir_core.wire.json_value import is_object
from svir_core.wire.openai_chat.decode import Decoder
from tests.svir_core.wire.openai_chat.streams import DONE, MODES, finish, text

RECORDED = sorted((pathlib.Path(__file__).parents[4] / "conformance" / "decoder" / "recorded").glob("*.sse"))
LARGE = 100_000
EDGE = 2_000
TERMINAL = b"data: [DONE]"
ENDS = (b"}", b"]", b"\n")
"""What an event, or all of its payload, may end with; a prefix that ends otherwise ends inside one."""
Outcome = Completion | SvirError


class _Pickler(pickle.Pickler):
    """Keeps by reference what is the same in every copy: restoring is most of the time. Of a ``cut`` inside an event
    that is all but the decoder's own state, its framing and its lists, since no event is read any more."""

    def __init__(self, file: io.BytesIO, *, cut: bool) -> None:
        super().__init__(file, protocol=5)
        self.shared: list[object] = []
        self._cut = cut

    def persistent_id(self, obj: Any) -> int | None:
        if not self._shares(obj):
            return None
        self.shared.append(obj)
        return len(self.shared) - 1

    def _shares(self, obj: Any) -> bool:
        if is_object(obj):
            return any(isinstance(key, Enum) for key in obj)
        if isinstance(obj, type | Enum | types.FunctionType | types.BuiltinFunctionType | frozenset):
            return True
        own = type(obj).__module__.startswith("svir_core.")
        return self._cut and own and not isinstance(obj, Decoder | Framer | Opening | Nesting)


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, shared: list[object]) -> None:
        super().__init__(io.BytesIO(data))
        self._shared = shared

    def persistent_load(self, pid: Any) -> object:
        return self._shared[pid]


def forks(decoder: Decoder, *, cut: bool) -> Callable[[], Decoder]:
    """Makes decoders that stand where ``decoder`` stands now. Those of a ``cut`` must be given no whole event."""
    file = io.BytesIO()
    pickler = _Pickler(file, cut=cut)
    pickler.dump(decoder)
    data, shared = file.getvalue(), pickler.shared

    def fork() -> Decoder:
        restored: Decoder = _Unpickler(data, shared).load()
        return restored

    return fork


def outcome(decoder: Decoder) -> Outcome:
    found = decoder.completion or decoder.error
    assert found is not None
    return found


def cut(data: bytes, ends: range | list[int], mode: str) -> Iterator[tuple[int, Outcome, str]]:
    """What each prefix of ``data`` that ends at one of ``ends`` comes to, and the text and reasoning that were
    delivered before the event it cuts. ``ends`` ascend."""
    decoder = Decoder(mode=mode)
    fork: dict[bool, Callable[[], Decoder]] = {}
    before = ""
    start = 0
    for end in ends:
        while not decoder.done and 0 <= (edge := data.find(b"\n\n", start)) <= end - 2:
            told = decoder.push(data[start : edge + 2])
            before += "".join(each.text for each in told.items if isinstance(each, TextDelta | ReasoningDelta))
            start = edge + 2
            fork = {}
        if decoder.done:
            yield end, outcome(decoder), before
            continue
        rest = data[start:end]
        inside = not rest.endswith(ENDS)
        if inside not in fork:
            decoder.push(b"")  # lets go of the events it told
            fork[inside] = forks(decoder, cut=inside)
        whole = fork[inside]()
        told = whole.push(rest)
        if not whole.done:
            assert not told.items
            whole.finish()
        yield end, outcome(whole), before


def shown(found: Outcome) -> str:
    """All text and reasoning of an outcome, in order."""
    parts = found.parts if isinstance(found, Completion) else () if found.partial is None else found.partial.parts
    return "".join(getattr(part, "text", "") for part in parts)


def ends_of(data: bytes) -> range | list[int]:
    if len(data) <= LARGE:
        return range(len(data) + 1)
    chosen = {*range(EDGE), *range(len(data) - EDGE, len(data) + 1), *range(0, len(data), 997)}
    edges = [match.end() for match in re.finditer(b"\n\n", data)]
    chosen.update(*(range(edge - 3, edge + 4) for edge in edges[:-1:16]))
    return sorted(chosen)


def stands_from(data: bytes, whole: Outcome) -> int:
    """The length of the shortest prefix in which the outcome of all of ``data`` stands."""
    if isinstance(whole, Completion):
        terminal = data.rfind(TERMINAL)
        return len(data.rstrip()) if terminal < 0 else terminal + len(TERMINAL)
    assert whole.offset is not None
    if whole.kind is ErrorKind.TRUNCATED_STREAM:
        return len(data) + 1
    if data.startswith(b"{"):
        return 1  # no stream, whatever comes
    return data.index(b"\n\n", whole.offset) + 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("recording", RECORDED, ids=[path.stem for path in RECORDED])
def test_a_prefix_is_truncated_until_its_outcome_stands(recording: pathlib.Path, mode: str) -> None:
    data = recording.read_bytes()
    (_, whole, _), *_ = cut(data, [len(data)], mode)
    stands = stands_from(data, whole)
    full_text = shown(whole)
    is_document = data.startswith(b"{")
    checked = 0
    for end, found, before in cut(data, ends_of(data), mode):
        checked += 1
        if end >= stands:
            if not (isinstance(whole, SvirError) and is_document):  # there the bytes so far are the server's message
                assert found == whole, end
            else:
                assert type(found) is type(whole), end
            continue
        assert isinstance(found, SvirError), end
        if is_document and end:
            assert found.kind is ErrorKind.UNSUPPORTED, end
        else:
            assert found.kind is ErrorKind.TRUNCATED_STREAM, end
            assert found.offset == end
            assert found.retryable
        assert found.server_message() is None or is_document
        said = shown(found)
        assert said.startswith(before) if mode == "lenient" else said == before, end
        assert full_text.startswith(said), end
        assert found.partial is not None
        assert not any(getattr(part, "complete", False) for part in found.partial.parts), end
    assert checked == len(ends_of(data)) > 0


FAILURES = {
    "error object": b'data: {"error": {"message": "out of memory", "code": 500}}\n\n',
    "error string": b'data: {"error": "out of memory"}\n\n',
    "error in a choice": b'data: {"choices": [{"index": 0, "error": {"message": "out of memory"}}]}\n\n',
    "error as finish": b'data: {"message": "out of memory", "choices": [{"finish_reason": "error"}]}\n\n',
    "object error": b'data: {"object": "error", "message": "out of memory"}\n\n',
    "detail": b'data: {"detail": "out of memory"}\n\n',
    "error event": b'event: error\ndata: {"message": "out of memory"}\n\n',
    "error event in plain text": b"event: error\ndata: out of memory\n\n",
    "error field": b'error: {"message": "out of memory"}\n\n',
    "bare JSON": b'{\n  "error": {\n    "message": "out of memory"\n  }\n}\n',
    "base_resp": b'data: {"base_resp": {"status_code": 1, "status_msg": "out of memory"}}\n\n',
}
"""The shapes of 11 section A."""

EARLY = {
    **{("error event", mode): ErrorKind.SERVER for mode in MODES},
    **{("error event in plain text", mode): ErrorKind.SERVER for mode in MODES},
    ("bare JSON", "strict"): ErrorKind.UNSUPPORTED,
}
"""What a failure that is cut inside may be, beside a truncated stream. An ``event: error`` is a failure whatever its
data, so also with what came of it; a whole line of JSON that no brace ended is a junk line."""

ORDER = [ErrorKind.TRUNCATED_STREAM, ErrorKind.UNSUPPORTED, ErrorKind.SERVER]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("after", [b"", finish()], ids=["before the finish", "after the finish"])
@pytest.mark.parametrize("shape", FAILURES)
def test_a_failure_stands_from_where_it_can_be_read(shape: str, after: bytes, mode: str) -> None:
    failure = FAILURES[shape]
    start = text("Hel") + text("lo") + after
    data = start + failure + DONE
    kinds = {end: found for end, found, _ in cut(data, range(len(data) + 1), mode) if isinstance(found, SvirError)}
    assert len(kinds) == len(data) + 1  # no prefix completes
    readable = len(start + failure.rstrip())
    for end, found in kinds.items():
        if end >= readable:
            assert found.kind is ErrorKind.SERVER, end
            assert found.server_message() == "out of memory"
            assert shown(found) == "Hello"
        else:
            early = EARLY.get((shape, mode)) if end > len(start) else None
            assert found.kind in (ErrorKind.TRUNCATED_STREAM, early), end
    told = [found.kind for found in kinds.values()]
    assert told == sorted(told, key=ORDER.index)  # what stands in a prefix stands in all longer ones


def test_there_are_recordings_of_every_sort() -> None:
    names = [path.stem for path in RECORDED]
    assert len(names) > 70
    for sort in ("nostream", "killed", "abort", "tools", "reasoning", "n2", "unicode", "ctx_full"):
        assert any(sort in name for name in names), sort

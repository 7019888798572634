"""What holds for any bytes and any cut of them."""

from __future__ import annotations

import pickle
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core import serial
from svir_core.errors import SvirError
from svir_core.limits import Limits
from svir_core.message import Reasoning, Text
from svir_core.response import Completion
from svir_core.tap import Tap
from svir_core.wire.gemini import Decoder
from tests.svir_core.wire.gemini.streams import (
    MODES,
    STREAMS,
    Json,
    Seen,
    call,
    candidate,
    event,
    piece,
    pieces,
    see,
    split,
    text,
    thought,
)

WORDS = st.text('ab\u00e9\U0001f600\n"\\', max_size=4)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def drawn_piece(path: Any, kind: str, value: Any, go_on: bool) -> Json:
    return {**piece(path, **{kind: value}), **({"willContinue": True} if go_on else {})}


def signed(said: str, signature: str | None) -> Json:
    return text(said, thoughtSignature=signature)


def drawn_call(name: str | None, args: Any) -> Json:
    return call(name, args=args)


def opened(name: str | None, go_on: bool) -> Json:
    return call(name, willContinue=go_on)


def going_on(found: list[Json], go_on: bool) -> Json:
    return pieces(*found, go_on=go_on)


def drawn_candidate(parts: list[Json], finish: Any, index: Any) -> Json:
    return candidate(*parts, finish=finish, index=index)


PIECES = st.builds(
    drawn_piece,
    st.sampled_from(["$.a", "$.b", "$.a.c", "$.l[0]", "$.l[1]", "$", "x", 5]),
    st.sampled_from(["stringValue", "numberValue", "boolValue", "nullValue", "other"]),
    st.sampled_from(["x", "", 1, 0.5, True, None, "NULL_VALUE"]),
    st.booleans(),
)
KEYS = st.sampled_from(["text", "thought", "functionCall", "new", "toolCall"])
PARTS: st.SearchStrategy[Json] = st.one_of(
    st.builds(text, WORDS),
    st.builds(thought, WORDS),
    st.builds(signed, WORDS, st.sampled_from(["UzE=", "", None])),
    st.builds(drawn_call, st.sampled_from(["f", "g", "", None]), VALUES),
    st.builds(opened, st.sampled_from(["f", None]), st.booleans()),
    st.builds(going_on, st.lists(PIECES, max_size=3), st.booleans()),
    st.dictionaries(KEYS, VALUES, max_size=2),
)
FINISHES: st.SearchStrategy[Any] = st.sampled_from(
    [None, None, None, "STOP", "STOP", "MAX_TOKENS", "SAFETY", "OTHER", "CONTINUATION", "", 5]
)
INDICES: st.SearchStrategy[Any] = st.sampled_from([0, 0, 0, 0, 0, 1, None, "0"])
CANDIDATES = st.builds(drawn_candidate, st.lists(PARTS, max_size=3), FINISHES, INDICES)
FIGURES = st.sampled_from(["promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "x"])
REPORTS: st.SearchStrategy[Any] = st.dictionaries(FIGURES, st.integers(-1, 9) | VALUES, max_size=3)
LISTED: st.SearchStrategy[Any] = st.lists(CANDIDATES, min_size=1, max_size=2)
BLOCKED: st.SearchStrategy[Any] = st.just({"blockReason": "SAFETY"})
IDS: st.SearchStrategy[Any] = st.sampled_from(["r", "s", 5])
ERRORS: st.SearchStrategy[Any] = st.sampled_from([None, {}, {"message": "no"}])
CHUNKS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"candidates": LISTED | VALUES},
    optional={"usageMetadata": REPORTS, "promptFeedback": BLOCKED | VALUES, "responseId": IDS, "error": ERRORS},
)


def encoded(chunk: Any) -> bytes:
    try:
        return event(orjson.dumps(chunk))
    except orjson.JSONEncodeError:  # an integer beyond 64 bits
        return event(b"{}")


STREAM = st.lists(CHUNKS.map(encoded) | st.sampled_from([b": c\n\n", b"\xff\n\n", b"data: [DONE]\n\n"]), max_size=6)


def check(seen: Seen) -> None:
    """The outcome is what the events delivered."""
    error = seen.error
    whole = error.partial if error is not None else seen.completion
    assert whole is not None
    assert whole.text == seen.text
    assert "".join(part.text for part in whole.parts if isinstance(part, Reasoning)) == seen.reasoning
    if seen.completion is not None:
        answer = seen.completion
        ids = [call.id for call in answer.calls]
        assert all(ids)
        assert len(set(ids)) == len(ids)
        assert all(isinstance(orjson.loads(call.arguments), dict) for call in answer.calls)
        assert all(part.text or part.opaque for part in answer.parts if isinstance(part, Text | Reasoning))
        assert serial.loads(serial.dumps(answer), Completion) == answer
        assert pickle.loads(pickle.dumps(answer)) == answer
    else:
        assert f"{error}".isascii()


@pytest.mark.parametrize("mode", MODES)
@given(chunks=STREAM, stride=st.integers(1, 40))
def test_the_cut_does_not_matter(mode: str, chunks: list[bytes], stride: int) -> None:
    data = b"".join(chunks)
    whole = see([data], mode)
    check(whole)
    assert see(split(data, stride), mode) == whole


@given(STREAM)
def test_lenient_gives_what_strict_gives(chunks: list[bytes]) -> None:
    strict, lenient = (see(chunks, mode) for mode in MODES)
    if strict.completion is not None:
        assert lenient == strict
        assert strict.codes == []
    elif lenient.completion is not None:
        assert lenient.completion.anomaly_count


@pytest.mark.parametrize("mode", MODES)
@given(data=st.binary(max_size=200), stride=st.integers(1, 9))
def test_any_bytes_give_a_typed_outcome(mode: str, data: bytes, stride: int) -> None:
    for body in (data, event(data), b'data: {"candidates":[' + data + b"]}\n\n"):
        whole = see([body], mode)
        check(whole)
        assert see(split(body, stride), mode) == whole


@pytest.mark.parametrize("mode", MODES)
@given(data=st.binary(max_size=200))
def test_bounds_hold_for_any_bytes(mode: str, data: bytes) -> None:
    limits = Limits(wire_bytes=60, event_bytes=40, tool_calls=1)
    assert see([data], mode, limits=limits) == see(split(data, 1), mode, limits=limits)


@given(STREAM)
def test_a_tap_never_raises(chunks: list[bytes]) -> None:
    tap = Tap(Decoder(mode="lenient"))
    for each in chunks:
        tap.push(each)
    tap.finish()
    assert isinstance(tap.outcome, Completion | SvirError)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STREAMS)
def test_every_single_cut_of_every_case(name: str, mode: str) -> None:
    data = STREAMS[name]
    whole = see([data], mode)
    for place in range(len(data) + 1):
        assert see([data[:place], data[place:]], mode) == whole

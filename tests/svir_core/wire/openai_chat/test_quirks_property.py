"""With any set of quirks: any cut is decoded alike, and any bytes give events or an ``SvirError``."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svir_core.errors import SvirError
from svir_core.event import TextDelta, ToolCallDelta
from svir_core.limits import Limits
from svir_core.quirk import NONE, Quirk
from tests.svir_core.wire.openai_chat.streams import (
    DONE,
    MODES,
    Json,
    Seen,
    calls,
    chunk,
    document,
    event,
    finish,
    see,
    split,
    text,
)


def stream_of(events: list[bytes], end: bytes) -> bytes:
    return b"".join(events) + end


def text_part(word: str) -> Json:
    return {"type": "text", "text": word}


def thinking_part(word: str) -> Json:
    return {"type": "thinking", "thinking": [text_part(word)]}


def report_of(prompt: int, completion: int) -> Json:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def reporting(report: Json) -> bytes:
    return chunk(usage=report)


def spread(choices: list[Any]) -> bytes:
    return event(document() | {"choices": choices})


words: st.SearchStrategy[str] = st.sampled_from(["a", "ab", "abc", "b", "<think>", "</think>", "<th", "é", "🙂", ""])
quirks: st.SearchStrategy[Quirk] = st.one_of(
    st.just(NONE), st.sampled_from(Quirk), st.integers(0, (1 << len(Quirk)) - 1).map(Quirk)
)
arguments: st.SearchStrategy[Any] = st.sampled_from(
    ["{}", "{", "}", '{"n"', ":1}", '{"n":1}', '{"n": 1}', "", None, {}, {"n": 1}, {"n": 2}, [], 5]
)
pieces: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 0, 1, 2, 3, None, "0", -1]),
        "id": st.sampled_from(["a", "b", "c", "call_0", "", None, 5]),
        "type": st.sampled_from(["function", "", "custom"]),
        "function": st.fixed_dictionaries(
            {}, optional={"name": st.sampled_from(["f", "g", "", 5]), "arguments": arguments}
        ),
        "note": st.integers(0, 2),
    },
)
parts: st.SearchStrategy[Any] = st.one_of(
    words.map(text_part),
    words.map(thinking_part),
    st.sampled_from([{"type": "thinking", "thinking": "h"}, {"type": "odd"}, {"type": 5}, 5, {}]),
)
entries: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"type": st.sampled_from(["reasoning.text", "reasoning.encrypted", None, []])},
    optional={
        "index": st.sampled_from([0, 1, None, {}]),
        "id": st.sampled_from(["r", "s", None]),
        "text": words,
        "data": words,
    },
)
deltas: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "content": st.one_of(words, words, st.lists(parts, max_size=3), st.sampled_from([1.5, None])),
        "reasoning": words,
        "reasoning_content": words,
        "refusal": st.sampled_from(["", "no"]),
        "tool_calls": st.lists(pieces, max_size=3),
        "reasoning_details": st.one_of(st.lists(entries, max_size=2), st.just("x")),
    },
)
reasons: st.SearchStrategy[Any] = st.sampled_from(
    [None, None, None, "stop", "tool_calls", "length", "content_filter", "eos", "error", 5]
)
reports: st.SearchStrategy[Any] = st.builds(report_of, st.integers(0, 2), st.integers(-1, 2))
choices: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"delta": deltas},
    optional={
        "index": st.sampled_from([0, 0, 0, 1, 2, "0", None]),
        "finish_reason": reasons,
        "usage": reports,
        "x": words,
    },
)
events: st.SearchStrategy[bytes] = st.one_of(
    st.lists(choices, max_size=3).map(spread),
    st.builds(chunk, deltas, reasons),
    st.builds(calls, pieces),
    st.builds(text, words),
    reports.map(reporting),
    st.sampled_from(
        [
            event({"choices": [{"index": 0, "content_filter_offsets": {}, "finish_reason": "content_filter"}]}),
            event({"error": "boom"}),
            chunk({"content": "\ufffd"}).replace("\ufffd".encode(), rb"\ud83d"),
            chunk({"content": "\ufffd"}).replace("\ufffd".encode(), rb"\ude42"),
            calls({"index": 0, "function": {"arguments": "\ufffd"}}).replace("\ufffd".encode(), rb"\ud83d"),
            event({"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}),
            b"data: junk\n\n",
        ]
    ),
)
ends: st.SearchStrategy[bytes] = st.sampled_from(
    [DONE, finish() + DONE, finish("tool_calls") + DONE, finish("eos") + DONE, finish(), b""]
)
bodies: st.SearchStrategy[bytes] = st.builds(stream_of, st.lists(events, max_size=6), ends)
options: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "quirks": quirks,
        "think": st.sampled_from(["split", "keep", "inside"]),
        "limits": st.sampled_from([Limits(), Limits(tool_calls=2)]),
        "extra": st.booleans(),
    }
)


def consistent(seen: Seen) -> None:
    """What was delivered is what the answer holds, and nothing of it can be run that is not whole."""
    if seen.completion is None:
        assert isinstance(seen.error, SvirError)
        return
    assert seen.text == seen.answer.text
    assert sorted(seen.reasoning) == sorted("".join(part.text for part in seen.answer.reasoning))
    pieces_of = {each.index for each in seen.events if isinstance(each, ToolCallDelta)}
    assert len(pieces_of) == len(seen.answer.calls)
    assert len({made.id for made in seen.answer.calls}) == len(seen.answer.calls)
    for made in seen.answer.calls:
        assert made.id
        assert made.name
        if made.complete and made.arguments:
            assert isinstance(orjson.loads(made.arguments), dict)
    assert all(each.text for each in seen.events if isinstance(each, TextDelta))


@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@settings(max_examples=250)
def test_any_cut_is_decoded_alike(mode: str, data: st.DataObject) -> None:
    body, chosen = data.draw(bodies), data.draw(options)
    whole = see([body], mode, **chosen)
    consistent(whole)
    places = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    cut = [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]
    assert see(cut, mode, **chosen) == whole
    assert see(split(body, 1), mode, **chosen) == whole


@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@settings(max_examples=250)
def test_any_bytes_give_events_or_a_typed_error(mode: str, data: st.DataObject) -> None:
    body = bytearray(data.draw(bodies))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(body)))
        body[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    chosen: dict[str, Any] = data.draw(options)
    seen = see([bytes(body)], mode, **chosen)
    consistent(seen)
    assert see(split(bytes(body), 3), mode, **chosen) == seen


@pytest.mark.parametrize("mode", MODES)
@given(body=bodies, chosen=quirks)
@settings(max_examples=250)
def test_what_completes_strictly_reads_the_same_with_quirks(mode: str, body: bytes, chosen: Quirk) -> None:
    plain = see([body], "strict")
    if plain.error is not None or any(not made.complete for made in plain.answer.calls):
        return
    order = Quirk.TOOL_INDEX_GAPS | Quirk.TOOL_NAME_REPEATED  # these two may read what is legal in another way
    chosen &= ~(Quirk.CONTENT_CUMULATIVE | Quirk.USAGE_INCREMENTS | order)
    assert see([body], mode, quirks=chosen).completion == plain.completion

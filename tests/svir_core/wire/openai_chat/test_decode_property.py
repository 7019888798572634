"""Any cut of any stream is decoded alike, and any bytes give events or an ``SvirError``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svir_core.errors import SvirError
from svir_core.limits import Limits
from svir_core.sse import Framer
from svir_core.tap import Tap
from svir_core.wire.openai_chat.decode import Decoder
from svir_core.wire.openai_chat.table import DONE as DONE_PAYLOAD
from svir_core.wire.openai_chat.table import EVENT_TYPES
from tests.svir_core.wire.openai_chat.streams import (
    DONE,
    MODES,
    Json,
    call,
    calls,
    chunk,
    document,
    event,
    finish,
    see,
    split,
    text,
)

RECORDED = sorted((Path(__file__).parents[4] / "conformance" / "decoder" / "recorded").glob("*.sse"))

# --- drawn streams --------------------------------------------------------------------------------

words = st.one_of(
    st.sampled_from(["<think>", "</think>", "<thi", "nk>", "</", "<", "é", "🙂", "\u2028", "\ufeff", "a b", "\n", ""]),
    st.text(max_size=5),
)


def usage_chunk(prompt: int, completion: int) -> bytes:
    return chunk(usage={"prompt_tokens": prompt, "completion_tokens": completion})


def piece(index: int, name: str | None, arguments: str | None) -> Json:
    return call(index, id=f"id{index}", name=name, arguments=arguments)


def thoughts(first: str, second: str) -> bytes:
    return chunk({"reasoning_content": first, "reasoning": second})


def everything(content: str, reasoning: str, one_call: Json) -> bytes:
    return chunk({"content": content, "reasoning": reasoning, "tool_calls": [one_call]})


def refusing(words: str) -> bytes:
    return chunk({"refusal": words})


pieces_of_calls = st.builds(
    piece, st.integers(0, 3), st.sampled_from(["f", "", None]), st.sampled_from(["{}", "{", "", None, '"'])
)
good_events = st.one_of(
    st.builds(text, words),
    st.builds(thoughts, words, words),
    st.builds(everything, words, words, pieces_of_calls),
    st.builds(calls, pieces_of_calls),
    st.builds(usage_chunk, st.integers(0, 3), st.integers(-1, 3)),
    st.sampled_from(
        [b": ping\n", b":\n\n", b"id: 1\n\n", b"data:\n\n", b"\n", b"event: message\n", b"retry: 1\n", b"data: \n"]
    ),
)
odd_events = st.one_of(
    good_events,
    st.builds(refusing, words),
    st.sampled_from(
        [
            finish(),
            finish("tool_calls"),
            finish("length"),
            DONE,
            event({"choices": [], "prompt_filter_results": []}),
            event(
                {"choices": [{"index": 0, "content_filter_offsets": {}, "content_filter_results": {"filtered": True}}]}
            ),
            event({"error": "boom"}),
            event(document({"content": "other"}) | {"choices": [{"index": 1, "delta": {"content": "x"}}]}),
            event(document() | {"choices": [{"index": 0, "message": {"content": "whole"}, "finish_reason": "stop"}]}),
            chunk({"content": 1.50}),
            chunk({"content": "x", "odd": 1}),
            chunk({"content": ["x"]}),
            chunk({"content": "x"}, id="c2"),
            chunk({"content": "\ufffd"}).replace("\ufffd".encode(), rb"\ud83d"),
            chunk({"content": "\ufffd"}).replace("\ufffd".encode(), rb"\ude42"),
            chunk({"content": "x"}).replace(b'"x"', b'"\xff"'),
            b'{"error": "boom"}\n',
            b'{\n "a": 1\n}\n',
            b"{\n",
            b'error: {"message": "boom"}\n',
            b"event: error\n",
            b"event: odd\n",
            b"junk\n",
            b"data: junk\n\n",
            b"data: : ping\n\n",
            b"data: [DONE]",
            b"<html>",
            b" ",
            b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}',
        ]
    ),
)
ends = st.sampled_from([finish() + DONE, finish("tool_calls") + DONE, finish("length"), b"", b"data: [DONE]"])
endings = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=1, max_size=5)
starts = st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\n", b"\xef\xbb\xbf \n"])


@st.composite
def bodies(draw: st.DrawFn, events: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of a stream, each of its line ends drawn."""
    body = draw(starts) + b"".join(draw(st.lists(events, max_size=8))) + draw(ends)
    kinds = draw(endings)
    lines = body.split(b"\n")
    return b"".join(line + kinds[place % len(kinds)] for place, line in enumerate(lines[:-1])) + lines[-1]


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


options = st.fixed_dictionaries(
    {
        "think": st.sampled_from(["split", "keep", "inside"]),
        "limits": st.sampled_from([Limits(), Limits(event_bytes=150, tool_calls=2), Limits(wire_bytes=300)]),
        "extra": st.booleans(),
    }
)


@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@settings(max_examples=300)
def test_any_cut_is_decoded_alike(mode: str, data: st.DataObject) -> None:
    body = data.draw(bodies(odd_events))
    chosen = data.draw(options)
    whole = see([body], mode, **chosen)
    assert see(data.draw(cut(body)), mode, **chosen) == whole
    assert see(split(body, 1), mode, **chosen) == whole


@given(data=st.data())
@settings(max_examples=200)
def test_a_good_stream_at_any_cut_and_line_end_gives_what_was_put_in(data: st.DataObject) -> None:
    said = data.draw(
        st.lists(st.tuples(st.sampled_from(["content", "reasoning", "reasoning_content"]), words), max_size=8)
    )
    events = [chunk({key: word}) + data.draw(st.sampled_from([b"", b": ping\n\n", b"id: 5\n\n"])) for key, word in said]
    body = (b"".join(events) + finish() + DONE).replace(b"\n", data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])))
    seen = see(data.draw(cut(body)), think="keep")
    assert seen.answer.text == "".join(word for key, word in said if key == "content")
    for source in ("reasoning", "reasoning_content"):
        told = "".join(part.text for part in seen.answer.reasoning if part.source == source)
        assert told == "".join(word for key, word in said if key == source)


@given(data=st.data())
@settings(max_examples=200)
def test_think_is_split_alike_however_the_text_is_cut(data: st.DataObject) -> None:
    whole = "".join(data.draw(st.lists(words, max_size=8)))
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    deltas = [text(whole[start:end]) for start, end in zip([0, *places], [*places, len(whole)], strict=True)]
    at_once = see([text(whole) + finish() + DONE]).answer
    assert see([*deltas, finish() + DONE]).answer == at_once


# --- any bytes ------------------------------------------------------------------------------------


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A stream with a few bytes replaced, taken out, or put in."""
    body = bytearray(draw(bodies(odd_events)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(body)))
        body[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(body)


KEYS = (
    *("id", "model", "object", "choices", "usage", "error", "detail", "message", "base_resp", "x_groq", "index"),
    *(
        "delta",
        "finish_reason",
        "content",
        "reasoning",
        "refusal",
        "role",
        "tool_calls",
        "function",
        "name",
        "arguments",
    ),
    *("type", "prompt_tokens", "completion_tokens", "prompt_tokens_details", "content_filter_offsets", "status_code"),
    *("content_filter_results", "odd"),
)

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 70), st.floats(allow_nan=False, allow_infinity=False), words),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("mode", MODES)
@given(body=st.one_of(st.binary(max_size=60), broken()), chosen=options)
@settings(max_examples=300)
def test_any_bytes_give_events_or_a_typed_error(mode: str, body: bytes, chosen: dict[str, Any]) -> None:
    seen = see([body], mode, **chosen)
    assert seen.completion is not None or isinstance(seen.error, SvirError)
    assert see(split(body, 2), mode, **chosen) == seen


@pytest.mark.parametrize("mode", MODES)
@given(values=st.lists(json_values, max_size=4), extra=st.booleans())
@settings(max_examples=300)
def test_any_json_gives_events_or_a_typed_error(mode: str, values: list[Any], extra: bool) -> None:
    payloads = [orjson.dumps(value) for value in values]
    inside = [
        event(orjson.dumps({"choices": [value] if place % 2 else value})) for place, value in enumerate(values)
    ] + [chunk(value) for value in values]
    for body in (*map(event, payloads), *inside, *payloads):
        seen = see([text("a") + body + finish() + DONE], mode, extra=extra)
        assert seen.text.startswith("a")
        assert see(split(body, 5), mode, extra=extra) == see([body], mode, extra=extra)


@given(body=broken())
def test_a_tap_never_raises(body: bytes) -> None:
    tap = Tap(Decoder(mode="lenient"))
    for piece in split(body, 7):
        tap.push(piece)
    tap.finish()
    assert tap.outcome is not None


# --- recorded streams -----------------------------------------------------------------------------

EVERY = 11
"""Decoding is tried at each 11th cut, from another start for each recording; framing at every single one."""


def test_there_are_recordings() -> None:
    assert len(RECORDED) > 50


def framer() -> Framer:
    return Framer(types=EVENT_TYPES, terminator=DONE_PAYLOAD, limit=Limits().event_bytes)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_single_cut_of_a_recording_is_framed_alike(path: Path) -> None:
    """Between two events a framer holds nothing, so that two events at a time show every cut there is."""
    events = path.read_bytes().replace(b"\r\n", b"\n").split(b"\n\n")
    for first, second in zip(events, [*events[1:], b""], strict=True):
        for data in {first + b"\n\n" + second, (first + b"\n\n" + second).replace(b"\n", b"\r\n")}:
            whole = framer()
            frames = [*whole.push(data), *whole.finish()]
            for place in range(len(data) + 1) if len(events) < 1000 else range(0, len(data), EVERY):
                cut = framer()
                assert [
                    *cut.push(data[:place]),
                    *(() if cut.ended else cut.push(data[place:])),
                    *cut.finish(),
                ] == frames


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
@pytest.mark.parametrize("mode", MODES)
def test_cuts_of_a_recording_are_decoded_alike(path: Path, mode: str) -> None:
    data = path.read_bytes()
    whole = see([data], mode)
    every = EVERY if len(data) < 20_000 else len(data) // 50
    for place in range(len(data) % every, len(data), every):
        assert see([data[:place], data[place:]], mode) == whole
    assert see(split(data, 1), mode) == whole

"""Properties of the decoder over drawn streams: the cut never matters, and any bytes give a typed outcome."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svir_core.errors import SvirError
from svir_core.limits import Limits
from svir_core.tap import Tap
from svir_core.wire.anthropic_messages import Decoder
from tests.svir_core.wire.anthropic_messages.streams import (
    MODES,
    STOP,
    call,
    closed,
    delta,
    event,
    opened,
    reason,
    see,
    split,
    start,
    stream,
    streams,
    text,
    thinking,
)

STREAMS = dict(streams())

words = st.sampled_from(["a", "Hi\n", "\u00e9", "\U0001f600", "</", '"', "\u2028", "x" * 200])
indices = st.integers(0, 2)
events = st.one_of(
    st.builds(opened, indices, text=st.sampled_from(["", "x"])),
    st.builds(opened, indices, st.just("thinking"), thinking=st.just(""), signature=st.sampled_from(["", "S"])),
    st.builds(
        opened,
        indices,
        st.just("tool_use"),
        id=st.sampled_from(["a", "b"]),
        name=st.just("f"),
        input=st.sampled_from([{}, {"x": 1}, None]),
    ),
    st.builds(opened, indices, st.sampled_from(["server_tool_use", "odd"]), input=st.just({})),
    st.builds(delta, indices, st.just("text_delta"), text=words),
    st.builds(delta, indices, st.just("thinking_delta"), thinking=words),
    st.builds(delta, indices, st.just("signature_delta"), signature=words),
    st.builds(delta, indices, st.just("input_json_delta"), partial_json=st.sampled_from(["", '{"x":', "1}"])),
    st.builds(delta, indices, st.sampled_from(["citations_delta", "odd_delta"]), citation=st.just({"n": 1})),
    st.builds(closed, indices),
    st.builds(reason, st.sampled_from([None, "end_turn", "tool_use", "max_tokens", "odd"])),
    st.builds(start, id=st.sampled_from(["msg_1", "msg_2", None, 5])),
    st.builds(text, indices, words, words),
    st.builds(thinking, indices, words, words),
    st.builds(call, indices, st.sampled_from(["a", "b"]), st.just('{"x":1}')),
)
odd_events = st.one_of(
    events,
    st.sampled_from(
        [
            STOP,
            event("[DONE]"),
            event({"type": "ping"}),
            event("", "ping"),
            event("x", "odd"),
            event({"type": "odd"}),
            event({"type": "error", "error": {"type": "api_error", "message": "no"}}),
            event({"type": "error", "message": "no"}, ""),
            event({"index": 0, "delta": {"type": "text_delta", "text": "x"}}, "content_block_delta"),
            delta(0, "text_delta", text="@").replace(b"@", rb"\ud83d"),
            delta(0, "text_delta", text="@").replace(b"@", rb"\ude42"),
            delta(0, "text_delta", text="@").replace(b"@", b"\xff"),
            delta(0, "text_delta", text="@").replace(b'"@"', b"1e999"),
            opened(0, "odd", v="@").replace(b'"@"', b"[" * 300 + b"]" * 300),
            b": ping\n\n",
            b"id: 1\n",
            b"junk\n",
            b"event: odd\n",
            b"data: junk\n\n",
            b'{"error": "boom"}\n',
            b"<html>",
        ]
    ),
)
endings = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=1, max_size=5)


@st.composite
def bodies(draw: st.DrawFn, kinds: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of a stream, each of its line ends drawn."""
    pieces = draw(st.lists(kinds, max_size=10))
    end = draw(st.sampled_from([b"", reason() + STOP, reason("tool_use") + STOP, reason(), STOP]))
    body = draw(st.sampled_from([b"", b"\xef\xbb\xbf", start()])) + b"".join(pieces) + end
    ends = draw(endings)
    lines = body.split(b"\n")
    return b"".join(line + ends[place % len(ends)] for place, line in enumerate(lines[:-1])) + lines[-1]


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[begin:end] for begin, end in zip([0, *places], [*places, len(data)], strict=True)]


options = st.fixed_dictionaries(
    {
        "limits": st.sampled_from([Limits(), Limits(event_bytes=150, tool_calls=1), Limits(wire_bytes=300)]),
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


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("mode", MODES)
def test_every_single_cut_of_every_stream_is_decoded_alike(name: str, mode: str) -> None:
    data = STREAMS[name]
    whole = see([data], mode)
    every = 1 if len(data) < 1500 else 11
    for place in range(len(data) % every, len(data), every):
        assert see([data[:place], data[place:]], mode) == whole
    assert see(split(data, 1), mode) == whole


@given(data=st.data())
@settings(max_examples=200)
def test_lenient_reads_what_strict_reads(data: st.DataObject) -> None:
    body = data.draw(bodies(odd_events))
    strict, lenient = (see([body], mode) for mode in MODES)
    assert lenient.events[: len(strict.events)] == strict.events
    if strict.completion is not None:
        assert lenient.completion == strict.completion
    elif lenient.completion is not None:
        assert lenient.completion.anomaly_count > 0


@given(body=bodies(odd_events), mode=st.sampled_from(MODES))
@settings(max_examples=300)
def test_an_answer_is_what_was_delivered(body: bytes, mode: str) -> None:
    seen = see([body], mode)
    told = seen.completion or (seen.error.partial if seen.error is not None else None)
    assert told is not None
    assert told.text == seen.text
    if seen.completion is not None:
        assert "".join(part.text for part in seen.completion.reasoning) == seen.reasoning
        assert b'"message_stop"' in body or b'"type":"message"' in body


@given(said=st.lists(st.tuples(st.sampled_from(["text", "thinking"]), st.lists(words, max_size=3)), max_size=5))
def test_a_good_stream_gives_what_was_put_in(said: list[tuple[str, list[str]]]) -> None:
    blocks = [
        opened(place, kind, **{kind: ""})
        + b"".join(delta(place, f"{kind}_delta", **{kind: piece}) for piece in pieces)
        + closed(place)
        for place, (kind, pieces) in enumerate(said)
    ]
    answer = see([stream(*blocks)]).answer
    assert answer.text == "".join("".join(pieces) for kind, pieces in said if kind == "text")
    assert len(answer.parts) == sum(bool(pieces) for _, pieces in said)


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A stream with a few bytes replaced, taken out, or put in."""
    body = bytearray(draw(bodies(odd_events)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(body)))
        body[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(body)


KEYS = (
    *("type", "message", "index", "content_block", "delta", "usage", "error", "detail", "id", "model", "content"),
    *("stop_reason", "text", "thinking", "signature", "partial_json", "input", "name", "citation", "citations", "to"),
    *("input_tokens", "output_tokens", "output_tokens_details", "thinking_tokens", "stop_sequence", "odd"),
)
TYPES = ("message", "text", "thinking", "tool_use", "fallback", "odd", "text_delta", "input_json_delta", "ping")


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists and objects, half of which name a type."""
    fields = st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    typed = st.tuples(st.sampled_from(TYPES), fields).map(lambda pair: {"type": pair[0], **pair[1]})
    return st.one_of(st.lists(inner, max_size=3), fields, typed)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 70), st.floats(allow_nan=False, allow_infinity=False), words),
    _objects,
    max_leaves=12,
)
names = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "odd"]
)


@pytest.mark.parametrize("mode", MODES)
@given(body=st.one_of(st.binary(max_size=60), broken()), chosen=options)
@settings(max_examples=300)
def test_any_bytes_give_events_or_a_typed_error(mode: str, body: bytes, chosen: dict[str, Any]) -> None:
    seen = see([body], mode, **chosen)
    assert seen.completion is not None or isinstance(seen.error, SvirError)
    assert see(split(body, 2), mode, **chosen) == seen


@pytest.mark.parametrize("mode", MODES)
@given(values=st.lists(st.tuples(names, json_values), max_size=5), extra=st.booleans())
@settings(max_examples=300)
def test_any_json_gives_events_or_a_typed_error(mode: str, values: list[tuple[str, Any]], extra: bool) -> None:
    pieces = [
        event({"index": 0, **value, "type": name} if isinstance(value, dict) else orjson.dumps(value), name)
        for name, value in values
    ]
    body = start() + opened(0, text="a") + b"".join(pieces) + closed(0) + reason() + STOP
    seen = see([body], mode, extra=extra)
    assert seen.text.startswith("a")
    assert see(split(body, 5), mode, extra=extra) == seen
    for _, value in values:
        assert see([orjson.dumps(value)], mode, extra=extra).completion is None or mode == "lenient"


@given(body=broken())
def test_a_tap_never_raises(body: bytes) -> None:
    tap = Tap(Decoder(mode="lenient"))
    for piece in split(body, 7):
        tap.push(piece)
    tap.finish()
    assert tap.outcome is not None

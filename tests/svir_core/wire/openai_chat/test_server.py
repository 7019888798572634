"""The server half against the decoder: what goes out comes back, and a strict client finds nothing to refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import (
    ConfigError,
    ContentFilterError,
    ContextOverflowError,
    ProtocolError,
    RateLimitedError,
    ServerError,
    SvirError,
    TransportError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.event import Completed, Event, Events, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Image, Opaque, Part, Reasoning, Text, ToolCall
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.openai_chat.calls import Calls
from svir_core.wire.openai_chat.decode import Decoder
from svir_core.wire.openai_chat.server import FAILURES, WORDS, StreamEncoder, encode_stream
from svir_core.wire.transcript import Transcript

FRAME = '"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m"'
ROLE = {"role": "assistant", "content": None}
USAGE = Usage(3, 2, 5)


def encoder(**options: Any) -> StreamEncoder:
    return StreamEncoder("m", "chatcmpl-1", 7, **options)


def payloads(data: bytes) -> list[Any]:
    """The payload of every event; the framing is the plainest there is."""
    events = data.split(b"\n\n")
    assert events.pop() == b""
    assert all(event.startswith(b"data: ") and b"\n" not in event for event in events)
    return ["[DONE]" if event == b"data: [DONE]" else orjson.loads(event[6:]) for event in events]


def deltas(data: bytes) -> list[Any]:
    return [payload["choices"][0]["delta"] for payload in payloads(data)]


def check_stream(data: bytes, *, include_usage: bool = True) -> None:
    """What the strictest client asks of a whole stream."""
    *chunks, last = payloads(data)
    assert last == "[DONE]"
    assert chunks[0]["choices"][0]["delta"] == ROLE
    finishes: list[str] = []
    opened: set[int] = set()
    for chunk in chunks:
        assert list(chunk)[:5] == ["id", "object", "created", "model", "choices"]
        assert (chunk["id"], chunk["object"], chunk["created"], chunk["model"]) == (
            "chatcmpl-1",
            "chat.completion.chunk",
            7,
            "m",
        )
        assert ("usage" in chunk) == include_usage
        if not chunk["choices"]:
            assert chunk is chunks[-1]
            assert len(finishes) == 1
            assert all(
                isinstance(chunk["usage"][key], int) for key in ("prompt_tokens", "completion_tokens", "total_tokens")
            )
            continue
        assert chunk.get("usage") is None
        (choice,) = chunk["choices"]
        assert list(choice) == ["index", "delta", "finish_reason"]
        assert choice["index"] == 0
        assert finishes == []
        if choice["finish_reason"] is not None:
            finishes.append(choice["finish_reason"])
            assert choice["delta"] == {}
            continue
        check_delta(choice["delta"], opened)
    assert len(finishes) == 1
    assert sorted(opened) == list(range(len(opened)))


def check_delta(delta: dict[str, Any], opened: set[int]) -> None:
    if delta == ROLE:
        return
    ((key, value),) = delta.items()
    if key != "tool_calls":
        assert key in ("content", "refusal", "reasoning_content", "reasoning")
        assert isinstance(value, str)
        assert value
        return
    (call,) = value
    if call["index"] in opened:
        assert list(call) == ["index", "function"]
        assert all(call["function"].values())
        return
    opened.add(call["index"])
    assert list(call) == ["index", "id", "type", "function"]
    assert call["id"]
    assert call["type"] == "function"
    assert list(call["function"]) == ["name", "arguments"]
    assert call["function"]["name"]


# --- one table, read in both directions ----------------------------------------------------------------

CASES: dict[str, tuple[list[Event], list[dict[str, Any]], str]] = {
    "text": ([TextDelta("\n\nHé"), TextDelta(" there")], [{"content": "\n\nHé"}, {"content": " there"}], "stop"),
    "nothing at all": ([], [], "stop"),
    "reasoning under its keys": (
        [ReasoningDelta("reasoning_content", "a"), ReasoningDelta("reasoning", "b"), TextDelta("c")],
        [{"reasoning_content": "a"}, {"reasoning": "b"}, {"content": "c"}],
        "stop",
    ),
    "reasoning between markers": (
        [ReasoningDelta("think", "a"), ReasoningDelta("think", "b"), TextDelta("c"), ReasoningDelta("think", "d")],
        [
            {"content": "<think>a"},
            {"content": "b"},
            {"content": "</think>c"},
            {"content": "<think>d"},
            {"content": "</think>"},
        ],
        "stop",
    ),
    "markers are closed before a call": (
        [ReasoningDelta("think", "a"), ToolCallDelta(0, "x", "f", "{}")],
        [
            {"content": "<think>a"},
            {"content": "</think>"},
            {"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        ],
        "tool_calls",
    ),
    "a call in pieces": (
        [ToolCallDelta(0, "x", "f", "{"), ToolCallDelta(0, None, None, '"a":1'), ToolCallDelta(0, None, None, "}")],
        [
            {"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": "{"}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '"a":1'}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
        ],
        "tool_calls",
    ),
    "calls that interleave": (
        [
            ToolCallDelta(1, "y", "g", "["),
            ToolCallDelta(0, "x", "f", "{"),
            ToolCallDelta(1, None, None, "]"),
            ToolCallDelta(0, None, None, "}"),
        ],
        [
            {"tool_calls": [{"index": 1, "id": "y", "type": "function", "function": {"name": "g", "arguments": "["}}]},
            {"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": "{"}}]},
            {"tool_calls": [{"index": 1, "function": {"arguments": "]"}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
        ],
        "tool_calls",
    ),
}


def completion_of(events: Sequence[Event], finish: str, **fields: Any) -> Completion:
    """What the decoder makes of ``events``."""
    fields.setdefault("raw_finish", finish)
    maker = Calls(64, lambda _: {}).maker(FinishReason(finish))
    return Completion(finish, transcript_of(events).parts(maker), **fields)


def transcript_of(events: Sequence[Event]) -> Transcript:
    transcript = Transcript()
    for event in events:
        match event:
            case TextDelta(text=text):
                transcript.text(text)
            case ReasoningDelta(source=source, text=text):
                transcript.reasoning(source, text)
            case ToolCallDelta():
                transcript.call(event)
            case _:
                pass
    return transcript


def decoded(data: bytes, stride: int | None = None, think: str = "split") -> list[Event]:
    decoder = Decoder(think=think)
    events: list[Event] = []
    for start in range(0, len(data), stride or len(data)):
        events += decoder.push(data[start : start + (stride or len(data))])
    events += decoder.finish()
    return events


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("include_usage", [True, False])
def test_the_table_of_streams_in_both_directions(name: str, include_usage: bool) -> None:
    events, expected, finish = CASES[name]
    completed = Completed(
        completion_of(events, finish, usage=USAGE if include_usage else None, model="m", id="chatcmpl-1")
    )
    data = b"".join(
        encode_stream([*events, completed], model="m", id="chatcmpl-1", created=7, include_usage=include_usage)
    )
    chunk = '{{{frame},"choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]{usage}}}'
    usage = ',"usage":null' if include_usage else ""
    wanted = [
        chunk.format(frame=FRAME, delta=orjson.dumps(delta).decode(), finish="null", usage=usage)
        for delta in [ROLE, *expected]
    ]
    wanted.append(chunk.format(frame=FRAME, delta="{}", finish=f'"{finish}"', usage=usage))
    if include_usage:
        report = '{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}'
        wanted.append(f'{{{FRAME},"choices":[],"usage":{report}}}')
    assert data.decode() == "".join(f"data: {payload}\n\n" for payload in [*wanted, "[DONE]"])
    check_stream(data, include_usage=include_usage)
    for stride in (1, 7, None):
        assert decoded(data, stride) == [*events, completed]


# --- what is drawn goes out and comes back -----------------------------------------------------------------

letters = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), min_size=1, max_size=6)
texts = st.builds(TextDelta, letters)
reasoned = st.builds(ReasoningDelta, st.sampled_from(["reasoning_content", "reasoning", "think"]), letters)


@st.composite
def answers(draw: st.DrawFn, text: st.SearchStrategy[TextDelta] = texts) -> list[Event]:
    """The events of one answer, calls cut in every way, and its completion."""
    events: list[Event] = list(draw(st.lists(text | reasoned, max_size=6)))
    refusal = draw(st.booleans()) and not any(isinstance(e, ReasoningDelta) and e.source == "think" for e in events)
    count = 0 if refusal else draw(st.integers(0, 3))
    for index in range(count):
        place = 0
        for piece in draw(call_pieces(index)):
            place = draw(st.integers(place, len(events)))
            events.insert(place, piece)
            place += 1
    said = any(isinstance(event, TextDelta) for event in events)
    if refusal and said:
        finish, word = draw(
            st.sampled_from([("refusal", "stop"), ("refusal", "length"), ("content_filter", "content_filter")])
        )
    elif count:
        finish, word = draw(st.sampled_from([("tool_calls", "tool_calls"), ("length", "length")]))
    else:
        finish, word = draw(st.sampled_from([(w, w) for w in ("stop", "length", "content_filter")]))
    figures = st.integers(0, 99)
    usage = st.builds(Usage, figures, figures, figures, st.none() | figures, st.none() | figures)
    completion = completion_of(
        events, finish, usage=draw(st.none() | usage), model="m", id="chatcmpl-1", raw_finish=word
    )
    return [*events, Completed(completion)]


@st.composite
def call_pieces(draw: st.DrawFn, index: int) -> list[ToolCallDelta]:
    name = draw(st.lists(letters, min_size=1, max_size=3))
    arguments = draw(st.lists(st.sampled_from(["{", "}", '"a"', ":1", "<"]), max_size=4))
    pieces = [ToolCallDelta(index, None, piece, None) for piece in name]
    pieces += [ToolCallDelta(index, None, None, piece) for piece in arguments]
    pieces[draw(st.integers(0, len(name) - 1))].id = f"call_{index}"
    return pieces


def said(events: Sequence[Event]) -> tuple[list[str], list[tuple[str, str]], dict[int, tuple[str, str, str]]]:
    """What events say, however their calls are cut."""
    calls = {index: (run.id, run.name, "".join(run.arguments)) for index, run in transcript_of(events).calls.items()}
    return (
        [event.text for event in events if isinstance(event, TextDelta)],
        [(event.source, event.text) for event in events if isinstance(event, ReasoningDelta)],
        calls,
    )


@given(answers(), st.sampled_from([1, 2, 3, 17, None]), st.booleans())
def test_what_goes_out_comes_back(events: list[Event], stride: int | None, include_usage: bool) -> None:
    data = b"".join(encode_stream(events, model="m", id="chatcmpl-1", created=7, include_usage=include_usage))
    check_stream(data, include_usage=include_usage)
    *back, completed = decoded(data, stride)
    *sent, end = events
    assert said(back) == said(sent)
    assert isinstance(completed, Completed)
    assert isinstance(end, Completed)
    got, wanted = completed.completion, end.completion
    assert (got.finish, got.raw_finish, got.model, got.id) == (wanted.finish, wanted.raw_finish, "m", "chatcmpl-1")
    assert got.usage == (wanted.usage if include_usage else None)
    assert got.text == wanted.text
    assert got.reasoning == wanted.reasoning
    assert sorted(got.calls, key=lambda call: call.id) == sorted(wanted.calls, key=lambda call: call.id)


def calls_in_one_piece(events: list[Event]) -> bool:
    indices = [event.index for event in events if isinstance(event, ToolCallDelta)]
    return len(indices) == len(set(indices))


@given(answers().filter(calls_in_one_piece))
def test_whole_calls_come_back_event_for_event(events: list[Event]) -> None:
    assert decoded(b"".join(encode_stream(events, model="m", id="chatcmpl-1", created=7))) == events


@given(st.lists(st.text(st.sampled_from("<>/think a"), min_size=1, max_size=9), max_size=6))
def test_text_with_markers_goes_out_as_it_is(pieces: list[str]) -> None:
    events: list[Event] = [TextDelta(piece) for piece in pieces]
    events.append(Completed(completion_of(events, "stop", model="m", id="chatcmpl-1")))
    assert decoded(b"".join(encode_stream(events, model="m", id="chatcmpl-1", created=7)), think="keep") == events


@given(st.lists(st.sampled_from(["<", ">", "/think", "k>", "</think", "</thin", "<think>", "a"]), max_size=6))
def test_reasoning_between_markers_comes_back_or_is_refused(pieces: list[str]) -> None:
    events: list[Event] = [ReasoningDelta("think", piece) for piece in pieces]
    stream = encoder()
    if "</think>" in "".join(pieces):
        with pytest.raises(UnsupportedError, match="closing marker"):
            b"".join(stream.push(event) for event in events)
        assert payloads(stream.fail("no"))
        return
    completed = Completed(completion_of(events, "stop"))
    back = decoded(b"".join(stream.push(event) for event in [*events, completed]))
    assert "".join(event.text for event in back if isinstance(event, ReasoningDelta)) == "".join(pieces)
    assert not any(isinstance(event, TextDelta) for event in back)


@given(
    st.lists(
        st.one_of(
            texts,
            reasoned,
            st.builds(ToolCallDelta, st.integers(-1, 2), st.none() | letters, st.none() | letters, st.none() | letters),
            st.sampled_from(FinishReason).map(lambda finish: Completed(Completion(finish))),
        ),
        max_size=7,
    ),
    st.booleans(),
)
def test_any_order_of_events_is_a_strict_stream_or_a_typed_error(events: list[Event], refusal: bool) -> None:
    stream = encoder(refusal=refusal)
    data = b""
    error: SvirError | None = None
    try:
        for event in events:
            data += stream.push(event)
    except (ConfigError, UnsupportedError, ProtocolError) as caught:
        error = caught
    if not stream.done:
        data += stream.finish() if error is None else stream.fail(error)
        assert "error" in payloads(data)[-1]
        decoder = Decoder(think="keep")
        assert isinstance(decoder.push(data).error, ServerError)
    elif error is None:
        check_stream(data)
        assert Decoder().push(data).error is None


# --- reasoning of other APIs, and a whole answer ----------------------------------------------------------------

SOURCES = ["thinking", "thought", "reasoning_summary", "reasoning_text", "reasoning_content", "reasoning", "think"]


def as_read(part: Part) -> Part:
    """``part`` as who reads the stream has it: reasoning of other APIs under the first key."""
    if isinstance(part, Reasoning):
        return Reasoning(part.source if part.source in SOURCES[4:] else "reasoning_content", part.text)
    return part


@given(st.lists(st.builds(ReasoningDelta, st.sampled_from(SOURCES), letters) | texts, max_size=6))
def test_reasoning_of_any_source_comes_back_and_differs_in_the_source_only(events: list[Event]) -> None:
    completion = completion_of(events, "stop", model="m", id="chatcmpl-1")
    data = b"".join(encode_stream([*events, Completed(completion)], model="m", id="chatcmpl-1", created=7))
    check_stream(data)
    back = decoded(data)[:-1]
    assert [getattr(event, "text", "") for event in back] == [getattr(event, "text", "") for event in events]
    assert [isinstance(event, TextDelta) for event in back] == [isinstance(event, TextDelta) for event in events]
    read = [event.source for event in back if isinstance(event, ReasoningDelta)]
    sent = [event.source for event in events if isinstance(event, ReasoningDelta)]
    assert read == [source if source in SOURCES[4:] else "reasoning_content" for source in sent]


@given(answers())
def test_a_completion_alone_writes_the_whole_answer(events: list[Event]) -> None:
    end = events[-1]
    assert isinstance(end, Completed)
    data = b"".join(encode_stream([end], model="m", id="chatcmpl-1", created=7))
    check_stream(data)
    completed = decoded(data)[-1]
    assert isinstance(completed, Completed)
    got, wanted = completed.completion, end.completion
    assert (got.finish, got.text, got.reasoning, got.usage) == (
        wanted.finish,
        wanted.text,
        wanted.reasoning,
        wanted.usage,
    )
    assert got.calls == wanted.calls


def test_a_whole_answer_of_another_api() -> None:
    parts: list[Part] = [
        Reasoning("thinking", "hm", opaque=Opaque("anthropic_messages", '{"type":"thinking"}')),
        Opaque("anthropic_messages", '{"type":"redacted_thinking"}'),
        Text("Hi"),
        ToolCall("x", "f", '{"a":1}'),
    ]
    stream = encoder()
    data = stream.push(Completed(Completion("tool_calls", parts, USAGE, model="other", id="msg_1")))
    assert stream.done
    check_stream(data)
    completed = decoded(data)[-1]
    assert isinstance(completed, Completed)
    told = [as_read(part) for part in parts if not isinstance(part, Opaque)]
    assert list(completed.completion.parts) == told
    assert completed.completion.usage == USAGE


def test_a_whole_refusal_needs_no_warning() -> None:
    data = encoder().push(end("refusal", Text("No."), raw_finish="refusal"))
    assert deltas(data.partition(b"data: [DONE]")[0])[:2] == [ROLE, {"refusal": "No."}]
    completed = decoded(data)[-1]
    assert isinstance(completed, Completed)
    assert (completed.completion.finish, completed.completion.text) == (FinishReason.REFUSAL, "No.")


# --- calls -------------------------------------------------------------------------------------------------


def test_a_call_is_opened_with_its_whole_name() -> None:
    stream = encoder()
    assert stream.push(ToolCallDelta(0, "x", "get_", None)) == b""
    assert stream.push(ToolCallDelta(0, None, "weather", None)) == b""
    function = {"name": "get_weather", "arguments": "{"}
    call = {"index": 0, "id": "x", "type": "function", "function": function}
    assert deltas(stream.push(ToolCallDelta(0, None, None, "{"))) == [ROLE, {"tool_calls": [call]}]
    assert stream.push(ToolCallDelta(0, "x", None, "")) == b""
    assert stream.push(ToolCallDelta(0, "x", None, None)) == b""


@pytest.mark.parametrize("event", [TextDelta("a"), ReasoningDelta("reasoning", "a"), ToolCallDelta(1, "y", "g", "{}")])
def test_the_next_event_of_another_kind_opens_a_call_that_was_held_back(event: Event) -> None:
    stream = encoder()
    assert stream.push(ToolCallDelta(0, "x", "f", None)) == b""
    first, second = deltas(stream.push(event))[1:]
    assert first["tool_calls"][0]["function"] == {"name": "f", "arguments": ""}
    assert second != first
    more = deltas(stream.push(ToolCallDelta(0, None, "oo", None)))
    assert more == [{"tool_calls": [{"index": 0, "function": {"name": "oo"}}]}]


def test_a_call_whose_id_svir_made_is_opened_at_the_end() -> None:
    stream = encoder()
    assert stream.push(ToolCallDelta(0, None, "f", '{"a"')) == b""
    assert stream.push(ToolCallDelta(0, None, None, ":1}")) == b""
    call = ToolCall("call_0", "f", '{"a":1}', synthetic_id=True)
    data = stream.push(Completed(Completion("tool_calls", [call])))
    check_stream(data)
    assert deltas(data.partition(b"data: [DONE]")[0])[1]["tool_calls"][0]["id"] == "call_0"


def test_a_piece_of_another_call_does_not_open_one_without_an_id() -> None:
    stream = encoder()
    assert stream.push(ToolCallDelta(0, None, "f", "{}")) == b""
    assert len(deltas(stream.push(ToolCallDelta(1, "y", "g", "{}")))) == 2
    assert len(deltas(stream.push(ToolCallDelta(0, "x", None, None)))) == 1


# --- what is refused, and has written nothing ----------------------------------------------------------------

FIRST = TextDelta("a")
CALL = ToolCallDelta(0, "x", "f", "{}")
REASON = ReasoningDelta("reasoning", "r")


def end(finish: str, *parts: Any, **fields: Any) -> Completed:
    return Completed(Completion(finish, parts, **fields))


@pytest.mark.parametrize(
    ("before", "event", "error", "words"),
    [
        ([FIRST], "text", ConfigError, "a str is no event"),
        ([ReasoningDelta("thinking", "a")], end("stop"), ConfigError, "the reasoning of the completion is not that"),
        ([], end("stop", Image.url("https://a/b.png")), ConfigError, "an Image is no part of an answer"),
        ([], end("tool_calls", Text("a")), ProtocolError, "does not fit"),
        ([], end("stop", Reasoning("think", "a</think>")), UnsupportedError, "closing marker"),
        ([], end("refusal", Text("a"), ToolCall("x", "f", "{}")), ProtocolError, "mixed"),
        ([], end("tool_calls", ToolCall("", "f", "{}")), ConfigError, "tool call 0 of the completion is not that"),
        ([FIRST], ToolCallDelta(-1, "x", "f", None), ConfigError, "negative"),
        ([CALL], ToolCallDelta(0, "y", None, None), ConfigError, "the id of tool call 0 changed"),
        ([FIRST], end("stop", Text("b")), ConfigError, "the text of the completion is not that"),
        ([FIRST], end("stop"), ConfigError, "the text of the completion is not that"),
        ([REASON], end("stop"), ConfigError, "the reasoning of the completion is not that"),
        ([REASON], end("stop", Reasoning("think", "r")), ConfigError, "the reasoning of the completion is not that"),
        ([CALL], end("tool_calls"), ConfigError, "the calls of the completion are not those"),
        (
            [ToolCallDelta(1, "x", "f", "{}")],
            end("tool_calls", ToolCall("x", "f", "{}")),
            ConfigError,
            "numbered from 0",
        ),
        ([CALL], end("tool_calls", ToolCall("x", "g", "{}")), ConfigError, "tool call 0 of the completion is not that"),
        (
            [CALL],
            end("tool_calls", ToolCall("x", "f", "{} ")),
            ConfigError,
            "tool call 0 of the completion is not that",
        ),
        ([CALL], end("tool_calls", ToolCall("y", "f", "{}")), ConfigError, "tool call 0 of the completion is not that"),
        (
            [ToolCallDelta(0, None, "f", "{}")],
            end("tool_calls", ToolCall("y", "f", "{}")),
            ConfigError,
            "tool call 0 of the completion is not that",
        ),
        (
            [CALL, ToolCallDelta(1, "x", "f", "{}")],
            end("tool_calls", ToolCall("x", "f", "{}"), ToolCall("x", "f", "{}")),
            ConfigError,
            "two tool calls have the same id",
        ),
        ([CALL], end("stop", ToolCall("x", "f", "{}")), ConfigError, "the finish 'stop' does not fit"),
        ([FIRST], end("tool_calls", Text("a")), ProtocolError, "does not fit"),
        ([CALL], end("content_filter", ToolCall("x", "f", "{}")), ProtocolError, "does not fit"),
        ([FIRST], end("pause", Text("a")), UnsupportedError, "no word for the finish 'pause'"),
        ([FIRST], end("other", Text("a"), raw_finish="eos"), UnsupportedError, "no word for the finish 'other'"),
        ([FIRST], end("refusal", Text("a")), UnsupportedError, "must be known before its text"),
    ],
)
def test_what_is_refused_has_written_nothing(
    before: list[Event], event: Any, error: type[SvirError], words: str
) -> None:
    stream = encoder()
    data = b"".join(stream.push(earlier) for earlier in before)
    with pytest.raises(error, match=words):
        stream.push(event)
    assert not stream.done
    decoder = Decoder()
    assert decoder.push(data).error is None
    assert isinstance(decoder.push(stream.fail("no")).error, ServerError)


def test_a_refusal_is_not_mixed() -> None:
    for event in (CALL, ReasoningDelta("think", "a")):
        stream = encoder(refusal=True)
        assert deltas(stream.push(TextDelta("No."))) == [ROLE, {"refusal": "No."}]
        with pytest.raises(ProtocolError, match="mixed"):
            stream.push(event)
    with pytest.raises(ConfigError, match="does not fit"):
        encoder(refusal=True).push(end("refusal"))


def test_nothing_follows_the_end() -> None:
    stream = encoder()
    stream.push(end("stop"))
    assert stream.done
    assert stream.finish() == b""
    for event in (FIRST, end("stop")):
        with pytest.raises(ConfigError, match="the stream has ended"):
            stream.push(event)
    with pytest.raises(ConfigError, match="the stream has ended"):
        stream.fail("late")


@pytest.mark.parametrize(
    "arguments",
    [("", "i", 1), ("m", "", 1), (None, "i", 1), ("m", 3, 1), ("m", "i", -1), ("m", "i", True), ("m", "i", 1.5)],
)
def test_arguments_are_checked(arguments: tuple[Any, Any, Any]) -> None:
    with pytest.raises(ConfigError):
        StreamEncoder(*arguments)


def test_empty_events_say_nothing() -> None:
    stream = encoder()
    assert stream.push(TextDelta("")) == b""
    assert stream.push(ReasoningDelta("anything", "")) == b""
    check_stream(stream.push(end("stop", Reasoning("think", ""))))


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    events: list[Event] = [
        TextDelta("a\ud800"),
        ReasoningDelta("think", "\udfff"),
        ToolCallDelta(0, "\ud800", "f\ud800", "{}"),
    ]
    data = b"".join(
        encode_stream(
            [*events, Completed(completion_of(events, "tool_calls"))], model="m\ud800", id="i\ud800", created=7
        )
    )
    *_, completed = decoded(data)
    assert isinstance(completed, Completed)
    assert completed.completion.text == "a\ufffd"
    assert completed.completion.model == "m\ufffd"
    assert completed.completion.calls[0].id == "\ufffd"


# --- usage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "report"),
    [
        (None, None),
        (Usage(output=3), None),
        (Usage(input=3), None),
        (Usage(0, 0), {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
        (Usage(1, 2), {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
        (
            Usage(1, 2, 9, 0, 4, 5),
            {
                "prompt_tokens": 1,
                "completion_tokens": 2,
                "total_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 5},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
        ),
    ],
)
def test_usage(usage: Usage | None, report: Any) -> None:
    chunks = payloads(encoder().push(end("stop", usage=usage)))
    assert chunks[-1] == "[DONE]"
    assert (chunks[-2]["usage"] if not chunks[-2]["choices"] else None) == report
    quiet = encoder(include_usage=False).push(end("stop", usage=usage))
    assert b"usage" not in quiet


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "code", "read"),
    [
        (ServerError("it broke", server_message="hunter2"), "server_error", None, ServerError),
        (TransportError("connection lost"), "server_error", None, ServerError),
        (RateLimitedError("slower"), "rate_limit_error", "rate_limit_exceeded", ServerError),
        (ContentFilterError("not that"), "invalid_request_error", "content_filter", ServerError),
        (ContextOverflowError("too long"), "invalid_request_error", "context_length_exceeded", ContextOverflowError),
        ("in our words\ud800", "server_error", None, ServerError),
    ],
)
def test_an_error_ends_the_stream(error: SvirError | str, kind: str, code: str | None, read: type[SvirError]) -> None:
    stream = encoder()
    data = stream.push(FIRST) + stream.fail(error)
    assert stream.done
    assert stream.finish() == b""
    message = error.detail if isinstance(error, SvirError) else "in our words\ufffd"
    assert payloads(data)[-1] == {"error": {"message": message, "type": kind, "param": None, "code": code}}
    assert b"DONE" not in data
    assert b"hunter2" not in data
    outcome = Decoder().push(data)
    assert outcome.items == [FIRST]
    assert outcome.error is not None
    assert type(outcome.error) is read
    assert outcome.error.server_message() == message


def test_events_that_fail_end_the_stream_as_they_did() -> None:
    def events() -> Iterator[Event]:
        yield FIRST
        raise ContextOverflowError("too long")

    data = b"".join(encode_stream(events(), model="m", id="chatcmpl-1", created=7))
    assert payloads(data)[-1]["error"]["code"] == "context_length_exceeded"
    events_of_a_push = Events([FIRST], ServerError("it broke"))
    data = b"".join(encode_stream(events_of_a_push, model="m", id="chatcmpl-1", created=7))
    assert payloads(data)[-1]["error"]["message"] == "it broke"


@pytest.mark.parametrize("events", [[], [FIRST], [CALL]])
def test_events_that_end_too_early_are_an_error(events: list[Event]) -> None:
    *_, last = encode_stream(events, model="m", id="chatcmpl-1", created=7)
    assert payloads(last)[-1]["error"]["message"] == "the answer ended before it was complete"
    assert isinstance(TruncatedStreamError("x"), SvirError)


def test_events_are_read_no_further_than_the_end() -> None:
    def events() -> Iterator[Event]:
        yield end("stop")
        raise AssertionError

    check_stream(b"".join(encode_stream(events(), model="m", id="chatcmpl-1", created=7)))


def test_a_refusal_in_an_iterator_must_be_announced() -> None:
    events: list[Event] = [TextDelta("No."), end("refusal", Text("No."), raw_finish="length")]
    for source, refusal in ((events, None), (iter(events), True), (Events(events), None)):
        data = b"".join(encode_stream(source, model="m", id="chatcmpl-1", created=7, refusal=refusal))
        check_stream(data)
        *_, completed = decoded(data)
        assert isinstance(completed, Completed)
        assert (completed.completion.finish, completed.completion.raw_finish) == (FinishReason.REFUSAL, "length")
    with pytest.raises(UnsupportedError, match="must be known before"):
        list(encode_stream(iter(events), model="m", id="chatcmpl-1", created=7))


def test_the_tables_name_what_they_leave_out() -> None:
    assert set(FinishReason) - set(WORDS) == {FinishReason.PAUSE, FinishReason.OTHER}
    assert set(WORDS.values()) == {"stop", "tool_calls", "length", "content_filter"}
    assert {kind.value for kind in FAILURES} == {"context_overflow", "content_filter", "rate_limited"}

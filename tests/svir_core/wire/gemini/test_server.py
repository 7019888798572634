"""The server half against the decoder: what goes out comes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import (
    AuthenticationError,
    ConfigError,
    ContentFilterError,
    ContextOverflowError,
    RateLimitedError,
    ResponseTimeoutError,
    ServerError,
    SvirError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Image, Opaque, Part, Reasoning, Text, ToolCall
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.gemini import API
from svir_core.wire.gemini.server import StreamEncoder
from svir_core.wire.gemini.table import FINISHES
from tests.svir_core.wire.gemini.streams import STREAMS, anonymous, decoded, see

HEAD = {"modelVersion": "m", "createTime": "2025-01-01T00:00:00Z", "responseId": "r"}


def encoder() -> StreamEncoder:
    return StreamEncoder("m", "r", 1735689600)


def sent(events: Iterable[Event]) -> bytes:
    stream = encoder()
    data = b"".join(stream.push(each) for each in events)
    assert stream.done
    assert stream.finish() == b""
    return data


def payloads(data: bytes) -> list[Any]:
    """The payload of every event; the framing is that of the API."""
    events = data.split(b"\r\n\r\n")
    assert events.pop() == b""
    assert all(each.startswith(b"data: ") and b"\n" not in each for each in events)
    return [orjson.loads(each[6:]) for each in events]


def test_the_stream_of_a_short_answer() -> None:
    answer = Completion("tool_calls", [Reasoning("thought", "t"), Text("a"), ToolCall("i", "f", '{"x": 1}')])
    deltas: list[Event] = [
        ReasoningDelta("thought", "t"),
        TextDelta(""),
        TextDelta("a"),
        ToolCallDelta(0, "i", "f", '{"x": 1}'),
    ]
    assert payloads(sent([*deltas, Completed(answer)])) == [
        {"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}], **HEAD}
        for part in (
            {"text": "t", "thought": True},
            {"text": "a"},
            {"functionCall": {"id": "i", "name": "f", "args": {"x": 1}}},
        )
    ] + [{"candidates": [{"content": {"role": "model"}, "finishReason": "STOP", "index": 0}], **HEAD}]


def test_usage_goes_out_with_the_finish() -> None:
    usage = Usage(input=9, output=13, total=22, reasoning=10, cache_read=4)
    (last,) = payloads(sent([Completed(Completion("stop", usage=usage))]))
    assert last["usageMetadata"] == {
        "promptTokenCount": 9,
        "candidatesTokenCount": 3,
        "totalTokenCount": 22,
        "thoughtsTokenCount": 10,
        "cachedContentTokenCount": 4,
    }
    for nothing in (None, Usage(), Usage(reasoning=5)):
        (last,) = payloads(sent([Completed(Completion("stop", usage=nothing))]))
        assert "usageMetadata" not in last


# --- two ways ------------------------------------------------------------------------------------

WORDS = st.text('ab\u00e9\U0001f600\n"\\', min_size=1, max_size=5)
VALUES: st.SearchStrategy[Any] = st.dictionaries(WORDS, st.none() | st.integers(0, 9) | WORDS, max_size=2)


def dumped(value: Any) -> str:
    return orjson.dumps(value).decode()


OBJECTS = VALUES.map(dumped)


def signed(text: str, *, thought: bool) -> Opaque:
    part = {"text": text, **({"thought": True} if thought else {}), "thoughtSignature": "UzE="}
    return Opaque("gemini", orjson.dumps(part).decode())


def signed_call(call: ToolCall) -> ToolCall:
    inner: dict[str, Any] = {} if call.synthetic_id else {"id": call.id}
    part = {"functionCall": {**inner, "name": call.name, "args": orjson.loads(call.arguments)}, "thoughtSignature": "U"}
    return ToolCall(
        call.id,
        call.name,
        call.arguments,
        synthetic_id=call.synthetic_id,
        opaque=Opaque("gemini", orjson.dumps(part).decode()),
    )


def signed_text(text: str) -> Part:
    return Text(text, signed(text, thought=False))


def thought(text: str) -> Part:
    return Reasoning("thought", text)


def signed_thought(text: str) -> Part:
    return Reasoning("thought", text, signed(text, thought=True))


def unknown(text: str) -> Part:
    return Opaque("gemini", dumped({"new": text}))


def drawn_call(name: str, arguments: str, made: bool) -> Part:
    return ToolCall("", name, arguments, synthetic_id=made)


def drawn_usage(given: int | None, output: int, total: int | None, thoughts: int | None, cached: int | None) -> Usage:
    told = output + (thoughts or 0)
    return Usage(given, told, given + told if total is None and given is not None else total, thoughts, cached)


FIGURES = st.none() | st.integers(0, 9)
SIGNED: st.SearchStrategy[Part] = st.one_of(
    st.builds(signed_text, WORDS | st.just("")),
    st.builds(signed_thought, WORDS | st.just("")),
    st.builds(unknown, WORDS),
)
PLAIN: st.SearchStrategy[Part] = st.one_of(st.builds(Text, WORDS), st.builds(thought, WORDS))
CALLS: st.SearchStrategy[Part] = st.builds(drawn_call, WORDS, OBJECTS, st.booleans())
USAGES = st.none() | st.builds(drawn_usage, FIGURES, st.integers(0, 9), FIGURES, FIGURES, FIGURES)


def goes_on(last: Part | None, part: Part) -> bool:
    """Whether ``part`` would be one with ``last``."""
    if isinstance(part, Text) and isinstance(last, Text):
        return part.opaque is None and last.opaque is None
    if isinstance(part, Reasoning) and isinstance(last, Reasoning):
        return part.opaque is None and last.opaque is None
    return False


def numbered(parts: list[Part], *, sign: bool) -> list[Part]:
    """The calls with ids, and texts that follow each other as one."""
    found: list[Part] = []
    calls = 0
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, ToolCall):
            made = sum(isinstance(each, ToolCall) and each.synthetic_id for each in found)
            call_id = f"call_454349e422f0_{made}" if part.synthetic_id else f"given_{calls}"
            call = ToolCall(call_id, part.name, part.arguments, synthetic_id=part.synthetic_id)
            found.append(signed_call(call) if sign and calls % 2 == 0 else call)
            calls += 1
        elif not goes_on(last, part):
            found.append(part)
    return found


def _may_be_cut(part: Part) -> bool:
    return isinstance(part, ToolCall) and part.arguments == "{}"


@st.composite
def completions(draw: st.DrawFn, *, whole: bool) -> Completion:
    """An answer that the types and this API can both say; one that is not ``whole`` has nothing but what deltas say."""
    kinds = st.one_of(PLAIN, CALLS, SIGNED) if whole else st.one_of(PLAIN, CALLS)
    parts = numbered(draw(st.lists(kinds, max_size=5)), sign=whole)
    calls = any(isinstance(part, ToolCall) for part in parts)
    word = draw(st.sampled_from(["STOP", "CONTINUATION"] if calls else sorted(FINISHES)))
    finish = FinishReason.TOOL_CALLS if calls and word == "STOP" else FINISHES[word]
    while finish is FinishReason.PAUSE and parts and _may_be_cut(parts[-1]):
        parts.pop()
    if finish is FinishReason.TOOL_CALLS and not any(isinstance(part, ToolCall) for part in parts):
        finish = FinishReason.STOP
    usage = draw(USAGES)
    extra = {"continuationToken": "T"} if finish is FinishReason.PAUSE else {}
    return Completion(finish, parts, usage, None, "m", "r", raw_finish=word, extra=extra)


@given(completions(whole=True))
def test_a_whole_answer_comes_back(answer: Completion) -> None:
    assert see([sent([Completed(answer)])]).answer == answer


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        (Usage(7, 5), 12),
        (Usage(7, 5, reasoning=2), 12),
        (Usage(7, 5, 20), 20),
        (Usage(0, 0), 0),
        (Usage(7), None),
        (Usage(output=5), None),
    ],
)
def test_a_total_that_nobody_told_is_the_sum(usage: Usage, total: int | None) -> None:
    answer = see([sent([Completed(Completion(FinishReason.STOP, [Text("a")], usage))])]).answer
    assert answer.usage == attrs.evolve(usage, total=total)


def deltas(answer: Completion) -> list[Event]:
    events: list[Event] = []
    calls = 0
    for part in answer.parts:
        if isinstance(part, Text):
            events += map(TextDelta, part.text)
        elif isinstance(part, Reasoning):
            events += [ReasoningDelta(part.source, piece) for piece in part.text]
        elif isinstance(part, ToolCall):
            events.append(ToolCallDelta(calls, None if part.synthetic_id else part.id, part.name, None))
            events += [ToolCallDelta(calls, None, None, piece) for piece in part.arguments]
            calls += 1
    return events


@given(completions(whole=False))
def test_an_answer_in_pieces_comes_back(answer: Completion) -> None:
    seen = see([sent([*deltas(answer), Completed(answer)])])
    assert seen.answer == answer
    assert seen.text == answer.text


@pytest.mark.parametrize("name", [name for name, data in STREAMS.items() if see([data]).completion is not None])
def test_every_case_goes_through_twice(name: str) -> None:
    answer = see([STREAMS[name]]).answer
    if not all(call.complete for call in answer.calls):
        return
    again = see([sent([Completed(answer)])]).answer
    assert anonymous(again.parts) == anonymous(answer.parts)
    assert (again.finish, again.usage) == (answer.finish, answer.usage)
    relayed = see([sent([*deltas(answer), Completed(answer)])]).answer
    assert (relayed.text, relayed.calls and relayed.finish) == (answer.text, answer.calls and answer.finish)


# --- deltas --------------------------------------------------------------------------------------


def test_a_call_goes_out_whole_before_something_else_is_said() -> None:
    stream = encoder()
    assert stream.push(ToolCallDelta(0, None, "f", '{"x":')) == b""
    assert stream.push(ToolCallDelta(0, "i", None, "1}")) == b""
    first, second = payloads(stream.push(TextDelta("a")))
    assert first["candidates"][0]["content"]["parts"] == [{"functionCall": {"id": "i", "name": "f", "args": {"x": 1}}}]
    assert second["candidates"][0]["content"]["parts"] == [{"text": "a"}]
    with pytest.raises(ConfigError, match="goes on after it went out"):
        stream.push(ToolCallDelta(0, None, None, " "))
    (last,) = payloads(stream.push(Completed(Completion("tool_calls", [ToolCall("i", "f", '{"x":1}'), Text("a")]))))
    assert last["candidates"][0]["finishReason"] == "STOP"


def test_a_call_that_is_not_whole_waits_for_the_end() -> None:
    stream = encoder()
    stream.push(ToolCallDelta(0, "i", "f", '{"x":'))
    assert len(payloads(stream.push(TextDelta("a")))) == 1
    stream.push(ToolCallDelta(0, None, None, "1}"))
    answer = Completion("tool_calls", [ToolCall("i", "f", '{"x":1}'), Text("a")])
    call, _ = payloads(stream.push(Completed(answer)))
    assert call["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] == {"x": 1}


def test_signatures_of_calls_that_wait_and_of_what_stands_last() -> None:
    call = signed_call(ToolCall("i", "f", "{}"))
    last = Text("", signed("", thought=False))
    kept = Opaque("gemini", '{"new":\n1}')
    events: list[Event] = [TextDelta("a"), ToolCallDelta(0, "i", "f", "{}")]
    answer = Completion("tool_calls", [Text("a"), call, kept, last])
    assert decoded(sent([*events, Completed(answer)])).answer.parts == (
        Text("a"),
        call,
        Opaque("gemini", '{"new":1}'),
        last,
    )


def test_reasoning_of_any_source_is_a_thought() -> None:
    answer = Completion("stop", [Reasoning("reasoning_content", "t"), Text("a")])
    seen = decoded(sent([ReasoningDelta("reasoning_content", "t"), TextDelta("a"), Completed(answer)]))
    assert seen.answer.parts == (Reasoning("thought", "t"), Text("a"))


def test_what_another_api_gave_stays_out() -> None:
    answer = Completion("stop", [Text("a", Opaque("openai_responses", '{"id":"x"}')), Opaque("anthropic", "{}")])
    assert see([sent([Completed(answer)])]).answer.parts == (Text("a"),)


def test_what_no_longer_fits_its_part_stays_out() -> None:
    call = ToolCall("j", "f", "{}", opaque=signed_call(ToolCall("i", "f", "{}")).opaque)
    answer = Completion("tool_calls", [Text("b", signed("a", thought=False)), Text("", Opaque("gemini", "5")), call])
    assert see([sent([Completed(answer)])]).answer.parts == (Text("b"), ToolCall("j", "f", "{}"))


def test_half_a_character_is_not_sent() -> None:
    answer = Completion("stop", [Text("a\ud800")])
    assert decoded(sent([TextDelta("a\ud800"), Completed(answer)])).answer.text == "a\ufffd"


@pytest.mark.parametrize(
    ("finish", "word"), [("stop", "STOP"), ("length", "MAX_TOKENS"), ("content_filter", "SAFETY"), ("pause", None)]
)
def test_finishes_without_a_word_of_this_api(finish: str, word: str | None) -> None:
    answer = Completion(finish, raw_finish="end_turn")
    assert decoded(sent([Completed(answer)])).answer.raw_finish == (word or "CONTINUATION")


# --- refused -------------------------------------------------------------------------------------

F = ToolCall("i", "f", "{}")
REFUSED: list[tuple[list[Event], Completion, type[SvirError]]] = [
    ([], Completion("refusal"), UnsupportedError),
    ([], Completion("other", raw_finish="OTHER"), UnsupportedError),
    ([], Completion("content_filter", [F]), UnsupportedError),
    ([], Completion("length", [ToolCall("i", "f", '{"a":', complete=False)]), UnsupportedError),
    ([], Completion("length", [ToolCall("i", "f", '{"a":')]), UnsupportedError),
    ([], Completion("stop", [F]), ConfigError),
    ([], Completion("tool_calls"), ConfigError),
    ([], Completion("tool_calls", [F, F]), ConfigError),
    ([], Completion("tool_calls", [ToolCall("", "f", "{}")]), ConfigError),
    ([], Completion("tool_calls", [ToolCall("i", "", "{}")]), ConfigError),
    ([], Completion("stop", [Image.url("https://x")]), ConfigError),
    ([TextDelta("a")], Completion("stop", [Text("b")]), ConfigError),
    ([ReasoningDelta("thought", "a")], Completion("stop"), ConfigError),
    ([ToolCallDelta(0, "i", "f", None)], Completion("stop"), ConfigError),
    ([ToolCallDelta(1, "i", "f", "{}")], Completion("tool_calls", [F]), ConfigError),
    ([ToolCallDelta(0, "j", "f", "{}")], Completion("tool_calls", [F]), ConfigError),
]


@pytest.mark.parametrize(("events", "answer", "error"), REFUSED)
def test_what_is_refused_has_written_nothing(events: list[Event], answer: Completion, error: type[SvirError]) -> None:
    stream = encoder()
    for each in events:
        stream.push(each)
    with pytest.raises(error):
        stream.push(Completed(answer))
    assert not stream.done
    assert payloads(stream.fail("no"))[0]["error"]["message"] == "no"


def test_events_out_of_order() -> None:
    stream = encoder()
    with pytest.raises(ConfigError, match="negative"):
        stream.push(ToolCallDelta(-1, "i", "f", None))
    stream.push(ToolCallDelta(0, "i", "f", None))
    with pytest.raises(ConfigError, match="id of tool call 0 changed"):
        stream.push(ToolCallDelta(0, "j", None, None))
    no_event: Any = "text"
    with pytest.raises(ConfigError, match="a str is no event"):
        stream.push(no_event)


def test_nothing_follows_the_end() -> None:
    stream = encoder()
    stream.push(Completed(Completion("stop")))
    with pytest.raises(ConfigError, match="has ended"):
        stream.push(TextDelta("a"))
    with pytest.raises(ConfigError, match="has ended"):
        stream.fail("no")


@pytest.mark.parametrize("arguments", [("", "r", 0), ("m", "", 0), (1, "r", 0), ("m", "r", -1), ("m", "r", True)])
def test_arguments_of_another_kind(arguments: Any) -> None:
    with pytest.raises(ConfigError):
        StreamEncoder(*arguments)


@pytest.mark.parametrize("created", [0.5, 10**12])
def test_a_time_that_is_none(created: Any) -> None:
    with pytest.raises(ConfigError):
        StreamEncoder("m", "r", created)


# --- failures ------------------------------------------------------------------------------------

FAILURES: list[SvirError] = [
    RateLimitedError("slow", retry_after=1.5),
    RateLimitedError("used up", retryable=False),
    ResponseTimeoutError("late"),
    AuthenticationError("who"),
    ContextOverflowError("too long"),
    ContextOverflowError("the context length is 5"),
    ContentFilterError("no"),
    ServerError("broken"),
]


@pytest.mark.parametrize("error", FAILURES, ids=[error.detail for error in FAILURES])
def test_a_failure_is_read_as_what_it_was(error: SvirError) -> None:
    stream = encoder()
    data = stream.push(TextDelta("a")) + stream.fail(error)
    found = decoded(data).error
    assert found is not None
    assert type(found) is type(error)
    assert found.retryable is error.retryable
    assert found.retry_after == error.retry_after
    assert (found.server_message() or "").endswith(error.detail)


def test_events_that_end_too_early() -> None:
    stream = encoder()
    data = stream.push(TextDelta("a")) + stream.finish()
    found = decoded(data).error
    assert isinstance(found, ServerError)
    assert found.server_message() == TruncatedStreamError("the answer ended before it was complete").detail


def test_the_half_as_one_object() -> None:
    stream = API.server.stream("m", "r", 0, include_usage=False, refusal=True)
    assert decoded(stream.push(Completed(Completion("stop")))).answer.id == "r"

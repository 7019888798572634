"""The server half against the decoder: what goes out comes back, and a strict client finds nothing to refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import (
    AuthenticationError,
    ConfigError,
    ContentFilterError,
    ContextOverflowError,
    ProtocolError,
    RateLimitedError,
    ServerError,
    SvirError,
    TransportError,
    UnsupportedError,
)
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Image, Opaque, Part, Reasoning, Text, ToolCall
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.openai_responses import API, Decoder, StreamEncoder
from tests.svir_core.wire.openai_responses.streams import CASES, call, message, reasoning, see

USAGE = Usage(3, 2, 5, 1, 0, 2)


def encoder(**options: Any) -> StreamEncoder:
    return StreamEncoder("m", "resp_1", 7, **options)


def opaque(item: Any) -> Opaque:
    return Opaque(API.name, orjson.dumps(item).decode())


def payloads(data: bytes) -> list[Any]:
    """The payload of every event, whose name is its type and whose number is its place."""
    events = data.split(b"\n\n")
    assert events.pop() == b""
    found: list[Any] = []
    for number, each in enumerate(events):
        name, line = each.split(b"\n")
        payload = orjson.loads(line.removeprefix(b"data: "))
        assert name == b"event: " + payload["type"].encode()
        assert payload["sequence_number"] == number
        found.append(payload)
    return found


def written(events: Sequence[Event], **options: Any) -> bytes:
    stream = encoder(**options)
    data = b"".join(stream.push(each) for each in events)
    assert stream.done
    assert stream.finish() == b""
    return data


def read(data: bytes) -> Completion:
    return see([data]).answer


def plain(parts: Sequence[Part]) -> list[Any]:
    """Parts without what stands beside them."""
    return [
        (type(part).__name__, getattr(part, "source", None), getattr(part, "text", None))
        if isinstance(part, Text | Reasoning)
        else (part.id, part.name, part.arguments, part.complete)
        if isinstance(part, ToolCall)
        else part
        for part in parts
    ]


# --- one table, read in both directions ----------------------------------------------------------------

TEXT = [TextDelta("\n\nH\u00e9"), TextDelta(" there")]
CALLS = [ToolCallDelta(0, "x", "f", "{"), ToolCallDelta(0, None, None, '"a":1'), ToolCallDelta(0, None, None, "}")]
DELTAS: dict[str, tuple[list[Event], list[Part]]] = {
    "text": ([*TEXT], [Text("\n\nH\u00e9 there")]),
    "nothing": ([], []),
    "empty deltas": ([TextDelta(""), ReasoningDelta("reasoning_text", ""), TextDelta("a")], [Text("a")]),
    "reasoning": (
        [ReasoningDelta("reasoning_summary", "a"), ReasoningDelta("reasoning_text", "b"), TextDelta("c")],
        [Reasoning("reasoning_summary", "a"), Reasoning("reasoning_text", "b"), Text("c")],
    ),
    "a call in pieces": ([*CALLS], [ToolCall("x", "f", '{"a":1}')]),
    "text around a call": (
        [*TEXT, *CALLS, TextDelta("!")],
        [Text("\n\nH\u00e9 there"), ToolCall("x", "f", '{"a":1}'), Text("!")],
    ),
    "calls that interleave": (
        [
            ToolCallDelta(1, "y", "g", "{"),
            ToolCallDelta(0, "x", "f", "{"),
            ToolCallDelta(1, None, None, "}"),
            ToolCallDelta(0, "x", None, None),
            ToolCallDelta(0, None, None, "}"),
        ],
        [ToolCall("x", "f", "{}"), ToolCall("y", "g", "{}")],
    ),
    "a name in pieces": (
        [ToolCallDelta(0, "x", "f", None), ToolCallDelta(0, None, "oo", None), ToolCallDelta(0, None, None, "{}")],
        [ToolCall("x", "foo", "{}")],
    ),
    "a call without arguments": (
        [ToolCallDelta(0, "x", "f", None), TextDelta("a")],
        [ToolCall("x", "f", ""), Text("a")],
    ),
    "a call whose id comes late": (
        [ToolCallDelta(0, None, "f", "{"), TextDelta("a"), ToolCallDelta(0, "x", None, "}")],
        [Text("a"), ToolCall("x", "f", "{}")],
    ),
}


@pytest.mark.parametrize("name", DELTAS)
def test_deltas_come_back(name: str) -> None:
    deltas, parts = DELTAS[name]
    finish = FinishReason.TOOL_CALLS if any(isinstance(part, ToolCall) for part in parts) else FinishReason.STOP
    answer = Completion(finish, parts, USAGE)
    data = written([*deltas, Completed(answer)])
    back = read(data)
    assert plain(back.parts) == plain(parts)
    assert (back.finish, back.usage, back.model, back.id) == (finish, USAGE, "m", "resp_1")
    assert plain(read(written([Completed(answer)])).parts) == plain(parts)  # alone it says the same


@pytest.mark.parametrize(
    ("finish", "raw", "back"),
    [
        (FinishReason.LENGTH, None, "max_output_tokens"),
        (FinishReason.LENGTH, "max_messages", "max_messages"),
        (FinishReason.LENGTH, "length", "max_output_tokens"),
        (FinishReason.CONTENT_FILTER, None, "content_filter"),
        (FinishReason.PAUSE, "pause_turn", "steered"),
        (FinishReason.STOP, "end_turn", "completed"),
    ],
)
def test_finishes_come_back(finish: FinishReason, raw: str | None, back: str) -> None:
    answer = Completion(finish, [Text("Hi")], raw_finish=raw)
    deltas: list[Event] = [TextDelta("Hi")]
    for events in ([*deltas, Completed(answer)], [Completed(answer)]):
        seen = read(written(events))
        assert (seen.finish, seen.raw_finish, seen.text, seen.usage) == (finish, back, "Hi", None)


def test_a_refusal_comes_back() -> None:
    answer = Completion(FinishReason.REFUSAL, [Text("No.")])
    deltas: list[Event] = [TextDelta("No.")]
    for events in ([*deltas, Completed(answer)], [Completed(answer)]):
        back = read(written(events, refusal=True))
        assert (back.finish, back.text) == (FinishReason.REFUSAL, "No.")
    with pytest.raises(UnsupportedError, match="refusal"):
        written([TextDelta("No."), Completed(answer)])
    with pytest.raises(UnsupportedError, match="refusal"):
        written([TextDelta("Hi"), Completed(Completion(FinishReason.STOP, [Text("Hi")]))], refusal=True)


def test_calls_that_are_not_complete_come_back() -> None:
    parts = [ToolCall("x", "f", "{}", complete=False), ToolCall("y", "f", '{"a', complete=False)]
    answer = Completion(FinishReason.LENGTH, parts)
    deltas: list[Event] = [ToolCallDelta(0, "x", "f", "{}"), ToolCallDelta(1, "y", "f", '{"a')]
    for events in ([*deltas, Completed(answer)], [Completed(answer)]):
        assert plain(read(written(events)).parts) == plain(parts)


def test_an_id_that_svir_made_goes_out() -> None:
    answer = Completion(FinishReason.TOOL_CALLS, [ToolCall("call_0", "f", "{}", synthetic_id=True)])
    back = read(written([ToolCallDelta(0, None, "f", "{}"), Completed(answer)]))
    assert back.calls[0].id == "call_0"


def test_reasoning_of_other_apis_goes_out() -> None:
    answer = Completion(FinishReason.STOP, [Reasoning("think", "a"), Reasoning("thought", "b")])
    deltas: list[Event] = [ReasoningDelta("think", "a"), ReasoningDelta("thought", "b")]
    for events in ([*deltas, Completed(answer)], [Completed(answer)]):
        assert [each.source for each in read(written(events)).reasoning] == ["reasoning_text", "reasoning_summary"]


# --- items of this API -----------------------------------------------------------------------------------

BOTH = {**reasoning("sum"), "content": [{"type": "reasoning_text", "text": "raw"}]}
CUSTOM = {
    "type": "custom_tool_call",
    "id": "ct_1",
    "call_id": "c2",
    "name": "sql",
    "input": "SELECT",
    "status": "completed",
}
TWO_PARTS = {
    **message("", "msg_2"),
    "content": [
        {"type": "output_text", "text": "a", "annotations": [{"type": "x"}]},
        {"type": "refusal", "refusal": "no"},
        {"type": "hologram"},
    ],
}
WHOLE = Completion(
    FinishReason.TOOL_CALLS,
    [
        Reasoning("reasoning_summary", "", opaque(reasoning())),
        Reasoning("reasoning_summary", "sum", opaque({**BOTH, "id": "rs_2"})),
        Reasoning("reasoning_text", "raw"),
        Opaque(API.name, '{"type":"web_search_call","id":"ws_1","n":12345678901234567890123,"s":"\u00e9"}'),
        Text("Hi", opaque(message("Hi"))),
        Text("ano", opaque(TWO_PARTS)),
        ToolCall("call_1", "f", "{ }", opaque=opaque(call("{ }", namespace="n"))),
        ToolCall("c2", "sql", "SELECT", opaque=opaque(CUSTOM)),
    ],
    USAGE,
    model="m",
    id="resp_1",
    raw_finish="completed",
)


def test_a_whole_answer_of_this_api_comes_back_as_it_was() -> None:
    assert read(written([Completed(WHOLE)])) == WHOLE


def test_items_behind_the_deltas_come_back() -> None:
    approval = Opaque(API.name, '{"type":"mcp_approval_request","id":"mcpr_1"}')
    hidden = Reasoning("reasoning_summary", "", opaque(reasoning(item_id="rs_9")))
    answer = Completion(FinishReason.PAUSE, [approval, Text("Hi", opaque(message("Hi"))), hidden, approval])
    back = read(written([TextDelta("Hi"), Completed(answer)]))
    assert plain(back.parts) == [("Text", None, "Hi"), *plain([hidden, approval])]
    assert back.parts[1:] == answer.parts[2:]
    assert back.finish is FinishReason.PAUSE


def test_items_of_other_apis_stay_out() -> None:
    foreign = Opaque("gemini", '{"a":1}')
    answer = Completion(FinishReason.STOP, [foreign, Reasoning("thought", "", foreign), Text(""), Text("Hi", foreign)])
    assert plain(read(written([Completed(answer)])).parts) == [("Text", None, "Hi")]


@pytest.mark.parametrize(
    "name", ["00-tricky/r03-encrypted-reasoning", "02-texts/citations", "00-tricky/r17-custom-tool"]
)
def test_a_recorded_answer_is_answered_again(name: str) -> None:
    chunks = orjson.loads((CASES / f"{name}.json").read_bytes())["chunks"]
    answer = read("".join(chunks).encode())
    stream = StreamEncoder(answer.model or "", answer.id or "", 0)
    assert read(stream.push(Completed(answer))) == answer


# --- refused ---------------------------------------------------------------------------------------------

STOP = FinishReason.STOP
REFUSED: dict[str, tuple[list[Any], Any, type[SvirError], str]] = {
    "no event": ([], "x", ConfigError, "is no event"),
    "another text": ([TextDelta("a")], Completed(Completion(STOP, [Text("b")])), ConfigError, "the text"),
    "another reasoning": (
        [ReasoningDelta("think", "a")],
        Completed(Completion(STOP, [Reasoning("think", "b")])),
        ConfigError,
        "the reasoning",
    ),
    "calls that were not said": (
        [TextDelta("a")],
        Completed(Completion(FinishReason.TOOL_CALLS, [Text("a"), ToolCall("x", "f", "{}")])),
        ConfigError,
        "the calls",
    ),
    "another call": (
        [ToolCallDelta(0, "x", "f", "{}")],
        Completed(Completion(FinishReason.TOOL_CALLS, [ToolCall("x", "f", "")])),
        ConfigError,
        "tool call 0",
    ),
    "a call without a name": (
        [],
        Completed(Completion(FinishReason.TOOL_CALLS, [ToolCall("x", "", "{}")])),
        ConfigError,
        "no name",
    ),
    "two calls of one id": (
        [],
        Completed(Completion(FinishReason.TOOL_CALLS, [ToolCall("x", "f", "{}"), ToolCall("x", "g", "{}")])),
        ConfigError,
        "same id",
    ),
    "a negative index": ([], ToolCallDelta(-1, "x", "f", None), ConfigError, "negative"),
    "an id that changes": ([ToolCallDelta(0, "x", "f", None)], ToolCallDelta(0, "y", None, None), ConfigError, "id"),
    "a name too late": (
        [ToolCallDelta(0, "x", "f", "{")],
        ToolCallDelta(0, None, "g", None),
        ConfigError,
        "named after",
    ),
    "calls that are none": (
        [],
        Completed(Completion(FinishReason.TOOL_CALLS, [Text("a")])),
        ConfigError,
        "does not fit",
    ),
    "a stop with calls": ([], Completed(Completion(STOP, [ToolCall("x", "f", "{}")])), ConfigError, "does not fit"),
    "no word": ([], Completed(Completion(FinishReason.OTHER, [Text("a")])), UnsupportedError, "no word"),
    "no part of an answer": (
        [],
        Completed(Completion(STOP, [Image.data(b"x", "image/png")])),
        ConfigError,
        "no part of an answer",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_has_written_nothing(name: str) -> None:
    before, event, kind, words = REFUSED[name]
    stream = encoder()
    data = b"".join(stream.push(each) for each in before)
    with pytest.raises(kind, match=words):
        stream.push(event)
    assert not stream.done
    data += stream.fail("so it ends")
    payloads(data)
    assert isinstance(see([data]).error, ServerError)
    assert see([data]).message == "so it ends"
    with pytest.raises(ConfigError, match="ended"):
        stream.push(TextDelta("x"))
    with pytest.raises(ConfigError, match="ended"):
        stream.fail("x")


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (RateLimitedError("slow"), RateLimitedError, True),
        (RateLimitedError("used up", retryable=False), RateLimitedError, False),
        (AuthenticationError("who"), AuthenticationError, False),
        (ContextOverflowError("long"), ContextOverflowError, False),
        (ContentFilterError("no"), ContentFilterError, False),
        (TransportError("gone"), ServerError, False),
        (ProtocolError("odd \ud83e", server_message="secret"), ServerError, False),
    ],
)
def test_errors_are_read_as_what_they_are(error: SvirError, kind: type[SvirError], retryable: bool) -> None:
    for before in ([], [TextDelta("par")]):
        stream = encoder()
        data = b"".join(stream.push(each) for each in before) + stream.fail(error)
        seen = see([data])
        assert type(seen.error) is kind
        assert seen.error is not None
        assert seen.error.retryable is retryable
        assert seen.message == error.detail.replace("\ud83e", "\ufffd")
        assert b"secret" not in data


def test_a_stream_that_never_ends_is_cut_off() -> None:
    stream = encoder()
    data = stream.push(TextDelta("a")) + stream.finish()
    assert isinstance(see([data]).error, ServerError)
    assert see([data]).message == "the answer ended before it was complete"


@pytest.mark.parametrize(
    ("model", "id_", "created"),
    [("", "r", 1), ("m", "", 1), (5, "r", 1), ("m", "r", -1), ("m", "r", True), ("m", "r", 1.5)],
)
def test_what_a_stream_needs(model: Any, id_: Any, created: Any) -> None:
    with pytest.raises(ConfigError):
        API.server.stream(model, id_, created)


# --- what the strictest client asks -----------------------------------------------------------------------


def test_every_item_is_opened_grown_and_ended() -> None:
    parts: list[Part] = [Text("\n\nH\u00e9 there"), ToolCall("x", "f", '{"a":1}')]
    told = payloads(written([*TEXT, *CALLS, Completed(Completion(FinishReason.TOOL_CALLS, parts, USAGE))]))
    assert [each["type"].removeprefix("response.") for each in told] == [
        "created", "in_progress",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done",
        "output_item.added", *["function_call_arguments.delta"] * 3, "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    response = told[-1]["response"]
    assert [each["item"] for each in told if each["type"].endswith("item.done")] == response["output"]
    assert {"id", "object", "created_at", "status", "error", "incomplete_details", "model", "output", "usage"} <= set(
        response
    )
    assert (response["status"], response["created_at"]) == ("completed", 7)
    assert response["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 2},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 5,
    }


@pytest.mark.parametrize("usage", [None, Usage(3), Usage(None, 2)])
def test_a_report_without_both_counts_is_none(usage: Usage | None) -> None:
    assert payloads(written([Completed(Completion(STOP, [Text("a")], usage))]))[-1]["response"]["usage"] is None


def test_a_total_that_nobody_told_is_the_sum() -> None:
    assert read(written([Completed(Completion(STOP, [Text("a")], Usage(3, 2)))])).usage == Usage(3, 2, 5)


SAID = st.text(min_size=1, max_size=6)


def own_text(text: str) -> Text:
    return Text(text, opaque(message(text, f"msg_{text!r}")))


def own_reasoning(text: str) -> Reasoning:
    return Reasoning("reasoning_summary", text, opaque(reasoning(text, item_id=f"rs_{text!r}")))


ANSWER: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, SAID),
    st.builds(Reasoning, st.sampled_from(["reasoning_summary", "reasoning_text"]), SAID),
    st.builds(ToolCall, SAID, SAID, st.sampled_from(["{}", '{"a": 1}', ""])),
    st.builds(own_text, st.text(max_size=6)),
    st.builds(own_reasoning, st.text(max_size=6)),
    st.just(Opaque(API.name, '{"type":"web_search_call","id":"ws_1"}')),
)


@given(st.lists(ANSWER, max_size=6, unique_by=lambda part: getattr(part, "opaque", None) or id(part)), st.booleans())
def test_any_answer_comes_back(parts: list[Part], deltas: bool) -> None:
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if len({part.id for part in calls}) != len(calls):
        return
    answer = Completion(FinishReason.TOOL_CALLS if calls else STOP, parts, USAGE)
    events: list[Event] = []
    for part in parts if deltas else ():
        if isinstance(part, Text):
            events.append(TextDelta(part.text))
        elif isinstance(part, Reasoning):
            events.append(ReasoningDelta(part.source, part.text))
        elif isinstance(part, ToolCall):
            index = sum(isinstance(each, ToolCallDelta) for each in events)
            events.append(ToolCallDelta(index, part.id, part.name, part.arguments))
    back = read(written([*events, Completed(answer)]))
    assert (back.finish, back.text, back.usage) == (answer.finish, answer.text, USAGE)
    assert back.reasoning == answer.reasoning
    assert plain(back.calls) == plain(answer.calls)
    if not events:
        assert plain(back.parts) == plain(parts)
        told = [part.opaque for part in parts if isinstance(part, Text | Reasoning) and part.opaque is not None]
        kept = [part.opaque for part in back.parts if isinstance(part, Text | Reasoning)]
        assert all(each in kept for each in told)


def test_a_decoder_of_this_api_reads_it_strictly() -> None:
    decoder = Decoder()
    decoder.push(written([Completed(WHOLE)]))
    assert decoder.result().anomaly_count == 0

"""The server half against the decoder: what goes out comes back, and a strict client finds nothing to refuse."""

from __future__ import annotations

import json
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
    ResponseTimeoutError,
    ServerError,
    SvirError,
    TransportError,
    UnsupportedError,
)
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import CachePoint, Opaque, Part, Reasoning, Text, ToolCall
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.anthropic_messages import API, StreamEncoder
from svir_core.wire.api import CodecOptions, Model
from tests.svir_core.wire.anthropic_messages.streams import see

USAGE = Usage(3, 2)


def encoder() -> StreamEncoder:
    return StreamEncoder("m", "msg_1")


def payloads(data: bytes) -> list[Any]:
    """The payload of every event, each named after it."""
    events = data.split(b"\n\n")
    assert events.pop() == b""
    found: list[Any] = []
    for each in events:
        name, payload = each.split(b"\n")
        found.append(orjson.loads(payload.removeprefix(b"data: ")))
        assert name == b"event: " + found[-1]["type"].encode()
    return found


def sent(events: Sequence[Event]) -> bytes:
    writer = encoder()
    data = b"".join(writer.push(event) for event in events)
    assert writer.done
    assert writer.finish() == b""
    return data


def read(events: Sequence[Event]) -> Completion:
    return see([sent(events)]).answer


def own(block: Any) -> Opaque:
    return Opaque("anthropic_messages", json.dumps(block, separators=(",", ":"), ensure_ascii=False))


# --- a stream, event by event --------------------------------------------------------------------


def test_a_stream_as_it_is_written() -> None:
    answer = Completion(
        FinishReason.TOOL_CALLS,
        [Reasoning("thinking", "hm"), Text("a b"), ToolCall("i", "f", '{"x":1}')],
        Usage(10, 5, reasoning=2, cache_read=4, cache_write=1),
    )
    events: list[Event] = [
        ReasoningDelta("thinking", "hm"),
        TextDelta("a"),
        TextDelta(" b"),
        ToolCallDelta(0, "i", "f", None),
        ToolCallDelta(0, None, None, '{"x"'),
        ToolCallDelta(0, None, None, ":1}"),
        Completed(answer),
    ]
    assert payloads(sent(events)) == [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            },
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": " b"}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "i", "name": "f", "input": {}},
        },
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"x"'}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ":1}"}},
        {"type": "content_block_stop", "index": 2},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {
                "output_tokens": 5,
                "input_tokens": 5,
                "cache_creation_input_tokens": 1,
                "cache_read_input_tokens": 4,
                "output_tokens_details": {"thinking_tokens": 2},
            },
        },
        {"type": "message_stop"},
    ]
    told = read(events)
    assert (told.parts, told.usage, told.finish) == (answer.parts, answer.usage, answer.finish)


def calls(*parts: Part) -> Completed:
    return Completed(Completion(FinishReason.TOOL_CALLS, parts, USAGE))


A, B = ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", "{}")

INTERLEAVED: list[list[Event]] = [
    [
        ToolCallDelta(0, "a", "f", '{"x"'),
        ToolCallDelta(1, "b", "g", "{}"),
        ToolCallDelta(0, None, None, ":1}"),
        calls(A, B),
    ],
    [ToolCallDelta(1, "b", "g", "{}"), ToolCallDelta(0, "a", "f", '{"x":1}'), calls(A, B)],
    [ToolCallDelta(0, "a", "f", '{"x":1}'), ToolCallDelta(1, "b", "g", "{}"), calls(A, B)],
    [
        ToolCallDelta(0, None, "f", None),
        ToolCallDelta(1, "b", "g", "{}"),
        ToolCallDelta(0, "a", None, '{"x":1}'),
        calls(A, B),
    ],
]


@pytest.mark.parametrize("events", INTERLEAVED)
def test_calls_that_interleave_come_one_after_the_other(events: list[Event]) -> None:
    assert read(events).parts == (A, B)


def test_a_call_goes_out_as_soon_as_nothing_can_come_between() -> None:
    writer = encoder()
    assert writer.push(ToolCallDelta(0, "a", "f", None)) == b""
    assert len(payloads(writer.push(ToolCallDelta(0, None, None, '{"x":1}')))) == 3
    assert [each["type"] for each in payloads(writer.push(ToolCallDelta(1, "b", "g", "{}")))] == [
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
    ]


def test_text_between_calls_stays_between_them() -> None:
    parts = (A, Text("x"), B)
    events: list[Event] = [ToolCallDelta(0, "a", "f", '{"x":1}'), TextDelta("x"), ToolCallDelta(1, "b", "g", "{}")]
    assert read([*events, calls(*parts)]).parts == parts


def test_arguments_that_are_empty_are_an_empty_object() -> None:
    call = ToolCall("a", "f", "")
    streamed: list[list[Event]] = [[ToolCallDelta(0, "a", "f", None), calls(call)], [calls(call)]]
    for events in streamed:
        assert read(events).calls == (ToolCall("a", "f", "{}"),)


def test_ids_that_svir_made_go_out() -> None:
    made = ToolCall("call_0", "f", "{}", synthetic_id=True)
    assert read([ToolCallDelta(0, None, "f", "{}"), calls(made)]).calls == (ToolCall("call_0", "f", "{}"),)


def test_reasoning_of_any_source_is_thinking() -> None:
    events: list[Event] = [ReasoningDelta("reasoning_content", "a"), ReasoningDelta("think", "b")]
    parts = [Reasoning("reasoning_content", "a"), Reasoning("think", "b")]
    assert read([*events, Completed(Completion(FinishReason.STOP, parts))]).parts == (Reasoning("thinking", "ab"),)


def test_events_that_say_nothing_write_nothing() -> None:
    writer = encoder()
    assert writer.push(TextDelta("")) == writer.push(ReasoningDelta("thinking", "")) == b""


# --- a whole answer ------------------------------------------------------------------------------

SIGNED = Reasoning("thinking", "hm", own({"type": "thinking", "thinking": "hm", "signature": "S"}))
HIDDEN = Reasoning("thinking", "", own({"type": "thinking", "thinking": "", "signature": "S"}))
CITED = Text("ab", own({"type": "text", "text": "ab", "citations": [{"n": 1}, {"n": 2}], "mood": "fine"}))
REDACTED = own({"type": "redacted_thinking", "data": "AAA"})
SEARCH = own({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x", "n": 1.5}})
CALLED = ToolCall("c", "f", '{"k": 1}', opaque=own({"caller": {"type": "direct"}}))
PLAIN = Reasoning("thinking", "plain")

DRAWN: list[Part] = [SIGNED, HIDDEN, CITED, REDACTED, SEARCH, PLAIN, Text("x"), Text("\u00e9\n")]
parts = st.lists(st.sampled_from(DRAWN), max_size=6)
counts = st.none() | st.integers(0, 2**40)
finishes = st.sampled_from(
    [FinishReason.STOP, FinishReason.LENGTH, FinishReason.PAUSE, FinishReason.REFUSAL, FinishReason.TOOL_CALLS]
)


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    finish = draw(finishes)
    said: list[Part] = list(draw(parts))
    if finish is FinishReason.TOOL_CALLS:
        said.insert(draw(st.integers(0, len(said))), CALLED)
    fresh, read_, written, output = draw(counts), draw(counts), draw(counts), draw(counts)
    usage = Usage((fresh or 0) + (read_ or 0) + (written or 0), output or 0, cache_read=read_, cache_write=written)
    return Completion(finish, said, usage, model="m", id="msg_1")


@given(completions())
def test_a_whole_answer_comes_back_part_by_part(answer: Completion) -> None:
    told = read([Completed(answer)])
    assert told.parts == answer.parts
    assert (told.finish, told.usage, told.model, told.id) == (answer.finish, answer.usage, "m", "msg_1")


pieces = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
events_of = st.lists(
    st.one_of(st.builds(TextDelta, pieces), st.builds(ReasoningDelta, st.just("thinking"), pieces)), max_size=8
)


@given(events_of, st.lists(st.sampled_from([REDACTED, SEARCH]), max_size=2))
def test_deltas_come_back_and_so_do_opaque_parts_behind_them(said: list[Event], behind: list[Opaque]) -> None:
    texts: list[Part] = [
        Text(event.text) if isinstance(event, TextDelta) else Reasoning("thinking", event.text)
        for event in said
        if isinstance(event, TextDelta | ReasoningDelta)
    ]
    answer = Completion(FinishReason.STOP, [*texts, *behind], USAGE)
    told = read([*said, Completed(answer)])
    assert told.text == answer.text
    assert told.reasoning == answer.reasoning
    assert tuple(part for part in told.parts if isinstance(part, Opaque)) == tuple(behind)


def test_what_is_too_late_or_another_apis_stays_out() -> None:
    foreign: list[Part] = [Opaque("gemini", "{}"), own([]), Text("b", Opaque("gemini", '{"x":1}'))]
    answer = Completion(FinishReason.STOP, [SIGNED, REDACTED, *foreign], USAGE)
    told = read([ReasoningDelta("thinking", "hm"), TextDelta("b"), Completed(answer)])
    assert told.parts == (Reasoning("thinking", "hm"), Text("b"))
    assert read([Completed(answer)]).parts == (SIGNED, REDACTED, Text("b"))


def test_what_stands_beside_a_changed_part_stays_out() -> None:
    changed: list[Part] = [Text("z", CITED.opaque), Reasoning("thinking", "z", SIGNED.opaque), Text("", REDACTED)]
    assert read([Completed(Completion(FinishReason.STOP, changed, USAGE))]).parts == (
        Text("z"),
        Reasoning("thinking", "z"),
    )


def test_citations_that_are_none_are_kept_as_they_were() -> None:
    odd = Text("a", own({"type": "text", "text": "a", "citations": None, "x": 1}))
    assert read([Completed(Completion(FinishReason.STOP, [odd], USAGE))]).parts == (odd,)


# --- how it ends ---------------------------------------------------------------------------------

WORDS: list[tuple[FinishReason, str | None, str]] = [
    (FinishReason.STOP, None, "end_turn"),
    (FinishReason.STOP, "stop", "end_turn"),
    (FinishReason.STOP, "stop_sequence", "stop_sequence"),
    (FinishReason.LENGTH, "length", "max_tokens"),
    (FinishReason.LENGTH, "model_context_window_exceeded", "model_context_window_exceeded"),
    (FinishReason.PAUSE, None, "pause_turn"),
    (FinishReason.PAUSE, "compaction", "compaction"),
    (FinishReason.REFUSAL, None, "refusal"),
    (FinishReason.CONTENT_FILTER, "content_filter", "refusal"),
]


@pytest.mark.parametrize(("finish", "raw", "word"), WORDS)
def test_a_finish_is_said_in_the_words_of_the_api(finish: FinishReason, raw: str | None, word: str) -> None:
    answer = Completion(finish, [Text("x")], USAGE, raw_finish=raw, extra={"stop_sequence": "END"})
    told = payloads(sent([TextDelta("x"), Completed(answer)]))[-2]
    assert told["delta"] == {"stop_reason": word, "stop_sequence": "END"}


def test_a_finish_without_a_word_is_refused_and_writes_nothing() -> None:
    writer = encoder()
    with pytest.raises(UnsupportedError, match="other"):
        writer.push(Completed(Completion(FinishReason.OTHER)))
    assert not writer.done
    assert payloads(writer.push(Completed(Completion(FinishReason.STOP))))[0]["type"] == "message_start"


def test_figures_that_clients_demand_are_zero_when_nobody_knows_them() -> None:
    answer = Completion(FinishReason.STOP, [Text("x")])
    alone: list[Event] = [Completed(answer)]
    for events in (alone, [TextDelta("x"), *alone]):
        start, *_, end, _ = payloads(sent(events))
        assert start["message"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
        assert end["usage"] == {"output_tokens": 0}


FAILURES: list[tuple[SvirError | str, str, type[SvirError]]] = [
    (RateLimitedError("slow"), "slow", RateLimitedError),
    (ResponseTimeoutError("late"), "late", ResponseTimeoutError),
    (AuthenticationError("who"), "who", AuthenticationError),
    (ContextOverflowError("long"), "long", ContextOverflowError),
    (ContentFilterError("no"), "no", ContentFilterError),
    (TransportError("gone", server_message="secret"), "gone", ServerError),
    ("words \udc00", "words \ufffd", ServerError),
]


@pytest.mark.parametrize(("error", "words", "kind"), FAILURES)
def test_an_error_comes_back_as_what_it_is(error: SvirError | str, words: str, kind: type[SvirError]) -> None:
    writer = encoder()
    data = writer.push(TextDelta("a")) + writer.fail(error)
    assert writer.done
    seen = see([data])
    assert (type(seen.error), seen.message, seen.text) == (kind, words, "a")


def test_events_that_end_too_early_end_as_cut_off() -> None:
    writer = encoder()
    seen = see([writer.push(TextDelta("a")) + writer.finish()])
    assert (seen.kind, seen.text) == ("server", "a")
    with pytest.raises(ConfigError, match="ended"):
        writer.push(TextDelta("b"))
    with pytest.raises(ConfigError, match="ended"):
        writer.fail("x")
    assert writer.finish() == b""


# --- what is refused -----------------------------------------------------------------------------

STOPPED = Completed(Completion(FinishReason.STOP, [Text("x")]))
REFUSED: list[tuple[list[Event], str]] = [
    ([TextDelta("y"), STOPPED], "text"),
    ([ReasoningDelta("thinking", "y"), Completed(Completion(FinishReason.STOP))], "reasoning"),
    ([ToolCallDelta(0, "a", "f", "{}"), STOPPED], "text"),
    ([ToolCallDelta(0, "a", "f", "{}"), Completed(Completion(FinishReason.STOP))], "numbered from 0"),
    ([ToolCallDelta(1, "a", "f", "{}"), calls(A)], "numbered from 0"),
    ([ToolCallDelta(0, "a", "f", "{}"), calls(A)], "tool call 0"),
    ([ToolCallDelta(0, None, "f", '{"x":1}'), calls(A)], "tool call 0"),
    ([ToolCallDelta(-1, "a", "f", "{}")], "negative"),
    ([ToolCallDelta(0, "a", "f", None), ToolCallDelta(0, "b", None, None)], "id of tool call 0 changed"),
    ([ToolCallDelta(0, "a", "f", "{"), ToolCallDelta(0, None, "g", None)], "name of tool call 0"),
    ([ToolCallDelta(0, "a", "f", "{}"), TextDelta("x"), ToolCallDelta(0, None, None, " ")], "after its block"),
    ([ToolCallDelta(0, "a", "f", "{}"), ToolCallDelta(1, "b", "g", "{}"), ToolCallDelta(0, None, None, " ")], "after"),
    ([ToolCallDelta(0, "a", None, "{}"), TextDelta("x")], "no id or no name"),
    ([ToolCallDelta(1, "a", "f", "{}"), TextDelta("x")], "no id or no name"),
    ([calls()], "tool_calls"),
    ([calls(ToolCall("", "f", "{}"))], "no id or no name"),
    ([calls(A, ToolCall("a", "g", "{}"))], "the same id"),
    ([Completed(Completion(FinishReason.STOP, [CachePoint()]))], "CachePoint"),
]


@pytest.mark.parametrize(("events", "words"), REFUSED)
def test_events_that_do_not_fit_are_refused_and_write_nothing(events: list[Event], words: str) -> None:
    writer = encoder()
    data = b"".join(writer.push(event) for event in events[:-1])
    with pytest.raises(ConfigError, match=words):
        writer.push(events[-1])
    assert not writer.done
    assert see([data + writer.fail("x")]).kind == "server"


def test_opaque_data_is_written_clean_or_refused() -> None:
    halved = Opaque("anthropic_messages", '{"type":"x_result","v":"\\ud83d\ud83d"}')
    assert read([Completed(Completion(FinishReason.STOP, [halved], USAGE))]).parts == (
        own({"type": "x_result", "v": "\ufffd\ufffd"}),
    )
    deep = Opaque("anthropic_messages", '{"type":"x_result","v":' + "[" * 300 + "]" * 300 + "}")
    writer = encoder()
    with pytest.raises(ProtocolError, match="deeper"):
        writer.push(Completed(Completion(FinishReason.STOP, [deep], USAGE)))
    assert not writer.done


def test_what_is_no_event_is_refused() -> None:
    writer: Any = encoder()
    with pytest.raises(ConfigError, match="str is no event"):
        writer.push("x")


@pytest.mark.parametrize(("model", "id"), [("", "i"), ("m", ""), (5, "i"), ("m", None)])
def test_a_stream_needs_a_model_and_an_id(model: Any, id: Any) -> None:
    with pytest.raises(ConfigError):
        StreamEncoder(model, id)


# --- the half as one object ----------------------------------------------------------------------


def test_the_half_of_the_api_writes_what_the_other_reads() -> None:
    writer = API.server.stream("m", "msg_1", 7, include_usage=False, refusal=True)
    answer = Completion(FinishReason.REFUSAL, [Text("No.")], USAGE)
    data = writer.push(TextDelta("No.")) + writer.push(Completed(answer)) + writer.finish()
    decoder = API.decoder(CodecOptions(), lambda: 0.0)
    decoder.push(data)
    assert (decoder.result().finish, decoder.result().text, decoder.result().usage) == (
        FinishReason.REFUSAL,
        "No.",
        USAGE,
    )


@pytest.mark.parametrize("models", [(), (Model("a"), Model("b/c", "A name")), (Model("x\N{GREEK SMALL LETTER PI}"),)])
def test_a_listing_is_read_back(models: tuple[Model, ...]) -> None:
    page = API.models(API.server.models(models))
    assert (page.models, page.after) == (models, None)


def test_a_listing_has_what_the_strictest_client_demands() -> None:
    assert orjson.loads(API.server.models([Model("a\udc80", "A")])) == {
        "data": [{"type": "model", "id": "a\ufffd", "display_name": "A", "created_at": "1970-01-01T00:00:00Z"}],
        "has_more": False,
        "first_id": "a\ufffd",
        "last_id": "a\ufffd",
    }

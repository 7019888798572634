"""The decoder: what the conformance cases cannot say, or say one by one."""

from __future__ import annotations

import sys
from typing import Any

import orjson
import pytest

from svir_core.errors import (
    ConfigError,
    ProtocolError,
    ResponseLimitError,
    ServerError,
    TruncatedStreamError,
)
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.limits import Limits
from svir_core.message import Opaque, Reasoning, Text
from svir_core.response import Completion, FinishReason, Usage
from svir_core.slow_json import read_exact
from svir_core.wire.openai_responses import API, Decoder, decode
from tests.svir_core.wire.openai_responses.streams import (
    MODES,
    USAGE,
    added,
    both,
    call,
    called,
    completed,
    created,
    decoded,
    delta,
    done,
    event,
    incomplete,
    message,
    part,
    reasoning,
    refused,
    said,
    see,
    stream,
)


def test_options_are_checked() -> None:
    options: list[dict[str, Any]] = [{"mode": "loose"}, {"limits": 5}, {"clock": 5}, {"extra": 1}]
    for wrong in options:
        with pytest.raises(ConfigError):
            Decoder(**wrong)


def test_events_of_a_whole_answer() -> None:
    data = stream(said(0, "Hi"), called(1, "{}"), end=completed(usage=USAGE))
    seen = both(data)
    assert seen.events[:-1] == (
        TextDelta("Hi"),
        ToolCallDelta(0, "call_1", "f", None),
        ToolCallDelta(0, None, None, "{}"),
    )
    answer = seen.answer
    assert (answer.finish, answer.model, answer.id, answer.raw_finish) == ("tool_calls", "m", "resp_1", "completed")
    assert answer.usage == Usage(3, 2, 5)
    assert list(decode([data])) == list(decode([data[:100], data[100:], b"never read"]))
    assert isinstance(list(decode([data]))[-1], Completed)


def test_decode_raises_after_the_last_good_event() -> None:
    events = decode([created() + said(0, "Hi")])
    assert next(events) == TextDelta("Hi")
    with pytest.raises(TruncatedStreamError) as caught:
        next(events)
    assert caught.value.partial is not None
    assert caught.value.partial.parts == (Text("Hi"),)
    assert caught.value.partial.id == "resp_1"


def test_timing_and_counters() -> None:
    ticks = iter([0.0, 1.0, 3.0])
    decoder = Decoder(clock=lambda: next(ticks))
    decoder.push(created() + said(0, "Hi"))
    decoder.push(completed())
    timing = decoder.result().timing
    assert timing is not None
    assert (timing.first, timing.last, timing.end, timing.visible) == (1.0, 1.0, 3.0, 1)
    assert (decoder.events_seen, decoder.output_seen) == (6, 1)


def test_partial_of_a_failure_has_its_usage() -> None:
    failed = {"status": "failed", "error": {"code": "server_error", "message": "boom"}, "usage": USAGE}
    for mode in MODES:
        error = see([created() + said(0, "Hi"), event("response.failed", response=failed)], mode).error
        assert isinstance(error, ServerError)
        assert error.partial is not None
        assert error.partial.usage == Usage(3, 2, 5)
        assert error.server_message() == "boom"
        assert "boom" not in f"{error}{error!r}"


def test_a_failure_without_words_of_its_own() -> None:
    error = see([created() + event("response.failed", response={"error": {"code": "server_error"}})]).error
    assert isinstance(error, ServerError)
    assert error.server_message() == '{"code":"server_error"}'


@pytest.mark.parametrize("limits", [Limits(wire_bytes=400), Limits(event_bytes=150)])
def test_limits(limits: Limits) -> None:
    for mode in MODES:
        assert isinstance(decoded(stream(said(0, "Hi" * 100)), mode, limits=limits).error, ResponseLimitError)


def test_the_last_event_of_a_long_answer_is_read() -> None:
    """It repeats the whole answer: the default bound of an event, made for deltas, would refuse it."""
    text = "x" * (Limits().event_bytes + 1)
    server = API.server.stream("m", "resp_1", 0)
    completion = Completion(FinishReason.STOP, (Text(text),))
    events: list[Event] = [TextDelta(text[start : start + 4096]) for start in range(0, len(text), 4096)]
    data = b"".join(server.push(event) for event in [*events, Completed(completion)])
    assert read(data, "strict").text == text
    with pytest.raises(ResponseLimitError):
        list(decode([data], limits=Limits(event_bytes=Limits().event_bytes - 1)))


def read(data: bytes, mode: str) -> Completion:
    (last,) = (event for event in decode([data], mode=mode) if isinstance(event, Completed))
    return last.completion


def test_the_limit_of_calls_holds_for_the_final_response() -> None:
    data = stream(end=completed(call("{}"), call("{}", 2)))
    for mode in MODES:
        assert isinstance(decoded(data, mode, limits=Limits(tool_calls=1)).error, ResponseLimitError)
    assert len(both(data, limits=Limits(tool_calls=2)).answer.calls) == 2


# --- beyond the protocol ---------------------------------------------------------------------------


def test_what_a_server_says_beyond_the_protocol_is_kept_when_asked() -> None:
    end = event(
        "response.completed",
        sequence_number=3,
        timings={"n": 1},
        response={"status": "completed", "output": [], "usage": USAGE, "service_tier": "flex", "billing": None},
    )
    assert both(stream(said(0, "Hi"), end=end)).answer.extra == {}
    kept = both(stream(said(0, "Hi"), end=end), extra=True).answer.extra
    assert kept == {"timings": {"n": 1}, "service_tier": "flex", "usage": USAGE}


def test_a_last_event_without_its_response_has_what_stands_beside() -> None:
    end = event("response.completed", timings={"n": 1})
    assert refused(stream(said(0, "Hi"), end=end), "wrong_type", extra=True).answer.extra == {"timings": {"n": 1}}


def test_numbers_that_no_float_holds_are_kept_as_text() -> None:
    end = b'data: {"type":"response.completed","response":{"status":"completed","output":[],"x":1e400}}\n\n'
    assert both(stream(end=end), extra=True).answer.extra == {"x": "1e400"}


# --- items -----------------------------------------------------------------------------------------


def item_json(data: bytes) -> list[str]:
    parts = both(data).answer.parts
    return [each.opaque.json for each in parts if isinstance(each, Text | Reasoning) and each.opaque is not None]


def test_an_item_is_kept_as_it_came() -> None:
    text = '{"id":"rs_1","type":"reasoning","summary":[],"x":"g\\/=","n":1e400,"z":12345678901234567890123}'
    ended = f'data: {{"type":"response.output_item.done","output_index":0,"item":{text}}}\n\n'.encode()
    (kept,) = item_json(stream(added(0, {"type": "reasoning", "summary": []}), ended))
    assert kept == text.replace("\\/", "/")
    final = f'data: {{"type":"response.completed","response":{{"status":"completed","output":[{text}]}}}}\n\n'.encode()
    assert item_json(stream(end=final)) == [kept]


@pytest.mark.parametrize("mode", MODES)
def test_an_item_that_nests_too_deep_is_a_typed_error(mode: str) -> None:
    for depth in (200, 253, 254, 255, 256, 1000, 1100, 100_000):
        nest = b"[" * depth + b"]" * depth
        ended = b'data: {"type":"response.output_item.done","output_index":0,"item":{"type":"x","n":%b}}\n\n' % nest
        seen = see([stream(added(0, {"type": "x"}), ended)], mode)
        assert seen.error is None or isinstance(seen.error, ProtocolError), depth
        assert (seen.error is None) is (depth < 254)


def test_an_item_without_an_id_takes_the_first_that_comes() -> None:
    opened: dict[str, Any] = {"type": "message", "content": []}
    data = stream(
        added(0, opened), part(0), delta(0, "a", item_id="x"), delta(0, "b", item_id="x"), done(0, message("ab", "y"))
    )
    refused(data, "id_changed")


def test_two_items_of_one_id_are_two() -> None:
    seen = refused(
        created()
        + added(0, message("", "x"))
        + added(1, {**call(""), "id": "x"})
        + event("response.function_call_arguments.delta", item_id="x", output_index=1, delta="{}")
        + done(1, {**call("{}"), "id": "x"})
        + event("response.output_text.delta", item_id="x", content_index=0, delta="Hi")
        + done(0, message("Hi", "x"))
        + completed(),
        "index_missing",
        "out_of_order",
    )
    assert (seen.text, len(seen.answer.calls)) == ("Hi", 1)


def test_the_order_of_texts_is_that_of_their_items() -> None:
    data = stream(
        added(0, reasoning()),
        added(1, reasoning(item_id="rs_2")),
        done(1, reasoning("two", item_id="rs_2")),
        added(2, message("", "msg_1")),
        added(3, message("", "msg_2")),
        done(3, message("B", "msg_2")),
        done(0, reasoning("one")),
        done(2, message("A")),
    )
    seen = both(data)
    assert seen.events[:-1] == (
        ReasoningDelta("reasoning_summary", "one"),
        ReasoningDelta("reasoning_summary", "two"),
        TextDelta("A"),
        TextDelta("B"),
    )


def test_what_is_held_is_delivered_when_the_answer_ends() -> None:
    data = created() + added(0, message("")) + said(1, "B", "msg_2") + incomplete("max_output_tokens")
    seen = both(data)
    assert (seen.text, seen.answer.finish) == ("B", FinishReason.LENGTH)
    assert seen.answer.parts == (Text("B", Opaque("openai_responses", orjson.dumps(message("B", "msg_2")).decode())),)


def test_what_is_held_is_no_part_of_an_error() -> None:
    error = see([created() + added(0, message("")) + said(1, "B", "msg_2")]).error
    assert isinstance(error, TruncatedStreamError)
    assert error.partial is not None
    assert error.partial.text == ""


def test_a_part_before_another_is_refused() -> None:
    for mode in MODES:
        data = created() + added(0, message("")) + part(0, 1) + part(0, 0)
        assert isinstance(decoded(data, mode).error, ProtocolError)
        data = (
            created()
            + added(0, message(""))
            + part(0)
            + event("response.refusal.delta", output_index=0, content_index=0)
        )
        assert isinstance(decoded(data, mode).error, ProtocolError)


def test_a_piece_of_an_earlier_part_is_left_out() -> None:
    whole = message("ab")
    whole["content"].append({"type": "output_text", "text": "c"})
    data = stream(
        added(0, message("")), part(0), delta(0, "a"), part(0, 1), delta(0, "c", 1), delta(0, "b"), done(0, whole)
    )
    seen = refused(data, "out_of_order", "text_differs")
    assert seen.text == "ac"  # what is missing stands before what was delivered


def test_a_part_that_is_not_in_its_item() -> None:
    data = stream(added(0, message("")), part(0), delta(0, "a"), part(0, 1), delta(0, "b", 1), done(0, message("a")))
    assert refused(data, "text_differs").text == "ab"


def test_a_part_that_nothing_was_said_of_before_one_that_was() -> None:
    whole = message("a")
    whole["content"].append({"type": "output_text", "text": "b"})
    data = stream(added(0, message("")), part(0, 1), delta(0, "b", 1), done(0, whole))
    assert refused(data, "text_differs").text == "b"


def test_a_part_opens_twice() -> None:
    data = stream(added(0, message("")), part(0), part(0), delta(0, "a"), done(0, message("a")))
    assert refused(data, "out_of_order").text == "a"


def test_texts_and_parts_that_say_nothing() -> None:
    where: dict[str, Any] = {"output_index": 0, "content_index": 0}
    data = stream(
        added(0, message("")),
        event("response.content_part.added", **where, part=None),
        event("response.content_part.added", **where, part={"type": ["output_text"]}),
        part(0),
        event("response.output_text.delta", **where, delta=None),
        event("response.output_text.delta", **where),
        event("response.output_text.delta", **where, delta=""),
        event("response.output_text.done", **where, text=None),
        event("response.content_part.done", **where, part={"type": "output_text"}),
        done(0, message("Hi")),
    )
    assert both(data).text == "Hi"


def test_events_of_what_has_ended() -> None:
    where: dict[str, Any] = {"output_index": 0, "content_index": 0}
    data = stream(
        said(0, "Hi"),
        event("response.content_part.done", **where, part={"type": "output_text", "text": "Hi"}),
        event("response.output_text.done", **where, text="Hi"),
    )
    assert refused(data, "out_of_order", "out_of_order").text == "Hi"
    data = stream(
        called(0, "{}"),
        event("response.function_call_arguments.delta", output_index=0, delta="x"),
        event("response.function_call_arguments.done", output_index=0, arguments="x"),
    )
    assert refused(data, "out_of_order", "out_of_order").answer.calls[0].arguments == "{}"


# --- calls -----------------------------------------------------------------------------------------


def test_arguments_that_say_nothing() -> None:
    data = stream(
        added(0, call(None)),
        event("response.function_call_arguments.delta", output_index=0, delta=None),
        event("response.function_call_arguments.delta", output_index=0, delta="{}"),
        event("response.function_call_arguments.done", output_index=0, arguments=None),
        done(0, call(None)),
    )
    assert both(data).answer.calls[0].arguments == "{}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "pieces",
    [
        [added(0, call("", call_id=5))],
        [added(0, call("")), done(0, call({"a": 1}))],
        [added(0, call("")), event("response.function_call_arguments.done", output_index=0, arguments=5)],
    ],
)
def test_what_no_call_can_have(pieces: list[bytes], mode: str) -> None:
    assert isinstance(decoded(stream(*pieces), mode).error, ProtocolError)


def test_a_call_repeated_without_its_arguments() -> None:
    assert len(refused(stream(called(0, "{}"), done(0, call(None))), "out_of_order").answer.calls) == 1


def half(text: str, kind: str = "function_call_arguments") -> bytes:
    return f'data: {{"type":"response.{kind}.delta","output_index":0,"content_index":0,"delta":"{text}"}}\n\n'.encode()


def test_halves_of_characters_in_arguments() -> None:
    whole = '{"a":"\U0001f914"}'
    data = stream(added(0, call("")), half('{\\"a\\":\\"\\ud83e'), half('\\udd14\\"}'), done(0, call(whole)))
    seen = refused(data, "lone_surrogate", "lone_surrogate")
    assert (seen.answer.calls[0].arguments, seen.answer.calls[0].complete) == (whole, True)


def test_half_a_character_at_the_end() -> None:
    opened = created() + added(0, call("")) + half("a\\ud83e")
    seen = decoded(opened + incomplete("max_output_tokens"), "lenient")
    assert seen.answer.calls[0].arguments == "a\ufffd"
    opened = created() + added(0, message("")) + part(0) + half("a\\ud83e", "output_text")
    assert decoded(opened + incomplete("max_output_tokens"), "lenient").text == "a\ufffd"
    assert (
        decoded(opened + part(0, 1) + delta(0, "b", 1) + incomplete("max_output_tokens"), "lenient").text == "a\ufffdb"
    )
    assert decoded(opened + done(0, message("a\U0001f914")) + completed(), "lenient").text == "a\U0001f914"


# --- the final response ------------------------------------------------------------------------------


def test_an_image_that_was_made_is_kept_and_not_decoded() -> None:
    image = {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": "no base64"}
    answer = both(stream(said(0, "Here"), added(1, image), done(1, image))).answer
    assert answer.finish == "stop"
    kept = answer.parts[1]
    assert isinstance(kept, Opaque)
    assert (answer.text, kept.data) == ("Here", image)


def test_hidden_reasoning_is_no_entry() -> None:
    answer = both(stream(added(0, reasoning()), done(0, reasoning()))).answer
    assert answer.reasoning == ()
    (part_,) = answer.parts
    assert isinstance(part_, Reasoning)
    assert (part_.source, part_.text) == ("reasoning_summary", "")


def test_items_of_the_final_response_that_are_none() -> None:
    assert refused(stream(said(0, "Hi"), end=completed(5, {"id": "x"}, message("Hi"))), "wrong_type").text == "Hi"


def test_calls_of_the_final_response_in_another_order() -> None:
    for mode in MODES:
        data = stream(called(0, "{}", 2), end=completed(call("{}"), call("{}", 2)))
        assert isinstance(decoded(data, mode).error, ProtocolError)
    calls = both(stream(called(0, "{}", 2), end=completed(call("{}", 2), call("{}")))).answer.calls
    assert [each.id for each in calls] == ["call_2", "call_1"]


def test_items_of_the_final_response_that_changed_their_ids() -> None:
    seen = refused(stream(said(0, "Hi"), end=completed(message("Hi", "other"))), "id_changed")
    assert seen.text == "Hi"


def test_a_final_response_that_says_an_item_twice() -> None:
    data = stream(said(0, "Hi"), end=completed(message("Hi"), message("Hi")))
    assert both(data).text == "HiHi"  # two items, the second of which was not streamed


def test_an_empty_item_of_the_final_response_may_stand_anywhere() -> None:
    data = stream(said(0, "Hi"), end=completed(message("", "msg_0"), message("Hi")))
    assert both(data).text == "Hi"


def test_the_final_response_is_read_again_once_however_much_of_it_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> Any:
        read.append(text)
        return read_exact(text)

    monkeypatch.setattr(sys.modules[Decoder.__module__], "read_exact", counted)
    data = created() + completed(*[message("x", f"msg_{number}") for number in range(50)])
    assert see([data]).answer.text == "x" * 50
    assert len(read) == 1
    assert see([stream(said(0, "Hi"), end=completed(message("Hi")))]).text == "Hi"
    assert len(read) == 2  # for the item as it ended; its copy is not needed

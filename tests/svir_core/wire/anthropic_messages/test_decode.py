"""What the conformance cases cannot say: options, what is kept, partials, and the decoder as an object."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from svir_core import serial
from svir_core.errors import ConfigError, ProtocolError, TruncatedStreamError
from svir_core.event import Completed, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.limits import Limits
from svir_core.message import Opaque, Reasoning, Text, ToolCall
from svir_core.response import Completion, FinishReason, Timing, Usage
from svir_core.wire.anthropic_messages import Decoder, decode
from tests.svir_core.wire.anthropic_messages.streams import (
    STOP,
    both,
    call,
    closed,
    decoded,
    delta,
    event,
    opened,
    reason,
    see,
    start,
    stream,
    text,
    thinking,
)


def test_events_come_as_they_are_said() -> None:
    seen = both(stream(thinking(0, "hm", "S"), text(1, "a", "b"), call(2, "i", "", '{"x"', ":1}")))
    assert seen.events[:-1] == (
        ReasoningDelta("thinking", "hm"),
        TextDelta("a"),
        TextDelta("b"),
        ToolCallDelta(0, "i", "f", None),
        ToolCallDelta(0, None, None, '{"x"'),
        ToolCallDelta(0, None, None, ":1}"),
    )
    assert isinstance(seen.events[-1], Completed)
    assert seen.output_seen == 6


def test_arguments_of_the_start_are_delivered_when_no_fragment_came() -> None:
    seen = both(
        stream(opened(0, "tool_use", id="i", name="f", input={"x": 1}), closed(0), end=reason("tool_use") + STOP)
    )
    assert seen.events[:-1] == (ToolCallDelta(0, "i", "f", None), ToolCallDelta(0, None, None, '{"x":1}'))


def test_what_no_rule_reads_is_kept_when_asked() -> None:
    end = reason(
        "stop_sequence", delta={"stop_reason": "stop_sequence", "stop_sequence": "END", "container": None}, mood="fine"
    )
    data = start(usage={"input_tokens": 3, "output_tokens": 1, "service_tier": "standard"}, mood={"z": 1}, odd=None)
    data += text(0, "x") + end + STOP
    assert both(data).answer.extra == {}
    assert both(data, extra=True).answer.extra == {
        "mood": "fine",
        "stop_sequence": "END",
        "usage": {"input_tokens": 3, "output_tokens": 4, "service_tier": "standard"},
    }
    bare = start(usage=None) + event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}) + STOP
    assert both(bare, extra=True).answer.extra == {}


def test_without_the_fresh_input_nobody_knows_the_whole() -> None:
    cached = {"cache_creation_input_tokens": 10, "cache_read_input_tokens": 30}
    answer = both(start(usage=cached) + text(0, "x") + reason(usage={"output_tokens": 4}) + STOP).answer
    assert answer.usage == Usage(None, 4, cache_read=30, cache_write=10)


def test_usage_that_is_kept_has_only_what_json_can_say() -> None:
    data = stream(end=reason().replace(b"4", b'4,"odd":1e999') + STOP)
    answer = both(data, extra=True).answer
    assert answer.extra["usage"] == {"input_tokens": 3, "output_tokens": 4, "odd": "1e999"}
    assert serial.loads(serial.dumps(answer)) == answer
    huge = start().replace(b'"role"', b'"odd":1e999,"role"') + reason() + STOP
    assert both(huge, extra=True).answer.extra["odd"] == "1e999"


def test_a_partial_has_what_came_so_far() -> None:
    decoder = Decoder()
    decoder.push(start() + thinking(0, "hm", "S") + text(1, "a") + call(2, "i", '{"x"'))
    partial = decoder.partial
    calls = (ToolCall("i", "f", '{"x"', complete=False),)
    assert partial.parts == (Reasoning("thinking", "hm"), Text("a"), *calls)
    assert (partial.usage, partial.model, partial.id) == (Usage(3, 1), "m", "msg_1")
    told = decoder.finish()
    assert isinstance(told.error, TruncatedStreamError)
    assert told.error.partial == decoder.partial == partial


def test_a_failed_decoder_tells_what_a_fallback_changed() -> None:
    error = see([start() + opened(0, "fallback", to={"model": "m2"}) + closed(0)]).error
    assert error is not None
    assert error.partial is not None
    assert error.partial.model == "m2"


def test_events_are_counted() -> None:
    decoder = Decoder()
    decoder.push(start() + b": comment\n\n" + text(0, "a", "b"))
    assert (decoder.events_seen, decoder.output_seen) == (6, 2)


def test_a_decoder_that_has_ended_is_silent() -> None:
    decoder = Decoder()
    decoder.push(stream(text(0, "x")))
    assert decoder.done
    assert list(decoder.push(start())) == list(decoder.finish()) == []
    assert decoder.result() is decoder.completion
    failed = Decoder()
    failed.push(event({"type": "content_block_start", "index": 0}))
    for _ in range(2):
        with pytest.raises(ProtocolError):
            failed.result()
    assert list(failed.push(STOP)) == []


def test_time_is_taken_at_visible_deltas() -> None:
    ticks = iter(range(100))
    decoder = Decoder(clock=lambda: float(next(ticks)))
    for piece in (start(), thinking(0, "a"), text(1, "b"), reason(), STOP):
        decoder.push(piece)
    assert decoder.result().timing == Timing(1.0, 2.0, 3.0, 2)


@pytest.mark.parametrize(
    "options",
    [{"mode": "loose"}, {"limits": 5}, {"extra": 1}, {"clock": 5}],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Decoder(**options)


def test_decode_reads_no_further_than_the_answer() -> None:
    def chunks() -> Any:
        yield stream(text(0, "x"))
        raise AssertionError("read on")

    assert [type(each) for each in decode(chunks())] == [TextDelta, Completed]
    with pytest.raises(TruncatedStreamError):
        list(decode([start()], mode="lenient"))


def test_a_decoder_can_be_copied_while_it_reads() -> None:
    data = stream(thinking(0, "hm", "S"), text(1, "a", "b"), call(2, "i", '{"x":1}'))
    whole = see([data])
    for place in range(0, len(data), 37):
        decoder = Decoder(clock=_no_time)
        events = list(decoder.push(data[:place]))
        copied = pickle.loads(pickle.dumps(decoder))
        events += copied.push(data[place:])
        assert tuple(events) == whole.events


def _no_time() -> float:
    return 0.0


def test_blocks_of_one_kind_may_not_mix_but_their_signatures_may_be_late() -> None:
    begun = start() + opened(0, "thinking", thinking="") + delta(0, "thinking_delta", thinking="a")
    second = opened(1, "thinking", thinking="b", signature="B")
    end = closed(0) + closed(1) + reason() + STOP
    answer = decoded(begun + second + delta(0, "signature_delta", signature="A") + end, "lenient").answer
    assert [part.opaque.data for part in answer.parts if isinstance(part, Reasoning) and part.opaque] == [
        {"type": "thinking", "thinking": "a", "signature": "A"},
        {"type": "thinking", "thinking": "b", "signature": "B"},
    ]
    late = decoded(begun + second + delta(0, "thinking_delta", thinking="c") + end, "lenient")
    assert late.kind == "protocol"


def test_half_a_character_waits_for_its_turn() -> None:
    half = delta(0, "text_delta", text="x@").replace(b"@", rb"\ud83d")
    begun = start() + opened(0, text="") + half + opened(1, text="")
    late = begun + delta(1, "text_delta", text="y") + closed(0) + closed(1) + reason() + STOP
    assert decoded(late, "lenient").kind == "protocol"
    good = begun + closed(0) + delta(1, "text_delta", text="y") + closed(1) + reason() + STOP
    assert [part.text for part in decoded(good, "lenient").answer.parts if isinstance(part, Text)] == ["x\ufffd", "y"]
    joined = start() + opened(0, text="") + half + delta(0, "text_delta", text="@").replace(b"@", rb"\ude00")
    answer = decoded(joined + closed(0) + reason() + STOP, "lenient").answer
    assert answer.text == "x\U0001f600"
    in_arguments = delta(0, "input_json_delta", partial_json='{"x":"@').replace(b"@", rb"\ud83d")
    rest = delta(0, "input_json_delta", partial_json='"}') + closed(0) + reason("tool_use") + STOP
    seen = decoded(start() + opened(0, "tool_use", id="i", name="f") + in_arguments + rest, "lenient")
    assert seen.answer.calls[0].arguments == '{"x":"\ufffd"}'


def test_a_message_that_begins_late_changes_no_figure_that_came_before() -> None:
    data = reason(usage={"output_tokens": 9}) + start() + STOP
    answer = decoded(data, "lenient").answer
    assert (answer.usage, answer.id, answer.model) == (Usage(3, 9), "msg_1", "m")


def test_a_second_message_with_the_same_id_or_none_is_ignored() -> None:
    answer = decoded(stream(start(), text(0, "x"), start(id=None)), "lenient").answer
    assert (answer.text, [each.code.value for each in answer.anomalies]) == ("x", ["out_of_order"] * 2)


def test_deep_nesting_is_a_typed_error_only_where_it_is_read_exactly() -> None:
    deep = b"[" * 300 + b"]" * 300
    data = start() + opened(0, "x_result", v="@").replace(b'"@"', deep) + closed(0) + reason() + STOP
    assert decoded(data).kind == "protocol"
    assert decoded(start() + event(b'{"type":"odd","v":' + deep + b"}", "odd") + reason() + STOP).kind is None


def test_the_limit_of_calls_is_of_calls_of_the_client() -> None:
    hosted = [opened(index, "server_tool_use", id=str(index), name="s", input={}) + closed(index) for index in range(3)]
    data = stream(*hosted, call(3, "i", "{}"), end=reason("tool_use") + STOP)
    assert len(both(data, limits=Limits(tool_calls=1)).answer.parts) == 4


def test_an_answer_survives_its_json_form() -> None:
    data = stream(thinking(0, "hm", "S"), opened(1, "redacted_thinking", data="AAA"), closed(1), text(2, "a"))
    answer = both(data, extra=True).answer
    again = serial.loads(serial.dumps(answer), Completion)
    assert again == answer
    assert again.finish is FinishReason.STOP
    assert again.parts[1] == Opaque("anthropic_messages", '{"type":"redacted_thinking","data":"AAA"}')


def test_time_is_linear_in_blocks_deltas_and_citations() -> None:
    def body(count: int) -> bytes:
        cited = b"".join(
            delta(0, "citations_delta", citation={"n": number}) + delta(0, "text_delta", text="x")
            for number in range(count)
        )
        blocks = b"".join(text(number + 1, "y") for number in range(count))
        return stream(opened(0, text=""), cited, closed(0), blocks)

    answer = see([body(3000)]).answer
    assert len(answer.text) == 6000
    first = answer.parts[0]
    assert isinstance(first, Text)
    assert first.opaque is not None
    assert len(first.opaque.data["citations"]) == 3000


def test_a_block_that_ended_says_nothing_more_while_another_is_open() -> None:
    begun = start() + opened(0, text="a") + opened(1, "thinking", thinking="b") + closed(0)
    seen = decoded(begun + delta(0, "text_delta", text="c") + closed(1) + reason() + STOP, "lenient")
    assert (seen.kind, seen.text, seen.reasoning) == ("protocol", "a", "b")


def test_an_event_that_the_api_may_add_need_not_say_its_type() -> None:
    assert both(stream(event({"mood": "fine"}, "mood"), text(0, "x"))).text == "x"
    nameless = decoded(stream(event(b'{"mood":"fine"}'), text(0, "x")), "lenient")
    assert (nameless.text, nameless.codes) == ("x", ["event_name"])

"""What quirks repair beyond the conformance cases: pairs, edges, and what goes back to the server."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import orjson
import pytest

from svir_core.event import ToolCallDelta
from svir_core.limits import Limits
from svir_core.message import Opaque, Reasoning, Text, ToolCall
from svir_core.quirk import NONE, Quirk
from svir_core.request import Request
from svir_core.response import FinishReason, Usage
from svir_core.wire import openai_chat
from svir_core.wire.openai_chat import reasoning_details
from tests.svir_core.wire.openai_chat.streams import (
    DONE,
    MODES,
    Json,
    Seen,
    both,
    call,
    calls,
    chunk,
    decoded,
    document,
    event,
    finish,
    see,
    stream,
    text,
)

RECORDED = sorted((Path(__file__).parents[4] / "conformance" / "decoder" / "recorded").glob("*.sse"))
CASES = sorted((Path(__file__).parents[4] / "conformance" / "decoder").glob("*/*.json"))
EVERY = reduce(Quirk.__or__, Quirk)
CHANGE_GOOD_STREAMS = Quirk.CONTENT_CUMULATIVE | Quirk.USAGE_INCREMENTS
"""What looks right to the decoder and is not: text that repeats itself, and totals that are none."""

END = finish("tool_calls") + DONE


def numbers(*more: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(call_id, name, arguments) for call_id, name, arguments in zip(*[iter(more)] * 3, strict=True))


# --- streams that need no repair ------------------------------------------------------------------


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
@pytest.mark.parametrize("mode", MODES)
def test_a_recorded_stream_that_completes_reads_the_same_with_every_quirk(path: Path, mode: str) -> None:
    data = path.read_bytes()
    quirks = EVERY & ~CHANGE_GOOD_STREAMS
    if "n2" in path.stem:  # two answers, not one: merging them is what nobody should ask for
        quirks &= ~Quirk.CHOICES_MERGED
    plain = see([data], mode)
    repaired = see([data], mode, quirks=quirks)
    if plain.error is None:
        assert repaired == plain
    else:
        assert repaired.kind in (None, plain.kind)


def test_two_quirks_change_what_a_good_stream_says() -> None:
    report = {"prompt_tokens": 2, "completion_tokens": 1}
    body = stream(chunk({"content": "a"}, usage=report), text("b"), chunk({}, "stop", usage=report), end=DONE)
    assert both(body).answer.usage == Usage(2, 1)
    assert both(body, quirks=Quirk.USAGE_INCREMENTS).answer.usage == Usage(4, 2)
    assert both(body, quirks=Quirk.CONTENT_CUMULATIVE).kind == "protocol"


# --- pairs of quirks of tool calls ------------------------------------------------------------------

Pieces = list[Json]


def of_two_calls() -> Pieces:
    return [
        call(0, id="a", name="f", arguments='{"n"'),
        call(0, arguments=":1}"),
        call(1, id="b", name="g", arguments='{"n":'),
        call(1, arguments="2}"),
    ]


def every(change: Callable[[Json], object]) -> Callable[[Pieces], Pieces]:
    def deviate(pieces: Pieces) -> Pieces:
        for piece in pieces:
            change(piece)
        return pieces

    return deviate


def drifting(pieces: Pieces) -> Pieces:
    for number, piece in enumerate(pieces):
        if "name" not in piece["function"]:
            piece["id"] = f"x{number}"
    return pieces


def naming(pieces: Pieces) -> Pieces:
    for first, second in itertools.pairwise(pieces):
        second["function"].setdefault("name", first["function"]["name"])
    return pieces


def objects(pieces: Pieces) -> Pieces:
    for number in (0, 2):
        pieces[number]["function"]["arguments"] = {"n": number // 2 + 1}
        pieces[number + 1]["function"]["arguments"] = ""
    return pieces


def resending(pieces: Pieces) -> Pieces:
    again = [{**pieces[at], "function": {"arguments": f'{{"n":{n}}}'}} for n, at in ((1, 1), (2, 3))]
    return [*pieces[:2], again[0], *pieces[2:], again[1]]


DEVIATIONS: dict[Quirk, Callable[[Pieces], Pieces]] = {
    Quirk.TOOL_INDEX_MISSING: every(lambda piece: piece.pop("index", None)),
    Quirk.TOOL_INDEX_REUSED: every(lambda piece: piece.update(index=0) if "index" in piece else None),
    Quirk.TOOL_ID_DRIFTS: drifting,
    Quirk.TOOL_ID_MISSING: every(lambda piece: piece.pop("id", None)),
    Quirk.TOOL_INDEX_GAPS: every(
        lambda piece: piece.update(index=2 * piece["index"] + 1) if "index" in piece else None
    ),
    Quirk.TOOL_NAME_REPEATED: naming,
    Quirk.TOOL_ARGUMENTS_OBJECT: objects,
    Quirk.TOOL_ARGUMENTS_RESENT: resending,
}
UNDECIDABLE = {
    Quirk.TOOL_INDEX_MISSING
    | Quirk.TOOL_NAME_REPEATED: "a name without index and id opens a call, which then has no id",
    Quirk.TOOL_ID_DRIFTS | Quirk.TOOL_NAME_REPEATED: "a new id with a name may be a call of its own",
}


def pieces_with(quirks: Iterable[Quirk]) -> bytes:
    pieces = of_two_calls()
    for quirk in quirks:
        pieces = DEVIATIONS[quirk](pieces)
    return stream(*map(calls, pieces), end=END)


def expected(quirks: Quirk) -> tuple[ToolCall, ...]:
    made = Quirk.TOOL_ID_MISSING in quirks
    ids = ("call_0", "call_1") if made else ("a", "b")
    return tuple(
        ToolCall(call_id, name, f'{{"n":{n}}}', synthetic_id=made)
        for call_id, name, n in zip(ids, "fg", (1, 2), strict=True)
    )


@pytest.mark.parametrize("quirk", DEVIATIONS, ids=lambda quirk: quirk.name)
def test_each_quirk_alone_repairs_its_deviation_and_nothing_else_does(quirk: Quirk) -> None:
    body = pieces_with([quirk])
    assert both(body, quirks=quirk).answer.calls == expected(quirk)
    without = both(body, quirks=EVERY & ~quirk & ~CHANGE_GOOD_STREAMS)
    assert without.error is not None or without.answer.calls != expected(quirk)


@pytest.mark.parametrize(
    "pair", list(itertools.combinations(DEVIATIONS, 2)), ids=lambda pair: " and ".join(each.name for each in pair)
)
def test_pairs_of_quirks(pair: tuple[Quirk, Quirk]) -> None:
    quirks = pair[0] | pair[1]
    seen = both(pieces_with(pair), quirks=quirks)
    if quirks in UNDECIDABLE:
        assert seen.kind == "protocol"
    elif quirks == Quirk.TOOL_INDEX_REUSED | Quirk.TOOL_ID_MISSING:
        assert [made.complete for made in seen.answer.calls] == [False]  # nothing tells the two apart
    else:
        assert seen.answer.calls == expected(quirks)
    plain = both(pieces_with(pair))
    assert plain.error is not None or plain.answer.calls != expected(quirks)


# --- whose piece it is ------------------------------------------------------------------------------


def test_an_id_of_an_earlier_call_of_the_index_names_that_call() -> None:
    body = stream(
        calls(call(0, id="a", name="f", arguments='{"n"')),
        calls(call(0, id="b", name="g", arguments="{")),
        calls(call(0, id="a", arguments=":1")),
        calls(call(0, arguments="}"), call(0, id="b", arguments="}")),
        end=END,
    )
    seen = both(body, quirks=Quirk.TOOL_INDEX_REUSED)
    assert seen.answer.calls == numbers("a", "f", '{"n":1}', "b", "g", "{}")
    places = [each.index for each in seen.events if isinstance(each, ToolCallDelta)]
    assert places == [0, 1, 0, 0, 1]


def test_a_call_takes_the_next_free_place_when_its_own_is_taken() -> None:
    body = stream(
        calls(call(0, id="a", name="f"), call(0, id="b", name="g"), call(1, id="c", name="h")),
        end=END,
    )
    assert both(body, quirks=Quirk.TOOL_INDEX_REUSED).answer.calls == numbers("a", "f", "", "b", "g", "", "c", "h", "")


def test_an_id_that_comes_late_is_the_calls_own() -> None:
    body = stream(calls(call(0, name="f")), calls(call(0, id="a", name="g", arguments="{}")), end=END)
    for quirks in (NONE, Quirk.TOOL_INDEX_REUSED):
        assert both(body, quirks=quirks).answer.calls == numbers("a", "fg", "{}")
    made, given = both(body, quirks=Quirk.TOOL_INDEX_REUSED | Quirk.TOOL_ID_MISSING).answer.calls
    assert (made.name, made.id, made.synthetic_id) == ("f", "call_0", True)
    assert (given.name, given.id, given.synthetic_id) == ("g", "a", False)


def test_an_id_of_a_call_elsewhere_is_never_another_calls() -> None:
    pieces = [call(0, id="a", name="f"), call(1, id="b", name="g"), call(0, id="b", arguments="{}")]
    for quirks in (NONE, Quirk.TOOL_ID_DRIFTS, Quirk.TOOL_INDEX_REUSED, EVERY & ~Quirk.CHOICES_MERGED):
        assert both(stream(calls(*pieces), end=END), quirks=quirks).kind == "protocol"
    same = stream(calls(call(0, id="a", name="f"), call(1, id="a", name="g")), end=END)
    assert both(same, quirks=EVERY).kind == "protocol"


def test_pieces_without_index_before_any_call() -> None:
    quirks = Quirk.TOOL_INDEX_MISSING
    body = stream(calls(call(None, type="function", note=1), call(None, arguments="{")), end=END)
    assert both(body, quirks=quirks).kind == "protocol"
    body = stream(calls(call(None, id="a"), call(None, name="f", arguments="{}")), end=END)
    assert both(body, quirks=quirks).kind == "protocol"
    body = stream(
        calls(call(None, id="a"), call(None, id="a", name="f"), call(None, note=1), call(None, id="b")), end=END
    )
    assert both(body, quirks=quirks).kind == "protocol"


def test_unknown_keys_without_an_index_belong_to_the_call_opened_last() -> None:
    body = stream(calls(call(None, id="a", name="f", arguments="{}"), call(None, note=1)), end=END)
    (made,) = both(body, quirks=Quirk.TOOL_INDEX_MISSING).answer.calls
    assert made.opaque == Opaque("openai_chat", '{"note":1}')


def test_calls_with_and_without_an_index() -> None:
    body = stream(
        calls(call(None, id="a", name="f", arguments="{}"), call(0, id="b", name="g")),
        calls(call(0, arguments="{}")),
        end=END,
    )
    assert both(body, quirks=Quirk.TOOL_INDEX_MISSING).answer.calls == numbers("a", "f", "{}", "b", "g", "{}")


@pytest.mark.parametrize("quirks", [Quirk.TOOL_INDEX_REUSED, Quirk.TOOL_INDEX_MISSING, Quirk.TOOL_INDEX_GAPS, EVERY])
def test_no_quirk_relaxes_the_limit_of_calls(quirks: Quirk) -> None:
    index = None if quirks is Quirk.TOOL_INDEX_MISSING else 0
    limits = Limits(tool_calls=2)
    many = [call(index, id=f"i{number}", name="f", arguments="{}") for number in range(3)]
    if quirks is Quirk.TOOL_INDEX_GAPS:
        many = [call(2, id="i", name="f")]
    assert both(stream(calls(*many), end=END), quirks=quirks, limits=limits).kind == "response_limit"


def test_ids_made_are_none_of_the_answers_own() -> None:
    body = stream(
        calls(call(0, name="f"), call(1, id="call_1", name="g"), call(2, name="h"), call(3, id="call_0", name="i")),
        end=END,
    )
    made = both(body, quirks=Quirk.TOOL_ID_MISSING).answer.calls
    assert [each.id for each in made] == ["call_2", "call_1", "call_3", "call_0"]
    assert [each.synthetic_id for each in made] == [True, False, True, False]


def test_a_made_id_goes_back_and_pairs_call_and_result() -> None:
    answer = both(stream(calls(call(0, name="f", arguments="{}")), end=END), quirks=Quirk.TOOL_ID_MISSING).answer
    request = Request("m").user("hi").assistant(answer).tool_result(answer.calls[0].id, "2")
    messages = orjson.loads(bytes(openai_chat.Encoder().encode(request)))["messages"]
    assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"] == "call_0"


# --- names and arguments that are said twice --------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        (['{"n": 1, "m": [true]}', '{"m":[true],"n":1}'], '{"n": 1, "m": [true]}'),
        (['{"n"', ":1}", " \n", '{"n":1}', '{ "n":1 }'], '{"n":1} \n'),
        (['{"s":"}{\\""}', '{"s":"}{\\""}'], '{"s":"}{\\""}'),
        (["{}", "{}"], "{}"),
    ],
)
def test_equal_arguments_sent_again_are_dropped(pieces: list[str], arguments: str) -> None:
    body = b"".join(
        [
            calls(call(0, id="a", name="f", arguments=pieces[0])),
            *(calls(call(0, arguments=piece)) for piece in pieces[1:]),
            END,
        ]
    )
    (made,) = both(body, quirks=Quirk.TOOL_ARGUMENTS_RESENT).answer.calls
    assert (made.arguments, made.complete) == (arguments, True)


@pytest.mark.parametrize("second", ['{"n":true}', '{"n":1.0}', '{"n":2}', '{"n":1,"m":1}', "{}", "1", "}", "x"])
def test_other_arguments_sent_again_are_a_conflict(second: str) -> None:
    body = stream(calls(call(0, id="a", name="f", arguments='{"n":1}')), calls(call(0, arguments=second)), end=END)
    assert both(body, quirks=EVERY & ~CHANGE_GOOD_STREAMS).kind == "protocol"


@pytest.mark.parametrize("pieces", [['{"a":', '{"a":'], ["}", "}"], ["[1]", "[1]"], ["{x}", "{x}"], ["1", "1"]])
def test_what_is_no_whole_object_is_never_a_resend(pieces: list[str]) -> None:
    first, second = pieces
    body = stream(calls(call(0, id="a", name="f", arguments=first)), calls(call(0, arguments=second)), end=END)
    assert both(body, quirks=Quirk.TOOL_ARGUMENTS_RESENT) == both(body)


def test_large_numbers_that_differ_are_a_conflict() -> None:
    first, second = (call(0, id="a", name="f", arguments=f'{{"n":{2**70 + more}}}') for more in (0, 1))
    body = stream(calls(first), calls(second | {"function": {"arguments": second["function"]["arguments"]}}), end=END)
    assert both(body, quirks=Quirk.TOOL_ARGUMENTS_RESENT).kind == "protocol"


def test_an_empty_object_of_arguments_is_one() -> None:
    body = stream(calls(call(0, id="a", name="f", arguments={})), end=finish("length") + DONE)
    (made,) = both(body, quirks=Quirk.TOOL_ARGUMENTS_OBJECT).answer.calls
    assert (made.arguments, made.complete) == ("{}", True)


def test_objects_and_unknown_keys_of_several_calls_in_one_delta() -> None:
    body = stream(calls(*(call(n, id=f"i{n}", name="f", arguments={"n": n}, note=n) for n in range(3))), end=END)
    made = both(body, quirks=Quirk.TOOL_ARGUMENTS_OBJECT).answer.calls
    assert [each.arguments for each in made] == ['{"n":0}', '{"n":1}', '{"n":2}']
    assert [each.opaque for each in made] == [Opaque("openai_chat", f'{{"note":{n}}}') for n in range(3)]


def test_an_object_beside_half_a_character() -> None:
    half = b'{"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"\\ud83d","tool_calls":['
    rest = b'{"index":0,"id":"a","function":{"name":"f","arguments":{"n":1}}},{"index":0,"id":"a"}]}}]}'
    seen = decoded(stream(event(half + rest), end=END), "lenient", quirks=Quirk.TOOL_ARGUMENTS_OBJECT)
    assert seen.answer.calls == numbers("a", "f", '{"n":1}')
    assert seen.answer.text == "\ufffd"


# --- the end ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "reason"), [({"content": "a"}, "other"), ({"refusal": "no"}, "refusal"), ({}, "other")]
)
def test_a_word_of_the_servers_own_and_none_at_all(delta: Json, reason: str) -> None:
    own = both(stream(chunk(delta), end=finish("eos") + DONE), quirks=Quirk.FINISH_OPEN).answer
    assert (own.finish, own.raw_finish) == (reason, "eos")
    none = both(stream(chunk(delta), end=DONE), quirks=Quirk.FINISH_OPTIONAL).answer
    assert (none.finish, none.raw_finish) == (reason, None)
    assert none.text == own.text == "".join(delta.values())


@pytest.mark.parametrize("word", [5, True, ["stop"], {"a": 1}])
def test_a_finish_reason_that_is_no_word_is_refused(word: Any) -> None:
    assert both(text("a") + chunk({}, word) + DONE, quirks=EVERY).kind == "unsupported"


def test_a_block_wins_over_a_word_of_the_servers_own() -> None:
    blocked = event(
        {
            "choices": [
                {"index": 0, "content_filter_offsets": {}, "content_filter_results": {"hate": {"filtered": True}}}
            ]
        }
    )
    for quirks, end in ((Quirk.FINISH_OPEN, finish("eos") + DONE), (Quirk.FINISH_OPTIONAL, DONE)):
        assert both(text("a") + blocked + end, quirks=quirks).answer.finish is FinishReason.CONTENT_FILTER
        assert both(calls(call(0, id="a", name="f")) + blocked + end, quirks=quirks).kind == "protocol"


def test_the_input_may_end_after_the_finish_only() -> None:
    quirks = Quirk.DONE_OPTIONAL
    report = event(document() | {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
    assert both(text("a") + finish() + report, quirks=quirks).answer.usage == Usage(1, 1)
    assert both(text("a") + finish() + report[:-9], quirks=quirks).answer.usage is None
    for body in (b"", text("a"), text("a") + finish().removesuffix(b"\n\n")[:-1]):
        assert both(body, quirks=quirks).kind == "truncated_stream"
    whole = text("a") + finish().rstrip(b"\n")
    assert decoded(whole, quirks=quirks).kind == "truncated_stream"
    assert decoded(whole, "lenient", quirks=quirks).answer.text == "a"


def test_the_last_finish_counts_also_for_calls() -> None:
    body = chunk({"content": "a"}, "tool_calls") + calls(call(0, id="a", name="f")) + finish("stop") + DONE
    seen = both(body, quirks=Quirk.FINISH_EARLY)
    assert (seen.answer.finish, seen.answer.raw_finish) == (FinishReason.TOOL_CALLS, "stop")
    assert both(
        chunk({"content": "a"}, "stop") + text("b") + finish("tool_calls") + DONE, quirks=Quirk.FINISH_EARLY
    ).kind == ("protocol")


def test_an_empty_chunk_after_an_early_finish_is_nothing() -> None:
    body = chunk({"content": "a"}, "stop") + event(document() | {"choices": []}) + text("b") + text("c") + DONE
    assert both(body, quirks=Quirk.FINISH_EARLY).answer.text == "abc"


# --- choices ----------------------------------------------------------------------------------------


def spread(*choices: Any) -> bytes:
    return event(document() | {"choices": list(choices)})


def one(index: Any, delta: Any, word: Any = None) -> Json:
    return {"index": index, "delta": delta, "finish_reason": word}


def test_choices_are_delivered_all_or_none() -> None:
    body = spread(one(0, {"content": "a"}), one(1, {"content": "b", "refusal": "no"})) + finish() + DONE
    seen = both(body, quirks=Quirk.CHOICES_MERGED)
    assert (seen.kind, seen.events) == ("protocol", ())


def test_choices_without_an_index_and_the_same_twice() -> None:
    quirks = Quirk.CHOICES_MERGED
    body = spread(one(None, {"content": "a"}), one(0, {"content": "b"}), one(0, {"content": "c"}, "stop")) + DONE
    assert both(body, quirks=quirks).answer.text == "abc"
    assert both(spread(one(2, {"content": "a"}, "stop")) + DONE, quirks=quirks).answer.text == "a"


def test_stop_and_calls_are_one_reason() -> None:
    body = (
        spread(one(0, {"content": "a"}, "stop"), one(1, {"tool_calls": [call(0, id="a", name="f")]}, "tool_calls"))
        + DONE
    )
    assert both(body, quirks=Quirk.CHOICES_MERGED).answer.finish is FinishReason.TOOL_CALLS


def test_choices_that_finish_for_different_reasons_are_a_conflict() -> None:
    body = spread(one(0, {"content": "a"}, "stop")) + spread(one(1, {"content": "b"}, "length")) + DONE
    assert both(body, quirks=Quirk.CHOICES_MERGED).kind == "protocol"
    early = Quirk.CHOICES_MERGED | Quirk.FINISH_EARLY
    assert both(body, quirks=early).kind == "protocol"
    again = body.replace(DONE, b"") + spread(one(0, {"content": "c"}, "length")) + DONE
    assert both(again, quirks=early).answer.finish is FinishReason.LENGTH


def test_a_choice_may_go_on_after_another_finished() -> None:
    body = (
        spread(one(0, {"content": "a"}, "stop")) + spread(one(1, {"content": "b"})) + spread(one(1, {}, "stop")) + DONE
    )
    assert both(body, quirks=Quirk.CHOICES_MERGED).answer.text == "ab"


@pytest.mark.parametrize(("wrong", "kept"), [([], "a"), ("x", "a"), ([5, one("1", {"content": "b"}, "stop")], "ab")])
def test_choices_of_a_wrong_type(wrong: Any, kept: str) -> None:
    body = text("a") + event(document() | {"choices": wrong}) + finish() + DONE
    assert decoded(body, quirks=Quirk.CHOICES_MERGED).kind == "protocol"
    assert decoded(body, "lenient", quirks=Quirk.CHOICES_MERGED).answer.text == kept


def test_what_every_choice_says_beyond_the_protocol_is_kept() -> None:
    body = spread(one(0, {"content": "a"}, "stop") | {"x": 1}, one(1, {}, "stop") | {"y": 2}) + DONE
    assert both(body, quirks=Quirk.CHOICES_MERGED, extra=True).answer.extra == {"x": 1, "y": 2}


def test_a_key_of_a_choice_comes_after_that_of_its_chunk() -> None:
    body = stream(event(document() | {"choices": [one(0, {"content": "a"}) | {"x": 1}], "x": 2}))
    for quirks in (NONE, Quirk.CHOICES_MERGED):
        assert both(body, quirks=quirks, extra=True).answer.extra == {"x": 1}


# --- content ----------------------------------------------------------------------------------------

PARTS = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": ["h", {"text": "m"}, None]}, {"type": "text"}]


def test_parts_keep_their_order() -> None:
    seen = both(stream(chunk({"reasoning": "r", "content": PARTS})), quirks=Quirk.CONTENT_PARTS)
    assert seen.answer.parts == (Reasoning("reasoning", "r"), Text("a"), Reasoning("thinking", "hm"))


@pytest.mark.parametrize(
    "part", [5, None, {}, {"type": 5}, {"type": "text", "text": 5}, {"type": "thinking", "thinking": {}}]
)
def test_a_part_that_is_none(part: Any) -> None:
    body = stream(chunk({"content": [part, {"type": "text", "text": "a"}]}))
    assert decoded(body, quirks=Quirk.CONTENT_PARTS).kind == "protocol"
    seen = decoded(body, "lenient", quirks=Quirk.CONTENT_PARTS)
    assert (seen.answer.text, seen.codes) == ("a", ["wrong_type"])


def test_markers_in_parts_are_split() -> None:
    parts = [{"type": "text", "text": "<think>h"}, {"type": "text", "text": "m</think>a"}]
    seen = both(stream(chunk({"content": parts})), quirks=Quirk.CONTENT_PARTS)
    assert seen.answer.parts == (Reasoning("think", "hm"), Text("a"))


def test_parts_that_grow() -> None:
    quirks = Quirk.CONTENT_PARTS | Quirk.CONTENT_CUMULATIVE
    first: list[Any] = [{"type": "thinking", "thinking": "h"}]
    second: list[Any] = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}]
    third = [*second, {"type": "text", "text": "b"}]
    seen = both(stream(*(chunk({"content": parts}) for parts in (first, second, third))), quirks=quirks)
    assert seen.answer.parts == (Reasoning("thinking", "hm"), Text("ab"))


def test_text_that_repeats_itself_after_the_finish_is_nothing_new() -> None:
    body = text("a") + chunk({"content": "ab"}, "stop") + text("ab") + DONE
    assert both(body, quirks=Quirk.CONTENT_CUMULATIVE).answer.text == "ab"
    late = text("a") + finish() + text("ab") + DONE
    assert both(late, quirks=Quirk.CONTENT_CUMULATIVE).kind == "unsupported"


def test_every_text_grows_by_itself() -> None:
    deltas: list[Json] = [{"reasoning": "h", "reasoning_content": "h"}, {"reasoning_content": "hm"}, {"reasoning": "x"}]
    seen = both(stream(*map(chunk, deltas)), quirks=Quirk.CONTENT_CUMULATIVE)
    assert [(part.source, part.text) for part in seen.answer.reasoning] == [
        ("reasoning_content", "hm"),
        ("reasoning", "x"),
    ]


# --- reasoning details ------------------------------------------------------------------------------

DETAILS = Quirk.REASONING_DETAILS


def details(*deltas: Any, quirks: Quirk = DETAILS) -> Seen:
    body = stream(*(chunk({"reasoning_details": entries}) for entries in deltas))
    return both(body.replace(b'"n":0', b'"n":%d' % 2**70), quirks=quirks)


def kept(seen: Seen) -> Any:
    (opaque,) = [part for part in seen.answer.parts if isinstance(part, Opaque)]
    assert opaque.api == "openai_chat"
    assert seen.answer.parts[-1] is opaque
    return opaque.data["reasoning_details"]


def test_details_are_merged_by_index_and_type() -> None:
    seen = details(
        [{"type": "reasoning.text", "index": 0, "id": None, "text": "h", "format": "x"}],
        [
            {"type": "reasoning.text", "index": 0, "text": "m", "n": 0},
            {"type": "reasoning.encrypted", "index": 0, "data": "AA"},
        ],
        [
            {"type": "reasoning.summary", "index": 1, "summary": "s"},
            {"type": "reasoning.encrypted", "index": 0, "data": "=="},
        ],
        [{"type": "reasoning.text", "index": 0, "text": None, "id": "r1", "signature": "sig"}],
        [{"type": "reasoning.text", "index": 0, "id": "r2", "text": "!"}],
    )
    assert kept(seen)[:2] == [
        {
            "type": "reasoning.text",
            "index": 0,
            "id": "r1",
            "text": "hm",
            "format": "x",
            "n": float(2**70),
            "signature": "sig",
        },
        {"type": "reasoning.encrypted", "index": 0, "data": "AA=="},
    ]
    assert [entry["type"] for entry in kept(seen)] == [
        "reasoning.text", "reasoning.encrypted", "reasoning.summary", "reasoning.text",
    ]  # fmt: skip
    assert seen.answer.reasoning == (Reasoning("reasoning_details", "hms!"),)
    assert f'"n":{2**70}' in seen.answer.parts[-1].json  # type: ignore[union-attr]  # kept() has shown that it is opaque


def test_details_go_back_to_where_they_came_from() -> None:
    answer = details([{"type": "reasoning.encrypted", "index": 0, "data": "AA"}]).answer
    assert answer.reasoning == ()
    for send_reasoning in (False, True):
        request = Request("m", send_reasoning=send_reasoning).user("hi").assistant(answer).user("go on")
        messages = orjson.loads(bytes(openai_chat.Encoder().encode(request)))["messages"]
        assert messages[1]["reasoning_details"] == [{"type": "reasoning.encrypted", "index": 0, "data": "AA"}]


def test_details_that_grow() -> None:
    first, second = ({"type": "reasoning.text", "index": 0, "text": said} for said in ("h", "hm"))
    seen = details([first], [second], quirks=DETAILS | Quirk.CONTENT_CUMULATIVE)
    assert kept(seen) == [{"type": "reasoning.text", "index": 0, "text": "hm"}]
    assert seen.reasoning == "hm"


def test_details_that_are_nothing() -> None:
    assert details([], "", None).answer.parts == ()


@pytest.mark.parametrize("value", ["x", 5, {}, [5], [None]])
def test_details_of_a_wrong_type(value: Any) -> None:
    body = stream(text("a"), chunk({"reasoning_details": value}))
    assert decoded(body, quirks=DETAILS).kind == "protocol"
    assert decoded(body, "lenient", quirks=DETAILS).answer.parts == (Text("a"),)


# --- usage ------------------------------------------------------------------------------------------


def test_figures_that_not_every_increment_has() -> None:
    first = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}}
    second = {"prompt_tokens": 0, "completion_tokens": 2, "total_tokens": 2}
    body = stream(chunk({"content": "a"}, usage=first), chunk({"content": "b"}, usage=second))
    assert both(body, quirks=Quirk.USAGE_INCREMENTS).answer.usage == Usage(3, 3, 2, cache_read=2)


# --- the hard line ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_no_quirk_hides_a_failure_or_a_cut(mode: str) -> None:
    for body in (text("a") + event({"error": "boom"}) + DONE, text("a") + finish() + event({"error": "boom"}) + DONE):
        assert see([body], mode, quirks=EVERY).kind == "server"
    assert see([text("a")], mode, quirks=EVERY).kind == "truncated_stream"
    assert see([text("a" * 300)], mode, quirks=EVERY, limits=Limits(event_bytes=200)).kind == "response_limit"
    assert see([calls(call(64, id="a", name="f"))], mode, quirks=EVERY).kind == "response_limit"


def test_arguments_that_were_cut_are_never_complete() -> None:
    for arguments in ('{"n"', '{"n":1}}', "[]", "1", ""):
        body = stream(calls(call(0, id="a", name="f", arguments=arguments)), end=finish("max_output") + DONE)
        assert [made.complete for made in both(body, quirks=EVERY & ~CHANGE_GOOD_STREAMS).answer.calls] == [False]


# --- what is cut is never whole ---------------------------------------------------------------------

WIPE = call(id="a", name="wipe")


def spoken(index: int, delta: Json, word: str | None) -> bytes:
    return event(document() | {"choices": [{"index": index, "delta": delta, "finish_reason": word}]})


@pytest.mark.parametrize(
    "rest", [b"", b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"ind']
)
def test_an_empty_call_is_not_complete_where_the_answer_may_have_gone_on(rest: bytes) -> None:
    data = chunk({"content": "a"}, "stop") + chunk({"tool_calls": [WIPE]}, "stop")
    quirks = Quirk.FINISH_EARLY | Quirk.DONE_OPTIONAL
    assert [made.complete for made in both(data + rest, quirks=quirks).answer.calls] == [False]
    assert [made.complete for made in both(data + DONE, quirks=quirks).answer.calls] == [True]
    assert both(chunk({"content": "a"}, "stop") + calls(WIPE) + rest, quirks=quirks).kind == "truncated_stream"


def test_choices_that_did_not_finish_leave_empty_calls_incomplete() -> None:
    data = spoken(0, {"content": "a"}, "stop") + spoken(1, {"tool_calls": [WIPE]}, None) + DONE
    answer = both(data, quirks=Quirk.CHOICES_MERGED | Quirk.FINISH_OPTIONAL).answer
    assert (answer.finish, answer.raw_finish) == (FinishReason.OTHER, None)
    assert [made.complete for made in answer.calls] == [False]


def test_a_merged_choice_that_opens_again_may_be_cut() -> None:
    quirks = Quirk.CHOICES_MERGED | Quirk.FINISH_EARLY | Quirk.DONE_OPTIONAL
    data = spoken(0, {"content": "a"}, "stop") + spoken(1, {"content": "b"}, "stop")
    assert both(data, quirks=quirks).answer.text == "ab"
    data += spoken(0, {"content": "c"}, None)
    assert both(data, quirks=quirks).kind == "truncated_stream"
    assert both(data + spoken(1, {}, "stop"), quirks=quirks).kind == "truncated_stream"
    assert both(data + spoken(0, {}, "stop"), quirks=quirks).answer.text == "abc"
    assert both(data + DONE, quirks=quirks).answer.text == "abc"


# --- failures, ids, resends and details -------------------------------------------------------------


@pytest.mark.parametrize("failed", [{"error": {"message": "boom"}}, {"delta": {}, "finish_reason": "error"}])
def test_a_failure_in_any_choice_is_the_outcome(failed: Json) -> None:
    data = text("a") + spread(one(0, {}, "stop"), {"index": 1, **failed}) + DONE
    assert both(data, quirks=Quirk.CHOICES_MERGED).kind == "server"
    assert decoded(data, "lenient").kind == "server"


def test_a_made_id_is_none_that_the_server_sent() -> None:
    data = calls(call(0, id="x", name="f")) + calls(call(0, id="call_0", arguments="{}")) + calls(call(1, name="g"))
    seen = both(data + END, quirks=Quirk.TOOL_ID_MISSING | Quirk.TOOL_ID_DRIFTS)
    assert [made.id for made in seen.answer.calls] == ["x", "call_1"]


def resent(*pieces: str) -> Seen:
    return both(
        calls(call(id="a", name="f")) + b"".join(calls(call(arguments=each)) for each in pieces) + END,
        quirks=Quirk.TOOL_ARGUMENTS_RESENT,
    )


@pytest.mark.parametrize("depth", [500, 600])
def test_a_deep_nest_that_is_not_sent_again_stays_as_it_is(depth: int) -> None:
    nest = '{"a":' + (depth - 1) * "[" + (depth - 1) * "]" + "}"
    for pieces, kept in (((nest, " "), nest + " "), ((nest, nest), nest), ((nest, "x"), nest + "x")):
        (made,) = resent(*pieces).answer.calls
        assert (made.arguments, made.complete) == (kept, kept != nest + "x")
    for again in (nest + " ", "{}"):
        assert resent(nest, again).kind == "protocol"


def test_details_with_many_ids_are_merged_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    identity = reasoning_details._Entry.id.fget
    assert identity is not None

    def counted(entry: Any) -> Any:
        nonlocal looks
        looks += 1
        return identity(entry)

    monkeypatch.setattr(reasoning_details._Entry, "id", property(counted))
    details = reasoning_details.Details(None)
    for _ in range(2):
        for number in range(500):
            details.add({"type": "t", "index": 0, "id": f"i{number}", "text": "a"})
    (opaque,) = details.opaque()
    assert [entry["text"] for entry in opaque.data["reasoning_details"]] == ["aa"] * 500
    assert looks <= 2 * 2 * 500


def test_details_without_an_id_belong_to_the_first() -> None:
    details = reasoning_details.Details(None)
    for entry_id in (None, 1, 2, None, 2, 1, 1.5):
        details.add({"id": entry_id, "text": str(entry_id)[0]})
    (opaque,) = details.opaque()
    assert [entry["text"] for entry in opaque.data["reasoning_details"]] == ["N1N1", "22", "1"]


@pytest.mark.parametrize(
    "rest",
    [
        b'{"error": {"message": "boo',
        b'error: {"code":1,"mess',
        b"upstream error: reset",
        b"erro",
        b"502",
    ],
)
def test_a_rest_that_is_no_event_is_a_cut(rest: bytes) -> None:
    assert both(text("a") + finish() + rest, quirks=Quirk.DONE_OPTIONAL).kind == "truncated_stream"
    assert both(text("a") + finish() + rest).kind == "truncated_stream"


def test_a_cut_after_a_line_that_is_no_field_is_judged_by_that_line() -> None:
    data = text("a") + finish() + b'{\n  "error": {\n    "message": "boo'
    for quirks in (Quirk(0), Quirk.DONE_OPTIONAL):
        assert decoded(data, quirks=quirks).kind == "unsupported"
        assert decoded(data, "lenient", quirks=quirks).kind == "truncated_stream"


@pytest.mark.parametrize("rest", [b"d", b"data: {", b"event", b"event: mess", b"i", b"id: 1", b"r", b": ping", b":"])
def test_a_rest_that_may_be_an_event_is_none_yet(rest: bytes) -> None:
    assert both(text("a") + finish() + rest, quirks=Quirk.DONE_OPTIONAL).answer.text == "a"


@pytest.mark.parametrize(
    "rest", [b'{"error": {"message": "boom"}}', b'{\n"error": "boom"}', b'error: {"message": "boom"}']
)
def test_a_failure_without_its_line_end_is_one(rest: bytes) -> None:
    assert both(text("a") + finish() + rest, quirks=Quirk.DONE_OPTIONAL).message == "boom"

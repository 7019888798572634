"""The loop, rule by rule: what each answer leads to, and at which moment a limit acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from svir_core import serial
from svir_core.errors import (
    ConfigError,
    MaxRoundsError,
    MaxToolCallsError,
    ProtocolError,
    TransportError,
)
from svir_core.generation import Generation, GenerationOutcome, Progress
from svir_core.loop import LoopPhase, ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import AskApproval, CallModel, RunTools
from svir_core.message import Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from svir_core.request import Request
from svir_core.response import Completion, FinishReason, Usage
from tests.svir_core.loops import HI, added, asks, call, error_of, pauses, refuses, response, result, says, started

# --- how it begins -------------------------------------------------------------------------------------


def test_a_new_loop_asks_the_model() -> None:
    loop = ToolLoop(HI)
    assert loop.next() == CallModel(HI, 1)
    assert (loop.phase, loop.rounds, loop.tool_calls, loop.start) == (LoopPhase.MODEL, 0, 0, 0)
    assert loop.limits == LoopLimits()


def test_start_is_the_place_of_the_input_after_an_earlier_history() -> None:
    request = HI.message(Message.assistant("yes?")).user("more")
    loop = started(says(), request=request)
    assert loop.start == 2
    assert response(loop).messages == (Message.user("more"), Message.assistant("done"))


def test_a_request_that_ends_with_results_may_be_the_input() -> None:
    request = HI.message(Message.assistant(call()), Message.tool(result()))
    assert ToolLoop(request).next() == CallModel(request, 1)


@pytest.mark.parametrize(
    "request_",
    [
        Request("m"),
        HI.message(Message.assistant("no")),
        HI.message(Message.system("no")),
        Request("m").user(),
        Request("m").message(Message.tool()),
    ],
    ids=["nothing", "assistant", "system", "empty user", "empty results"],
)
def test_a_request_without_an_input_is_refused(request_: Request) -> None:
    with pytest.raises(ConfigError, match="must end with a message of the user, or with results"):
        ToolLoop(request_)


# --- what an answer leads to -----------------------------------------------------------------------------


def test_an_answer_without_calls_finishes() -> None:
    loop = started(says("four", usage=Usage(3, 1)))
    assert response(loop) == Generation(
        says("four", usage=Usage(3, 1)), (Message.user("hi"), Message.assistant("four")), Usage(3, 1), 1, 0
    )
    assert added(loop) == (Message.assistant("four"),)


@pytest.mark.parametrize("finish", [finish for finish in FinishReason if finish is not FinishReason.PAUSE])
def test_no_other_finish_than_pause_matters(finish: FinishReason) -> None:
    assert response(started(Completion(finish, [Text("x")]))).finish is finish
    assert started(Completion(finish, [call()])).next() == RunTools((call(),), 1)


def test_an_empty_answer_finishes_and_is_part_of_the_history() -> None:
    loop = started(Completion(FinishReason.STOP))
    assert response(loop).text == ""
    assert added(loop) == (Message.assistant(),)


def test_every_part_of_an_answer_is_kept_in_order() -> None:
    parts = (Reasoning("think", "hm"), Opaque("openai_responses", "{}"), Text("so"), call(), Text("and"))
    loop = started(Completion(FinishReason.TOOL_CALLS, parts))
    loop.tools_answered([result()])
    assert added(loop)[0].parts == parts


def test_calls_are_run_and_the_next_round_sees_them_with_their_results() -> None:
    loop = started(asks("a", "b"))
    assert loop.next() == RunTools((call("a"), call("b")), 1)
    loop.tools_answered([result("a"), result("b", "2")])
    expected = HI.message(Message.assistant(call("a"), call("b")), Message.tool(result("a"), result("b", "2")))
    assert loop.next() == CallModel(expected, 2)
    loop.model_answered(says())
    assert (response(loop).rounds, response(loop).tool_calls) == (2, 2)


def test_results_are_kept_in_the_order_asked() -> None:
    loop = started(asks("a", "b", "c"))
    loop.tools_answered(iter([result("c"), result("a"), result("b")]))
    assert added(loop)[1] == Message.tool(result("a"), result("b"), result("c"))


def test_no_history_that_anybody_sees_has_a_call_without_its_result() -> None:
    loop = started(asks("a"))
    assert loop.request == HI
    assert loop.progress.messages == HI.messages
    loop.failed(TransportError("x"))
    progress = error_of(loop).progress
    assert progress is not None
    assert progress.messages == HI.messages
    assert progress.completion == asks("a")


def test_next_is_the_same_until_it_was_told_of() -> None:
    for loop in (ToolLoop(HI), started(asks("a")), started(asks("a"), needs=frozenset("f")), started(says())):
        before = serial.dumps(loop)
        assert loop.next() == loop.next()
        assert serial.dumps(loop) == before


# --- a server that pauses ---------------------------------------------------------------------------------


def test_a_pause_without_calls_is_replayed_and_counts_as_a_round() -> None:
    loop = started(pauses(Text("searching")))
    assert loop.next() == CallModel(HI.message(Message.assistant("searching")), 2)
    assert (loop.rounds, loop.tool_calls) == (1, 0)


def test_a_pause_with_calls_runs_them() -> None:
    loop = started(pauses(Text("so"), call()))
    assert loop.next() == RunTools((call(),), 1)
    loop.tools_answered([result()])
    assert loop.next() == CallModel(HI.message(Message.assistant("so", call()), Message.tool(result())), 2)


def test_a_pause_in_the_last_round_is_not_stored() -> None:
    loop = started(pauses(Text("searching")), rounds=1)
    assert isinstance(error_of(loop), MaxRoundsError)
    assert loop.request == HI


# --- ids ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ((call(""),), "without an id or a name"),
        ((call("a", ""),), "without an id or a name"),
        ((call("a"), call("b"), call("a")), "two calls with one id"),
        ((call("a"), call("a", "g", complete=False)), "two calls with one id"),
    ],
)
def test_calls_that_no_result_could_be_told_to_are_a_fault_of_the_server(
    calls: tuple[ToolCall, ...], words: str
) -> None:
    loop = started(asks(*calls))
    error = error_of(loop)
    assert isinstance(error, ProtocolError)
    assert words in error.detail
    assert loop.request == HI
    assert error.progress == Progress(asks(*calls), HI.messages, Usage(), 1, 0)
    loop.resume()
    assert loop.next() == CallModel(HI, 2)


def test_an_id_may_come_again_in_a_later_round() -> None:
    loop = started(asks("a"), asks("a"))
    assert loop.next() == RunTools((call("a"),), 2)


# --- limits, each at its moment -----------------------------------------------------------------------------


def test_the_last_round_may_answer() -> None:
    assert response(started(asks("a"), says(), rounds=2)).rounds == 2


def test_the_last_round_never_runs_a_tool_and_is_not_stored() -> None:
    loop = started(asks("a"), asks("b"), rounds=2)
    before = HI.message(Message.assistant(call("a")), Message.tool(result("a")))
    error = error_of(loop)
    assert isinstance(error, MaxRoundsError)
    assert (loop.phase, loop.request) == (LoopPhase.BLOCKED, before)
    assert error.progress == Progress(asks("b"), before.messages, Usage(), 2, 1)
    assert error.detail == "another round is needed after 2, and 2 is the most"


def test_as_many_calls_as_are_left_are_run() -> None:
    loop = started(asks("a"), asks("b", "c"), tool_calls=3)
    assert loop.next() == RunTools((call("b"), call("c")), 2)


def test_an_answer_with_more_calls_than_are_left_runs_none_and_is_not_stored() -> None:
    loop = started(asks("a"), asks("b", "c"), tool_calls=2)
    error = error_of(loop)
    assert isinstance(error, MaxToolCallsError)
    assert (loop.phase, loop.tool_calls, len(added(loop))) == (LoopPhase.BLOCKED, 1, 2)
    assert error.progress == loop.progress
    assert error.detail == "round 2 asks for 2 calls after 1 were made, and 2 is the most"


def test_incomplete_and_denied_calls_count() -> None:
    loop = started(asks(call("a", complete=False), "b"), needs=frozenset("f"), tool_calls=2)
    loop.approved({"b": False})
    assert loop.tool_calls == 2
    loop.model_answered(asks("c"))
    assert isinstance(error_of(loop), MaxToolCallsError)


def test_the_order_of_the_checks_is_calls_then_ids_then_rounds_then_approval() -> None:
    twice = asks("a", "a")
    needs = frozenset("f")
    assert isinstance(error_of(started(twice, rounds=1, tool_calls=1, needs=needs)), MaxToolCallsError)
    assert isinstance(error_of(started(twice, rounds=1, needs=needs)), ProtocolError)
    assert isinstance(error_of(started(asks("a"), rounds=1, needs=needs)), MaxRoundsError)
    assert isinstance(started(asks("a"), rounds=2, needs=needs).next(), AskApproval)


def test_stop_on_tool_error_ends_after_all_calls_of_the_answer() -> None:
    loop = started(asks("a", "b"), stop_on_tool_error=True)
    loop.tools_answered([result("a", is_error=True), result("b")])
    generation = response(loop)
    assert generation.outcome is GenerationOutcome.TOOL_ERROR
    assert generation.completion == asks("a", "b")
    assert (generation.rounds, generation.tool_calls) == (1, 2)
    assert generation.messages[-1] == Message.tool(result("a", is_error=True), result("b"))


def test_stop_on_tool_error_goes_on_after_good_results() -> None:
    loop = started(asks("a"), stop_on_tool_error=True)
    loop.tools_answered([result("a")])
    assert isinstance(loop.next(), CallModel)


def test_a_failed_call_goes_on_without_it() -> None:
    loop = started(asks("a"))
    loop.tools_answered([result("a", is_error=True)])
    assert isinstance(loop.next(), CallModel)


@pytest.mark.parametrize("complete", [True, False], ids=["denied", "cut off"])
def test_stop_on_tool_error_ends_for_calls_that_were_never_run(complete: bool) -> None:
    loop = started(asks(call(complete=complete)), needs=frozenset("f"), stop_on_tool_error=True)
    if complete:
        loop.approved({"a": False})
    assert response(loop).outcome is GenerationOutcome.TOOL_ERROR


# --- calls that were cut off -------------------------------------------------------------------------------


def test_a_call_that_was_cut_off_is_not_run_and_is_told_so() -> None:
    cut = ToolCall("a", "f", '{"x": ', complete=False, synthetic_id=True, opaque=Opaque("gemini", "{}"))
    loop = started(asks(cut, "b"))
    assert loop.next() == RunTools((call("b"),), 1)
    loop.tools_answered([result("b")])
    told, answers = added(loop)
    assert told.parts == (ToolCall("a", "f", "{}", synthetic_id=True), call("b"))
    assert answers.parts == (
        result("a", "the arguments of f were cut off: nothing was run", is_error=True),
        result("b"),
    )
    assert loop.completion == asks(cut, "b")


def test_an_answer_of_calls_that_were_all_cut_off_goes_on_at_once() -> None:
    loop = started(asks(call(complete=False)))
    assert isinstance(loop.next(), CallModel)
    assert (loop.rounds, loop.tool_calls, len(added(loop))) == (1, 1, 2)


def test_a_long_name_that_a_model_made_up_is_not_repeated_whole() -> None:
    loop = started(asks(call("a", "x" * 10_000, complete=False)))
    (told,) = added(loop)[1].parts
    assert isinstance(told, ToolResult)
    assert len(told.content) < 200


# --- approval --------------------------------------------------------------------------------------------


def test_calls_that_need_approval_are_asked_about_before_any_is_run() -> None:
    loop = started(asks("a", call("b", "g"), call("c", complete=False), "d"), needs=frozenset("f"))
    assert loop.next() == AskApproval((call("a"), call("d")), 1)
    loop.approved({"d": True, "a": False})
    assert loop.next() == RunTools((call("b", "g"), call("d")), 1)
    loop.tools_answered([result("d"), result("b")])
    assert [part.call_id for part in added(loop)[1].parts if isinstance(part, ToolResult)] == ["a", "b", "c", "d"]
    assert added(loop)[1].parts[0] == result("a", "the call of f was not approved: nothing was run", is_error=True)


def test_calls_that_were_all_denied_go_on_at_once() -> None:
    loop = started(asks("a"), needs=frozenset("f"))
    loop.approved({"a": False})
    assert isinstance(loop.next(), CallModel)
    assert loop.tool_calls == 1


def test_a_decision_is_for_the_calls_of_one_answer() -> None:
    loop = started(asks("a"), needs=frozenset("f"))
    loop.approved({"a": True})
    loop.tools_answered([result("a")])
    loop.model_answered(asks("a"))
    assert loop.next() == AskApproval((call("a"),), 2)


def test_a_loop_that_waits_for_approval_has_a_generation_that_says_so() -> None:
    loop = started(asks("a", call("b", "g")), needs=frozenset("f"))
    assert loop.generation == Generation(
        asks("a", call("b", "g")), HI.messages, Usage(), 1, 0, GenerationOutcome.AWAITING_APPROVAL, (call("a"),)
    )


def test_decisions_that_a_stored_loop_has_are_not_asked_for_again() -> None:
    loop = started(asks("a", "b"), needs=frozenset("f"))
    loop = attrs.evolve(loop, approvals={"a": False})
    assert loop.next() == AskApproval((call("b"),), 1)
    loop.approved({"b": True})
    assert loop.next() == RunTools((call("b"),), 1)


@pytest.mark.parametrize(
    "decisions",
    [
        {},
        {"a": True},
        {"a": True, "b": True, "c": True},
        {"a": True, "g": True},
        {"a": True, "b": 1},
        {"a": True, "b": None},
        {"a": True, 1: True},
        ["a", "b"],
        None,
    ],
)
def test_wrong_decisions_are_refused(decisions: Any) -> None:
    loop = started(asks("a", call("g", "g"), "b"), needs=frozenset("f"))
    refuses(loop, "decision", lambda: loop.approved(decisions))


# --- wrong results ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([], "one result for each call"),
        ([result("a")], "one result for each call"),
        ([result("a"), result("b"), result("c")], "one result for each call"),
        ([result("a"), result("cut"), result("b")], "one result for each call"),
        ([result("a"), result("a")], r"results\[1\] is a second result"),
        ([result("a"), "b"], r"results\[1\] is a str"),
        ("ab", r"results\[0\] is a str"),
        (5, "results is an int"),
        (None, "results is a NoneType"),
    ],
)
def test_wrong_results_are_refused(results: Any, words: str) -> None:
    loop = started(asks("a", "b", call("cut", complete=False)))
    refuses(loop, words, lambda: loop.tools_answered(results))


def test_a_result_of_a_denied_call_is_refused() -> None:
    loop = started(asks("a", "b"), needs=frozenset("f"))
    loop.approved({"a": True, "b": False})
    refuses(loop, "one result for each call", lambda: loop.tools_answered([result("a"), result("b")]))


def test_results_that_fail_to_come_change_nothing() -> None:
    def results() -> Iterator[ToolResult]:
        yield result("a")
        raise OSError("no")

    loop = started(asks("a", "b"))
    before = serial.dumps(loop)
    with pytest.raises(OSError, match="no"):
        loop.tools_answered(results())
    assert serial.dumps(loop) == before


# --- usage -----------------------------------------------------------------------------------------------


def test_usage_is_cumulative_and_a_counter_that_is_missing_once_stays_unknown() -> None:
    loop = started(
        asks("a", usage=Usage(10, 5, 15, 0, None, 3)),
        asks("b", usage=Usage(20, None, 20, 0, 7, 4)),
        says(usage=Usage(30, 6, 36, 0, 8, 0)),
    )
    assert response(loop).usage == Usage(60, None, 71, 0, None, 7)


def test_an_answer_without_usage_makes_all_of_it_unknown_and_zero_is_a_value() -> None:
    assert response(started(says(usage=Usage(0, 0)))).usage == Usage(0, 0)
    assert response(started(says())).usage == Usage()
    assert response(started(asks("a"), says(usage=Usage(1, 1)))).usage == Usage()
    assert response(started(asks("a", usage=Usage(1, 1)), says())).usage == Usage()


def test_the_usage_of_an_answer_that_may_not_stand_counts() -> None:
    loop = started(asks("a", usage=Usage(10, 1)), asks("b", usage=Usage(20, 2)), rounds=2)
    progress = error_of(loop).progress
    assert progress is not None
    assert progress.usage == Usage(30, 3)


def test_a_sum_that_no_json_holds_is_unknown() -> None:
    loop = started(asks("a", usage=Usage(2**64 - 1, 1)), says(usage=Usage(1, 1)))
    assert response(loop).usage == Usage(None, 2)
    assert serial.loads(serial.dumps(loop)) == loop

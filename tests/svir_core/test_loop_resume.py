"""A loop that failed, or that a limit ended: what its error says, what it takes, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from svir_core import serial
from svir_core.errors import (
    MaxRoundsError,
    MaxToolCallsError,
    ProtocolError,
    TransportError,
)
from svir_core.generation import Progress
from svir_core.loop import LoopPhase, ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import CallModel, RunTools
from svir_core.message import Message, Text
from svir_core.response import Partial, Usage
from tests.svir_core.loops import (
    HI,
    OPEN,
    asks,
    at_phase,
    call,
    error_of,
    pauses,
    refuses,
    response,
    result,
    says,
    started,
)


@pytest.mark.parametrize("phase", OPEN)
def test_a_failure_is_raised_with_the_progress_and_resume_goes_on_at_the_same_step(phase: LoopPhase) -> None:
    loop = at_phase(phase)
    assert loop.phase is phase
    before, step = serial.dumps(loop), loop.next()
    error = TransportError("refused", status=503, partial=Partial((Text("half"),)))
    loop.failed(error)
    raised = error_of(loop)
    assert raised is not error
    assert (type(raised), raised.detail, raised.status, raised.partial) == (
        TransportError,
        "refused",
        503,
        error.partial,
    )
    assert raised.progress == loop.progress
    assert error.progress is None
    assert error_of(loop) == raised
    loop.resume()
    assert serial.dumps(loop) == before
    assert loop.next() == step


@pytest.mark.parametrize("phase", OPEN)
def test_a_failed_loop_takes_nothing_but_resume(phase: LoopPhase) -> None:
    loop = at_phase(phase)
    loop.failed(TransportError("x"))
    refuses(loop, "has failed, and was not resumed", lambda: loop.model_answered(says()))
    refuses(loop, "has failed, and was not resumed", lambda: loop.approved({"a": True}))
    refuses(loop, "has failed, and was not resumed", lambda: loop.tools_answered([result("a")]))
    refuses(loop, "for a loop that goes on", lambda: loop.failed(TransportError("y")))


def test_a_loop_that_a_limit_ended_does_not_fail_again() -> None:
    loop = at_phase(LoopPhase.BLOCKED)
    refuses(loop, "for a loop that goes on", lambda: loop.failed(TransportError("y")))


def test_a_finished_loop_takes_nothing() -> None:
    loop = at_phase(LoopPhase.FINISHED)
    refuses(loop, "which is: finished", lambda: loop.model_answered(says()))
    refuses(loop, "which is: finished", lambda: loop.approved({}))
    refuses(loop, "which is: finished", lambda: loop.tools_answered([]))
    refuses(loop, "for a loop that goes on", lambda: loop.failed(TransportError("y")))
    before = serial.dumps(loop)
    loop.resume()
    assert serial.dumps(loop) == before


TELL: dict[LoopPhase, Callable[[ToolLoop], None]] = {
    LoopPhase.MODEL: lambda loop: loop.model_answered(says()),
    LoopPhase.APPROVAL: lambda loop: loop.approved({"a": True}),
    LoopPhase.TOOLS: lambda loop: loop.tools_answered([result("a")]),
}


@pytest.mark.parametrize("phase", OPEN)
@pytest.mark.parametrize("told", OPEN)
def test_only_the_answer_to_the_step_is_taken(phase: LoopPhase, told: LoopPhase) -> None:
    loop = at_phase(phase)
    if phase is told:
        TELL[told](loop)
        assert serial.dumps(loop) != serial.dumps(at_phase(phase))
    else:
        refuses(loop, f"is not what the loop waits for, which is: {phase.value}", lambda: TELL[told](loop))


def test_the_progress_of_an_error_that_had_one_is_that_of_this_loop() -> None:
    loop = ToolLoop(HI)
    loop.failed(TransportError("x", progress=Progress(rounds=7)))
    assert error_of(loop).progress == Progress(None, HI.messages)


def test_an_error_raised_twice_gathers_no_context() -> None:
    loop = started(asks("a"), rounds=1)
    first = error_of(loop)
    second = error_of(loop)
    assert first is not second
    assert (second.__context__, second.__cause__) == (None, None)


@pytest.mark.parametrize(
    ("limits", "larger"),
    [({"rounds": 1}, LoopLimits(rounds=2)), ({"tool_calls": 1}, LoopLimits(tool_calls=2))],
)
def test_resume_with_larger_limits_judges_the_kept_answer_again(limits: dict[str, Any], larger: LoopLimits) -> None:
    loop = started(asks("a", "b", usage=Usage(5, 5)), **limits)
    refused = error_of(loop)
    loop.resume()
    assert error_of(loop) == refused
    loop.resume(larger)
    assert loop.next() == RunTools((call("a"), call("b")), 1)
    assert (loop.rounds, loop.usage, loop.limits) == (1, Usage(5, 5), larger)
    loop.tools_answered([result("b"), result("a")])
    assert isinstance(loop.next(), CallModel)


def test_one_limit_after_the_other() -> None:
    loop = started(asks("a", "b"), rounds=1, tool_calls=1)
    assert isinstance(error_of(loop), MaxToolCallsError)
    loop.resume(LoopLimits(rounds=1))
    assert isinstance(error_of(loop), MaxRoundsError)
    loop.resume(LoopLimits())
    assert isinstance(loop.next(), RunTools)


def test_resume_with_larger_limits_replays_a_kept_pause() -> None:
    loop = started(pauses(Text("wait")), rounds=1)
    loop.resume(LoopLimits(rounds=2))
    assert loop.next() == CallModel(HI.message(Message.assistant("wait")), 2)


@pytest.mark.parametrize("phase", [LoopPhase.APPROVAL, LoopPhase.TOOLS])
def test_resume_with_smaller_limits_forbids_calls_that_were_not_run(phase: LoopPhase) -> None:
    loop = at_phase(phase)
    step = loop.next()
    loop.resume(LoopLimits(rounds=1))
    assert isinstance(error_of(loop), MaxRoundsError)
    loop.resume(LoopLimits(rounds=2))
    assert loop.next() == step


def test_no_round_beyond_the_limit_is_asked_for_after_a_fault_of_the_server() -> None:
    loop = started(asks("a", "a"), rounds=1)
    assert isinstance(error_of(loop), ProtocolError)
    loop.resume()
    assert isinstance(error_of(loop), MaxRoundsError)
    loop.resume(LoopLimits(rounds=2))
    assert loop.next() == CallModel(HI, 2)


def test_fewer_calls_than_were_made_forbid_no_answer_without_calls() -> None:
    loop = started(asks("a", "b"))
    loop.tools_answered([result("a"), result("b")])
    loop.resume(LoopLimits(tool_calls=1))
    loop.model_answered(says())
    assert response(loop).tool_calls == 2

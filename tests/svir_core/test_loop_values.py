"""What a loop is made of and told: wrong values are refused before anything changes, and nothing of it is aliased."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any, cast

import attrs
import pytest

from svir_core import serial
from svir_core.errors import (
    ConfigError,
    ErrorKind,
    MaxRoundsError,
    SvirError,
    TransportError,
)
from svir_core.generation import Progress
from svir_core.loop import LoopPhase, ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import AskApproval, CallModel, RunTools
from svir_core.message import Message
from svir_core.request import Request, Schema, Tool
from tests.svir_core.loops import HI, OTHER, added, asks, at_phase, call, error_of, refuses, result, says, started


def test_the_generation_of_a_loop_that_goes_on_is_refused() -> None:
    for phase in (LoopPhase.MODEL, LoopPhase.TOOLS, LoopPhase.BLOCKED):
        with pytest.raises(ConfigError, match="goes on"):
            _ = at_phase(phase).generation
    waiting = at_phase(LoopPhase.APPROVAL)
    waiting.failed(TransportError("x"))
    with pytest.raises(ConfigError, match="goes on"):
        _ = waiting.generation
    assert at_phase(LoopPhase.FINISHED).generation.text == "done"


def test_a_history_that_is_kept_apart_is_put_back() -> None:
    loop = started(asks("a"), asks("b"))
    bare = loop.with_history(())
    assert (bare.request.messages, bare.start, bare.next()) == ((), 0, loop.next())
    assert serial.loads(serial.dumps(bare), ToolLoop).with_history(loop.request.messages) == loop
    with pytest.raises(ConfigError, match=r"Request\.messages"):
        loop.with_history(OTHER)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"request": OTHER}, r"ToolLoop\.request must be Request"),
        ({"limits": {"rounds": 1}}, r"ToolLoop\.limits must be LoopLimits"),
        ({"requires_approval": "f"}, "a set of names"),
        ({"requires_approval": 5}, "a set of names"),
        ({"requires_approval": [1]}, "a set of names"),
        ({"requires_approval": [["f"]]}, "a set of names"),
        ({"start": -2}, r"ToolLoop\.start"),
        ({"start": True}, r"ToolLoop\.start"),
        ({"phase": "elsewhere"}, r"ToolLoop\.phase is one of"),
        ({"phase": "tools"}, "needs the answer that led there"),
        ({"phase": "blocked", "completion": asks("a")}, "has an error in phase 'blocked'"),
        ({"phase": "finished", "completion": says(), "error": TransportError("x")}, "none in phase 'finished'"),
        ({"rounds": 1}, "needs the answer that led there"),
        ({"rounds": -1}, r"ToolLoop\.rounds"),
        ({"tool_calls": 1.0}, r"ToolLoop\.tool_calls"),
        ({"usage": None}, r"ToolLoop\.usage must be Usage"),
        ({"completion": "hi"}, r"ToolLoop\.completion must be Completion or None"),
        ({"approvals": ["a"]}, "decisions are a mapping"),
        ({"approvals": {"a": "yes"}}, "each is True or False"),
        ({"outcome": "elsewhere"}, "the outcome of a generation is one of"),
        ({"error": OSError("x")}, r"ToolLoop\.error must be SvirError or None"),
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any], words: str) -> None:
    values: dict[str, Any] = {"request": HI, **wrong}
    with pytest.raises(ConfigError, match=words):
        ToolLoop(**values)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "done",
        says().text,
    ],
)
def test_a_wrong_answer_is_refused(answer: Any) -> None:
    loop = ToolLoop(HI)
    refuses(loop, "must be|not a part", lambda: loop.model_answered(answer))


@pytest.mark.parametrize("error", [None, "x", OSError("x"), SvirError])
def test_a_failure_is_an_error_of_svir(error: Any) -> None:
    loop = ToolLoop(HI)
    refuses(loop, "the error of a step must be a SvirError", lambda: loop.failed(error))


@pytest.mark.parametrize("limits", [8, {"rounds": 8}, LoopLimits])
def test_resume_takes_limits(limits: Any) -> None:
    loop = at_phase(LoopPhase.BLOCKED)
    refuses(loop, "limits must be a LoopLimits", lambda: loop.resume(limits))
    assert isinstance(error_of(loop), MaxRoundsError)


def test_numbers_of_any_size_are_asked_for_as_they_were_given() -> None:
    huge: dict[str, Any] = {"maximum": 2**70, "inside": [{"minimum": -(2**70)}]}
    request = HI.replace(
        tools=[Tool("f", schema=huge, extra=huge)], response_format=Schema("answer", huge), extra={"a": huge}
    )
    loop = ToolLoop(request)
    assert loop.request == request
    huge["inside"][0].clear()
    assert loop.request != request


def test_nothing_of_the_callers_is_held_that_may_change() -> None:
    names, decisions = {"f"}, {"a": True, "b": True}
    results, messages = [result("a"), result("b")], list(HI.messages)
    error = TransportError("x")
    loop = ToolLoop(Request("m", messages=messages), requires_approval=cast(Any, names))
    loop.failed(error)
    error.detail, error.progress = "y", Progress(rounds=9)
    assert (error_of(loop).detail, error_of(loop).progress) == ("x", loop.progress)
    loop.resume()
    names.clear()
    messages.clear()
    loop.model_answered(asks("a", "b"))
    assert isinstance(loop.next(), AskApproval)
    loop.approved(decisions)
    decisions["a"] = False
    assert loop.next() == RunTools((call("a"), call("b")), 1)
    held = attrs.evolve(loop, approvals=decisions)
    decisions.clear()
    assert held.next() == RunTools((call("b"),), 1)
    loop.tools_answered(results)
    results.clear()
    assert added(loop)[1] == Message.tool(result("a"), result("b"))
    copied = loop.with_history(loop.request.messages)
    copied.model_answered(says())
    assert isinstance(loop.next(), CallModel)


def test_schemas_and_extra_are_those_of_the_beginning() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"enum": [1]}}}
    tool_extra, extra, form = {"strict": [True]}, {"a": {"b": [1]}}, {"type": "object", "required": ["x"]}
    request = Request(
        "m",
        tools=[Tool("f", schema=schema, extra=tool_extra)],
        response_format=Schema("answer", form, strict=True),
        extra=extra,
    ).user("hi")
    loop = ToolLoop(request)
    assert loop.request == request
    before = serial.dumps(loop)
    schema["properties"]["x"]["enum"].append(2)
    tool_extra["strict"].clear()
    extra["a"]["b"].clear()
    form["required"] = []
    assert serial.dumps(loop) == before
    assert loop.request != request


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Request("m", tools=[Tool("f", schema={"x": OTHER})]), r"^Tool\.schema"),
        (Request("m", tools=[Tool("f", extra={"x": OTHER})]), r"^Tool\.extra"),
        (Request("m", response_format=Schema("s", {"x": OTHER})), r"^Schema\.schema"),
        (Request("m", extra={"x": OTHER}), r"^Request\.extra"),
    ],
)
def test_a_request_that_no_api_could_carry_is_refused_at_once(wrong: Request, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ToolLoop(wrong.user("hi"))


@pytest.mark.parametrize("phase", LoopPhase)
def test_copies_and_pickles_are_the_same_loop_and_go_their_own_ways(phase: LoopPhase) -> None:
    loop = at_phase(phase)
    before = serial.dumps(loop)
    for made in (copy.copy(loop), copy.deepcopy(loop), pickle.loads(pickle.dumps(loop))):
        assert made == loop
        made.resume(LoopLimits(rounds=100))
        if phase is not LoopPhase.FINISHED:
            made.failed(TransportError("x"))
        assert serial.dumps(loop) == before


def test_an_error_that_was_raised_is_not_the_loops_own() -> None:
    loop = started(asks("a"), rounds=1)
    error = error_of(loop)
    error.detail, error.progress = "changed", None
    assert error_of(loop).detail != "changed"
    assert loop.error is not None
    assert loop.error.progress is None


def test_repr_says_where_it_stands_and_nothing_that_was_said() -> None:
    loop = started(asks(call("a", arguments='{"secret": 1}')))
    assert repr(loop) == "<ToolLoop tools, 1 rounds, 0 calls>"
    loop.failed(TransportError("x"))
    assert repr(loop) == "<ToolLoop failed in tools, 1 rounds, 0 calls>"


def test_the_new_errors_are_known_by_their_kind_and_not_worth_another_try() -> None:
    errors = (error_of(started(asks("a"), rounds=1)), error_of(started(asks("a", "b"), tool_calls=1)))
    assert [(error.kind, error.retryable) for error in errors] == [
        (ErrorKind.MAX_ROUNDS, False),
        (ErrorKind.MAX_TOOL_CALLS, False),
    ]


def test_every_public_method_is_documented() -> None:
    for name, member in vars(ToolLoop).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            assert member.__doc__, name

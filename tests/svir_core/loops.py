"""Loops at every phase, and what they are told: for the tests of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from svir_core import serial
from svir_core.errors import (
    ConfigError,
    SvirError,
)
from svir_core.generation import Generation
from svir_core.loop import LoopPhase, ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import Finished
from svir_core.message import Message, Text, ToolCall, ToolResult
from svir_core.request import Request, Tool
from svir_core.response import Completion, FinishReason, Usage

HI = Request("m", system="s", tools=[Tool("f")]).user("hi")
OTHER: Any = object()
"""What a caller without a type checker may give."""


def call(call_id: str = "a", name: str = "f", arguments: str = "{}", *, complete: bool = True) -> ToolCall:
    return ToolCall(call_id, name, arguments, complete=complete)


def asks(*calls: ToolCall | str, usage: Usage | None = None) -> Completion:
    return Completion(FinishReason.TOOL_CALLS, [call(each) if isinstance(each, str) else each for each in calls], usage)


def says(text: str = "done", *, usage: Usage | None = None) -> Completion:
    return Completion(FinishReason.STOP, [Text(text)], usage)


def pauses(*parts: Text | ToolCall) -> Completion:
    return Completion(FinishReason.PAUSE, parts)


def result(call_id: str = "a", content: str = "1", *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id, content, is_error)


def started(
    *answers: Completion, request: Request = HI, needs: frozenset[str] = frozenset(), **limits: Any
) -> ToolLoop:
    """A loop that was given these answers, and a good result for each call of all but the last."""
    loop = ToolLoop(request, limits=LoopLimits(**limits), requires_approval=needs)
    for number, answer in enumerate(answers):
        loop.model_answered(answer)
        if answer.calls and number < len(answers) - 1:
            loop.tools_answered([result(each.id) for each in answer.calls])
    return loop


def error_of(loop: ToolLoop) -> SvirError:
    with pytest.raises(SvirError) as raised:
        loop.next()
    return raised.value


def response(loop: ToolLoop) -> Generation:
    step = loop.next()
    assert isinstance(step, Finished)
    return step.response


def added(loop: ToolLoop) -> tuple[Message, ...]:
    return loop.request.messages[1:]


def refuses(loop: ToolLoop, words: str, tell: Callable[[], object]) -> None:
    """``tell`` is a ``ConfigError``, and changes nothing."""
    before = serial.dumps(loop)
    with pytest.raises(ConfigError, match=words):
        tell()
    assert serial.dumps(loop) == before


def at_phase(phase: LoopPhase) -> ToolLoop:
    match phase:
        case LoopPhase.MODEL:
            return started(asks("a"), pauses(Text("wait")))
        case LoopPhase.APPROVAL:
            return started(asks("a"), needs=frozenset("f"))
        case LoopPhase.TOOLS:
            loop = started(asks("a", "b"), needs=frozenset("f"))
            loop.approved({"a": True, "b": False})
            return loop
        case LoopPhase.BLOCKED:
            return started(asks("a"), rounds=1)
        case LoopPhase.FINISHED:
            return started(says())


OPEN = [LoopPhase.MODEL, LoopPhase.APPROVAL, LoopPhase.TOOLS]

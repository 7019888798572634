"""The loop between a model and its tools, as a state machine without I/O (50, Loop; 00 section 6).

| phase | ``next()`` | what is told | leads to |
| --- | --- | --- | --- |
| model | ``CallModel`` | ``model_answered`` | finished, when the answer asks for nothing |
| | | | model, when the server paused |
| | | | approval, when a call needs one; else tools |
| | | | blocked, with an error, when a limit forbids it |
| | | | model, with an error, when a call has no id or no name, or two have one id |
| blocked | raises | ``resume`` | what the answer leads to under other limits |
| approval | ``AskApproval`` | ``approved`` | tools |
| tools | ``RunTools`` | ``tools_answered`` | model; finished, when a call failed and the limits say so |
| finished | ``Finished`` | | |
| any but finished | raises | ``failed``, then ``resume`` | the phase that it was |

An answer with calls becomes part of the history together with their results, so that no history that anybody sees
has a call without one. An answer that a limit forbids becomes no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import NoneType
from typing import Final, cast

import attrs

from svir_core.check import an, at_least, choice, expect, instance_of
from svir_core.errors import ConfigError, MaxRoundsError, MaxToolCallsError, ProtocolError, SvirError
from svir_core.generation import Generation, GenerationOutcome, Progress, outcome_of
from svir_core.json_text import copied
from svir_core.kept_error import kept_error
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import AskApproval, CallModel, Finished, LoopStep, RunTools
from svir_core.message import Message, Part, Role, ToolCall, ToolResult
from svir_core.not_run import cut_off, denied
from svir_core.request import Request, Schema
from svir_core.response import Completion, FinishReason, Usage


class LoopPhase(StrEnum):
    """What a loop waits for."""

    MODEL = "model"
    """The model's answer."""
    BLOCKED = "blocked"
    """Other limits: one that it has forbids the answer that came."""
    APPROVAL = "approval"
    """A yes or no for calls of the answer."""
    TOOLS = "tools"
    """The results of its calls."""
    FINISHED = "finished"
    """Nothing."""


_JUDGED_AGAIN: Final = (LoopPhase.BLOCKED, LoopPhase.APPROVAL, LoopPhase.TOOLS)
"""The phases whose answer other limits may forbid or allow: its calls were not run yet."""


def _phase(value: LoopPhase | str) -> LoopPhase:
    return choice(LoopPhase, value, "ToolLoop.phase")


def _names(values: Iterable[str]) -> frozenset[str]:
    given = isinstance(values, Iterable) and not isinstance(values, str)
    names = tuple(values) if given else ()
    if not given or not all(isinstance(name, str) for name in names):
        raise ConfigError("ToolLoop.requires_approval is a set of names of tools")
    return frozenset(names)


def checked_decisions(values: Mapping[str, bool], where: str = "decisions") -> dict[str, bool]:
    """A copy of ``values``; ``ConfigError``, naming ``where``, when they are no yes or no by the ids of calls."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} are a mapping of the ids of calls, not {an(type(values))}")
    made = dict(values)
    if not all(isinstance(key, str) and isinstance(value, bool) for key, value in made.items()):
        raise ConfigError(f"{where}: each is True or False, by the id of its call")
    return made


@attrs.define(repr=False)
class ToolLoop:
    """One generation: ``request`` ends with the turn that starts it, of the user or of results.

    No method does I/O or reads a clock. Between any two of them ``serial.dumps(loop)`` is all of it; what
    ``serial.loads`` gives goes on in the same way, in another process too. What a method is told that is not the answer
    to ``next()`` is a ``ConfigError``, and changes nothing. Schemas and ``extra`` of the request are copied: what is no
    JSON there is a ``ConfigError`` too.

    Attributes:
        request: what the model is asked next; its messages are the history.
        limits: what the generation may cost.
        requires_approval: the tools whose calls somebody must approve.
        start: the place in the history of the first message that is the generation's own; a loop that begins is given
            none, and has it from then on.
        phase: what the loop waits for.
        rounds: answers that came.
        tool_calls: calls whose results came.
        usage: tokens of all rounds together; a counter that one of them did not report is ``None``.
        completion: the latest answer.
        approvals: what was said of the calls of that answer, by id.
        outcome: how it ended; ``ANSWERED`` until then.
        error: why it cannot go on, without its progress.
    """

    request: Request = attrs.field(validator=instance_of(Request))
    limits: LoopLimits = attrs.field(factory=LoopLimits, kw_only=True, validator=instance_of(LoopLimits))
    requires_approval: frozenset[str] = attrs.field(default=frozenset(), kw_only=True, converter=_names)
    start: int | None = attrs.field(default=None, kw_only=True, validator=attrs.validators.optional(at_least(0)))
    phase: LoopPhase = attrs.field(default=LoopPhase.MODEL, kw_only=True, converter=_phase)
    rounds: int = attrs.field(default=0, kw_only=True, validator=at_least(0))
    tool_calls: int = attrs.field(default=0, kw_only=True, validator=at_least(0))
    usage: Usage = attrs.field(factory=Usage, kw_only=True, validator=instance_of(Usage))
    completion: Completion | None = attrs.field(default=None, kw_only=True, validator=instance_of(Completion, NoneType))
    approvals: Mapping[str, bool] = attrs.field(factory=dict[str, bool], kw_only=True, converter=checked_decisions)
    outcome: GenerationOutcome = attrs.field(default=GenerationOutcome.ANSWERED, kw_only=True, converter=outcome_of)
    error: SvirError | None = attrs.field(default=None, kw_only=True, validator=instance_of(SvirError, NoneType))

    def __attrs_post_init__(self) -> None:
        if (self.rounds or self.phase is not LoopPhase.MODEL) and self.completion is None:
            raise ConfigError(f"a ToolLoop in phase {self.phase.value!r} needs the answer that led there")
        unlike = {LoopPhase.BLOCKED: self.error is None, LoopPhase.FINISHED: self.error is not None}
        if unlike.get(self.phase):
            raise ConfigError("a ToolLoop has an error in phase 'blocked', and none in phase 'finished'")
        if self.start is not None:
            return
        messages = self.request.messages
        if not messages or messages[-1].role not in (Role.USER, Role.TOOL) or not messages[-1].parts:
            raise ConfigError("ToolLoop.request must end with a message of the user, or with results, that has parts")
        self.start = len(messages) - 1
        self.request = _held(self.request)

    def next(self) -> LoopStep:
        """What is to be done; the same until it was told of. Raises the error that the loop failed with, its
        ``progress`` set."""
        if self.error is not None:
            error = kept_error(self.error)
            error.progress = self.progress
            raise error
        if self.completion is None or self.phase is LoopPhase.MODEL:
            return CallModel(self.request, self.rounds + 1)
        if self.phase is LoopPhase.APPROVAL:
            return AskApproval(self._undecided(self.completion), self.rounds)
        if self.phase is LoopPhase.TOOLS:
            return RunTools(self._runnable(self.completion), self.rounds)
        return Finished(self.generation)

    def model_answered(self, completion: Completion) -> None:
        """The model's answer to ``CallModel``. When it may not stand, ``next()`` raises why:

        ``MaxToolCallsError``, ``MaxRoundsError``, and ``ProtocolError`` for calls without an id or a name, or with one
        id for two of them.
        """
        self._expect(LoopPhase.MODEL, "model_answered")
        answer = expect(completion, Completion, "the answer of a model")
        usage = answer.usage or Usage()
        self.usage = self.usage + usage if self.rounds else usage
        self.rounds += 1
        self.completion = answer
        self.approvals = {}
        self._judge(answer)

    def approved(self, decisions: Mapping[str, bool]) -> None:
        """What was said of the calls of ``AskApproval``: a yes or no for each, by id."""
        answer = self._expect(LoopPhase.APPROVAL, "approved")
        told = checked_decisions(decisions)
        if told.keys() != {call.id for call in self._undecided(answer)}:
            raise ConfigError("approved() takes a decision for each call that was asked about, by its id")
        self.approvals = {**self.approvals, **told}
        self._begin_tools(answer)

    def tools_answered(self, results: Iterable[ToolResult]) -> None:
        """The results of the calls of ``RunTools``, one for each, in any order; they are kept in the order asked."""
        answer = self._expect(LoopPhase.TOOLS, "tools_answered")
        given = _by_call(results)
        if set(given) != {call.id for call in self._runnable(answer)}:
            raise ConfigError("tools_answered() takes one result for each call that was to be run, by its id")
        self._store(answer, given)

    def failed(self, error: SvirError) -> None:
        """The step could not be done. ``next()`` raises ``error`` from now on, until :meth:`resume`; one of a caller's
        own class as one of the nearest class of svir's, and without what has no JSON form."""
        if self.phase is LoopPhase.FINISHED or self.error is not None:
            raise ConfigError("failed() is for a loop that goes on")
        self.error = kept_error(expect(error, SvirError, "the error of a step"))

    def resume(self, limits: LoopLimits | None = None) -> None:
        """Go on after an error, at the step that failed, with other ``limits`` where these are given.

        An answer whose calls were not run yet is judged again by them, so after ``MaxRoundsError`` and
        ``MaxToolCallsError`` the model is not asked twice. A decision on its calls stays.
        """
        if limits is not None:
            self.limits = expect(limits, LoopLimits, "limits")
        self.error = None
        if self.completion is not None and self.phase in _JUDGED_AGAIN:
            self._judge(self.completion)
        elif self.phase is LoopPhase.MODEL and self.rounds >= self.limits.rounds:
            self.error = self._max_rounds()

    def with_history(self, messages: Iterable[Message]) -> ToolLoop:
        """The same loop over these messages, for who keeps the history apart from it. Nothing is checked."""
        return attrs.evolve(self, request=self.request.replace(messages=messages))

    @property
    def generation(self) -> Generation:
        """What it has come to, finished or waiting for approval; ``ConfigError`` in every other state."""
        waits = self.phase is LoopPhase.APPROVAL
        if self.completion is None or self.error is not None or not (waits or self.phase is LoopPhase.FINISHED):
            raise ConfigError("the loop goes on: it has come to nothing yet")
        return Generation(
            self.completion,
            self._own_messages(),
            self.usage,
            self.rounds,
            self.tool_calls,
            GenerationOutcome.AWAITING_APPROVAL if waits else self.outcome,
            self._undecided(self.completion) if waits else (),
        )

    @property
    def progress(self) -> Progress:
        """How far the generation has come."""
        return Progress(self.completion, self._own_messages(), self.usage, self.rounds, self.tool_calls)

    def __repr__(self) -> str:
        state = self.phase.value if self.error is None else f"failed in {self.phase.value}"
        return f"<ToolLoop {state}, {self.rounds} rounds, {self.tool_calls} calls>"

    # --- steps -----------------------------------------------------------------------------------------

    def _expect(self, phase: LoopPhase, method: str) -> Completion:
        """The latest answer, which there is in every phase but the first; ``ConfigError`` in another phase."""
        if self.error is not None:
            raise ConfigError(f"{method}(): the loop has failed, and was not resumed")
        if self.phase is not phase:
            raise ConfigError(f"{method}() is not what the loop waits for, which is: {self.phase.value}")
        return cast("Completion", self.completion)

    def _judge(self, answer: Completion) -> None:
        """What an answer leads to (51 section 1.5 G: calls first, then rounds)."""
        calls = answer.calls
        self.phase = LoopPhase.BLOCKED
        if calls and len(calls) > self.limits.tool_calls - self.tool_calls:
            self.error = MaxToolCallsError(
                f"round {self.rounds} asks for {len(calls)} calls after {self.tool_calls} were made, "
                f"and {self.limits.tool_calls} is the most"
            )
        elif (fault := _fault(calls)) is not None:
            self.phase = LoopPhase.MODEL  # no limit: it would be the same answer
            self.error = ProtocolError(f"round {self.rounds}: {fault}")
        elif not calls and answer.finish is not FinishReason.PAUSE:
            self._append(Message.assistant(*answer.parts))
            self.phase = LoopPhase.FINISHED
        elif self.rounds >= self.limits.rounds:
            self.error = self._max_rounds()
        elif not calls:
            self._append(Message.assistant(*answer.parts))
            self.phase = LoopPhase.MODEL
        elif self._undecided(answer):
            self.phase = LoopPhase.APPROVAL
        else:
            self._begin_tools(answer)

    def _max_rounds(self) -> MaxRoundsError:
        return MaxRoundsError(f"another round is needed after {self.rounds}, and {self.limits.rounds} is the most")

    def _begin_tools(self, answer: Completion) -> None:
        self.phase = LoopPhase.TOOLS
        if not self._runnable(answer):
            self._store(answer, {})

    def _undecided(self, answer: Completion) -> tuple[ToolCall, ...]:
        asked = (call for call in answer.calls if call.complete and call.name in self.requires_approval)
        return tuple(call for call in asked if call.id not in self.approvals)

    def _runnable(self, answer: Completion) -> tuple[ToolCall, ...]:
        return tuple(call for call in answer.calls if call.complete and self.approvals.get(call.id, True))

    def _store(self, answer: Completion, given: Mapping[str, ToolResult]) -> None:
        results = [given.get(call.id) or (denied(call) if call.complete else cut_off(call)) for call in answer.calls]
        self._append(Message.assistant(*map(_kept, answer.parts)), Message.tool(*results))
        self.tool_calls += len(results)
        self.phase = LoopPhase.MODEL
        if self.limits.stop_on_tool_error and any(result.is_error for result in results):
            self.phase = LoopPhase.FINISHED
            self.outcome = GenerationOutcome.TOOL_ERROR

    def _append(self, *messages: Message) -> None:
        self.request = self.request.message(*messages)

    def _own_messages(self) -> tuple[Message, ...]:
        return self.request.messages[self.start :]


def _held(request: Request) -> Request:
    """The same, with nothing in it that its caller may still change: a stored loop would not change with it."""
    form = request.response_format
    return request.replace(
        tools=[
            attrs.evolve(tool, schema=copied(tool.schema, "Tool.schema"), extra=copied(tool.extra, "Tool.extra"))
            for tool in request.tools
        ],
        response_format=attrs.evolve(form, schema=copied(form.schema, "Schema.schema"))
        if isinstance(form, Schema)
        else form,
        extra=copied(request.extra, "Request.extra"),
    )


def _kept(part: Part) -> Part:
    """A part of an answer as the history has it. A call that was cut off has no arguments there, and nothing that
    stands for them: APIs refuse half an object, and every later request with it."""
    if isinstance(part, ToolCall) and not part.complete:
        return ToolCall(part.id, part.name, "{}", synthetic_id=part.synthetic_id)
    return part


def _fault(calls: tuple[ToolCall, ...]) -> str | None:
    if not all(call.id and call.name for call in calls):
        return "a call without an id or a name"
    return None if len({call.id for call in calls}) == len(calls) else "two calls with one id"


def _by_call(results: Iterable[ToolResult]) -> dict[str, ToolResult]:
    if not isinstance(results, Iterable):
        raise ConfigError(f"results is {an(type(results))}, not a sequence of ToolResult")
    given: dict[str, ToolResult] = {}
    for number, result in enumerate(results):
        if not isinstance(result, ToolResult):
            raise ConfigError(f"results[{number}] is {an(type(result))}, not a ToolResult")
        if result.call_id in given:
            raise ConfigError(f"results[{number}] is a second result of one call")
        given[result.call_id] = result
    return given

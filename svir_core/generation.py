"""What a generation came to: all its rounds together (50, Loop)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from types import NoneType
from typing import TypeVar

import attrs

from svir_core.check import at_least, choice, instance_of, several
from svir_core.message import Message, ToolCall
from svir_core.response import Completion, FinishReason, Usage

T = TypeVar("T")


class GenerationOutcome(StrEnum):
    """How a generation ended that did not fail."""

    ANSWERED = "answered"
    """The model had nothing more to ask for."""
    TOOL_ERROR = "tool_error"
    """A call failed, and ``LoopLimits.stop_on_tool_error`` is set."""
    AWAITING_APPROVAL = "awaiting_approval"
    """Calls wait for somebody's yes or no: it goes on when these are told."""


def outcome_of(value: GenerationOutcome | str) -> GenerationOutcome:
    """``value`` as an outcome; ``ConfigError`` for what is none."""
    return choice(GenerationOutcome, value, "the outcome of a generation")


def _messages(values: Iterable[Message]) -> tuple[Message, ...]:
    return several(values, Message, "the messages of a generation")


def _calls(values: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    return several(values, ToolCall, "the calls that wait")


@attrs.frozen
class Progress:
    """How far a generation has come that has not finished.

    Attributes:
        completion: the latest whole answer, whether it became part of the history or not; ``None`` before the first.
        messages: what the generation has added to the history, its input first.
        usage: tokens of all rounds together; a counter that one of them did not report is ``None``.
        rounds: answers that came.
        tool_calls: calls whose results came.
    """

    completion: Completion | None = attrs.field(default=None, validator=instance_of(Completion, NoneType))
    messages: tuple[Message, ...] = attrs.field(default=(), converter=_messages)
    usage: Usage = attrs.field(factory=Usage, validator=instance_of(Usage))
    rounds: int = attrs.field(default=0, validator=at_least(0))
    tool_calls: int = attrs.field(default=0, validator=at_least(0))


@attrs.frozen
class Generation:
    """What a generation gave: the last answer, and what all its rounds came to.

    Attributes:
        completion: the last answer: that whose calls failed or wait, when ``outcome`` says so.
        messages: what was added to the history, the input first.
        usage: tokens of all rounds together; a counter that one of them did not report is ``None``.
        rounds: answers that came.
        tool_calls: calls whose results came, failed ones too.
        outcome: how it ended.
        awaiting: the calls that wait for approval.
    """

    completion: Completion = attrs.field(validator=instance_of(Completion))
    messages: tuple[Message, ...] = attrs.field(default=(), converter=_messages)
    usage: Usage = attrs.field(factory=Usage, validator=instance_of(Usage))
    rounds: int = attrs.field(default=1, validator=at_least(1))
    tool_calls: int = attrs.field(default=0, validator=at_least(0))
    outcome: GenerationOutcome = attrs.field(default=GenerationOutcome.ANSWERED, converter=outcome_of)
    awaiting: tuple[ToolCall, ...] = attrs.field(default=(), converter=_calls)

    @property
    def text(self) -> str:
        """The visible text of the last answer."""
        return self.completion.text

    @property
    def finish(self) -> FinishReason:
        """Why the last answer ended."""
        return self.completion.finish

    def parse(self, into: type[T]) -> T:
        """The last answer as a ``T``; see :meth:`Completion.parse`."""
        return self.completion.parse(into)

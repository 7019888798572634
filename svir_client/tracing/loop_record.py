"""What is reported of a generation and of its calls of tools, by the rules of ``record.py`` (50, Tracing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from svir_client.tracing.record import Outcome
    from svir_core.errors import ErrorKind
    from svir_core.generation import GenerationOutcome
    from svir_core.message import Role
    from svir_core.response import FinishReason, Usage


@attrs.frozen(kw_only=True)
class GenerationStart:
    """A generation begins, or goes on after it was stopped.

    Attributes:
        api: the wire API of the client: ``openai_chat``.
        model: the model that is asked for.
        input_role: who speaks in the turn that it starts with; ``None`` for one that goes on.
        message_count: messages of the history, that turn among them.
        tool_count: tools in its requests.
    """

    api: str
    model: str
    input_role: Role | None = None
    message_count: int
    tool_count: int


@attrs.frozen(kw_only=True)
class GenerationEnd:
    """A generation is over, without an error.

    Attributes:
        api, model: as at the start.
        outcome: how it ended; ``abandoned`` when it was cancelled or dropped.
        seconds: from the start, by a monotonic clock.
        model_rounds: answers that came.
        tool_calls: calls whose results came, failed ones too.
        finish_reason: why the last answer ended.
        usage: tokens of all rounds together; a counter that one of them did not report is not known.
    """

    api: str
    model: str
    outcome: GenerationOutcome | Outcome
    seconds: float
    model_rounds: int | None = None
    tool_calls: int | None = None
    finish_reason: FinishReason | None = None
    usage: Usage | None = None


@attrs.frozen(kw_only=True)
class GenerationFailure:
    """A generation is over, with an error.

    Attributes:
        api, model: as at the start.
        category: ``exception`` for an error of svir's, ``unknown_exception`` for any other.
        seconds, model_rounds, tool_calls, usage: as of :class:`GenerationEnd`.
        error_kind: the kind of an error of svir's.
        error_class: the name of its class.
    """

    api: str
    model: str
    category: str
    seconds: float
    model_rounds: int | None = None
    tool_calls: int | None = None
    usage: Usage | None = None
    error_kind: ErrorKind | None = None
    error_class: str


@attrs.frozen(kw_only=True)
class ToolStart:
    """A call of a tool begins; also one of a tool that is not there, and one that is not run but answered at once.

    Attributes:
        round: that of the answer which asked for it.
    """

    round: int


@attrs.frozen(kw_only=True)
class ToolEnd:
    """A call of a tool is over.

    Attributes:
        round: as at the start.
        outcome: ``completed`` when there is a result, ``failed`` when the toolbox raised an error, ``abandoned`` when
            the call was cancelled.
        is_error: whether the result is flagged as an error; ``None`` without one.
        seconds: from the start, by a monotonic clock.
        error_class: the name of the class of what was raised in place of a result.
    """

    round: int
    outcome: Outcome
    is_error: bool | None = None
    seconds: float
    error_class: str | None = None


LoopAttributes = GenerationStart | GenerationEnd | GenerationFailure | ToolStart | ToolEnd

"""One generation, from its start to the one end that is reported of it (50, Tracing; 51 section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from svir_client.tracing.content import error_words, message_form
from svir_client.tracing.loop_record import GenerationEnd, GenerationFailure, GenerationStart
from svir_client.tracing.record import Content, EventType, Level, Outcome, clip
from svir_client.tracing.run import Enclosing, Learned, Run, enclosing, inside
from svir_client.tracing.span import Span
from svir_client.tracing.trace import Trace
from svir_client.tracing.traced_toolbox import TracedToolbox, report_not_run
from svir_core.errors import SvirError
from svir_core.generation import GenerationOutcome
from svir_core.redact import Redactor
from svir_core.response import Usage

if TYPE_CHECKING:
    from svir_client.layers.layer import Layer
    from svir_client.tools.toolbox import Toolbox
    from svir_core.generation import Generation, Progress
    from svir_core.message import Message, ToolCall, ToolResult
    from svir_core.request import Request


class TracedGeneration:
    """Reports a generation to each ``Trace`` among the layers of its client; without one it does nothing.

    It is for what has passed the checks and has its session: nothing is reported before :meth:`start`. Every start has
    one end: by :meth:`end`, by :meth:`failed`, or as ``abandoned`` when it is dropped.
    """

    __slots__ = (
        "__weakref__",
        "_api",
        "_learned",
        "_model",
        "_reportings",
        "_run_id",
        "_session_id",
        "_span",
    )

    def __init__(
        self,
        layers: Iterable[Layer],
        api: str,
        model: str,
        session_id: str | None,
        run_id: str,
        *,
        redactor: Redactor,
    ) -> None:
        """``layers`` of the client, the name of its wire API, and the model that is asked for. ``redactor`` has the
        secrets that are known before a call is made; those of each call are learned from it."""
        self._reportings = tuple(layer._reporting for layer in layers if isinstance(layer, Trace))
        self._api = api
        self._model = clip(model)
        self._session_id = None if session_id is None else clip(session_id)
        self._run_id = clip(run_id)
        self._learned = Learned(redactor)
        around = enclosing()
        self._span = self._part(model, None, None if around is None else around.span_id)

    def start(self, input: Message | None, request: Request) -> None:
        """It begins with ``input``, the last message of ``request``, which is the first request of the generation.

        ``None`` for one that goes on.
        """
        attributes = GenerationStart(
            api=self._api,
            model=self._model,
            input_role=None if input is None else input.role,
            message_count=len(request.messages),
            tool_count=len(request.tools),
        )

        def said(redactor: Redactor) -> Content:
            return Content() if input is None else Content(input=(message_form(input, redactor),))

        self._span.start(self._reportings, EventType.GENERATION_START, attributes, said)

    def round(self, number: int) -> AbstractContextManager[None]:
        """What is around the opening of the call of the model: what a ``Trace`` then reports of it is part of this
        generation. Entered and left in one task, and not held across a ``yield``."""
        run = Run(run_id=self._run_id, session_id=self._session_id, round=number, learned=self._learned)
        return inside(Enclosing(self._span.span_id, run))

    def tools(self, toolbox: Toolbox, round: int) -> Toolbox:
        """``toolbox``, its calls reported as those of ``round``. It has the methods of a toolbox alone."""
        return TracedToolbox(toolbox, self._reportings, self._tool, round) if self._reportings else toolbox

    def not_run(self, call: ToolCall, result: ToolResult, round: int) -> None:
        """``call``, of the answer of ``round``, has ``result`` of no toolbox: it was cut off, or got a no."""
        if self._reportings:
            report_not_run(self._tool(call.name, call.id), self._reportings, call, result, round)

    def end(self, generation: Generation) -> None:
        """It is over, and did not fail."""
        outcome = generation.outcome
        level = Level.INFO if outcome is GenerationOutcome.ANSWERED else Level.WARNING
        self._end(outcome, level, generation)

    def failed(self, error: BaseException | None, progress: Progress) -> None:
        """It is over with ``error``, and came as far as ``progress`` says. What is no ``Exception``, a cancellation,
        abandons it, and so does ``None``: it was left."""
        if not isinstance(error, Exception):
            self._end(Outcome.ABANDONED, Level.WARNING, progress)
            return
        kind = error.kind if isinstance(error, SvirError) else None
        name, words, figures = clip(type(error).__name__), error_words(error), self._figures(progress)
        self._span.end(
            EventType.ERROR,
            Level.ERROR,
            lambda seconds: GenerationFailure(
                category="unknown_exception" if kind is None else "exception",
                seconds=seconds,
                error_kind=kind,
                error_class=name,
                **figures,
            ),
            lambda redactor: Content(exception=redactor.text(words)),
        )

    def __del__(self) -> None:
        span = getattr(self, "_span", None)
        if span is not None and span.is_open:
            self._end(Outcome.ABANDONED, Level.WARNING, None)

    def _end(self, outcome: GenerationOutcome | Outcome, level: Level, come: Generation | Progress | None) -> None:
        completion = None if come is None else come.completion
        finish = None if completion is None else completion.finish
        figures = self._figures(come)
        self._span.end(
            EventType.GENERATION_END,
            level,
            lambda seconds: GenerationEnd(outcome=outcome, seconds=seconds, finish_reason=finish, **figures),
            None,
        )

    def _figures(self, come: Generation | Progress | None) -> dict[str, Any]:
        """What both ends have; what nobody told is left out."""
        about: dict[str, Any] = {"api": self._api, "model": self._model}
        if come is not None:
            usage = None if come.usage == Usage() else come.usage
            about |= {"model_rounds": come.rounds, "tool_calls": come.tool_calls, "usage": usage}
        return about

    def _tool(self, name: str, call_id: str) -> Span:
        return self._part(name, call_id, self._span.span_id)

    def _part(self, name: str, operation_id: str | None, parent_id: str | None) -> Span:
        return Span(
            name=name,
            run_id=self._run_id,
            session_id=self._session_id,
            operation_id=operation_id,
            parent_id=parent_id,
            learned=self._learned,
        )

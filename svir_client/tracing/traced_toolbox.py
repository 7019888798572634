"""A toolbox whose calls are reported (50, Tracing)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs

from svir_client.tools.context import ToolContext
from svir_client.tracing.content import arguments_form, error_words, result_form
from svir_client.tracing.loop_record import ToolEnd, ToolStart
from svir_client.tracing.record import Content, EventType, Level, Outcome, clip
from svir_client.tracing.run import Enclosing, inside
from svir_core.message import ToolResult

if TYPE_CHECKING:
    from svir_client.tools.toolbox import Toolbox
    from svir_client.tracing.reporting import Reporting
    from svir_client.tracing.span import ContentOf, Span
    from svir_core.message import ToolCall
    from svir_core.redact import Redactor
    from svir_core.request import Tool


class TracedToolbox:
    """The tools of another toolbox, run by it."""

    def __init__(
        self,
        toolbox: Toolbox,
        reportings: tuple[Reporting, ...],
        span: Callable[[str, str], Span],
        round: int,
    ) -> None:
        """``span`` makes that of a call, by the tool's name and the call's id; ``round`` is that of the answer."""
        self._toolbox = toolbox
        self._reportings = reportings
        self._captures = any(reporting.captures for reporting in reportings)
        self._span = span
        self._round = round

    def tools(self) -> Iterable[Tool]:
        """Those of the other one."""
        return self._toolbox.tools()

    async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
        """What the other one gives or raises."""
        round = self._round
        hidden: list[str] = []
        span = self._span(call.name, call.id)
        _began(span, self._reportings, call, round)
        try:
            with inside(Enclosing(span.span_id)):
                result = await self._toolbox.call(call, self._listening(context, hidden))
        except Exception as error:
            words = error_words(error)
            _ended(span, round, Outcome.FAILED, error, lambda redactor: Content(exception=redactor.text(words)))
            raise
        except BaseException as error:
            _ended(span, round, Outcome.ABANDONED, error, None)
            raise
        given: object = result  # a toolbox of the caller's may give anything, and whoever asked for the call refuses it
        if isinstance(given, ToolResult):
            _gave(span, round, given, hidden)
        else:
            _ended(span, round, Outcome.FAILED, None, None)
        return result

    def _listening(self, context: ToolContext | None, hidden: list[str]) -> ToolContext | None:
        """``context``, with an ``on_error`` that tells us too; as it is when nobody is to know."""
        if not self._captures:
            return context
        given = context or ToolContext()
        outer = given.on_error

        def tell(error: Exception) -> None:
            hidden.append(error_words(error))
            if outer is not None:
                outer(error)

        return attrs.evolve(given, on_error=tell)


def report_not_run(
    span: Span, reportings: tuple[Reporting, ...], call: ToolCall, result: ToolResult, round: int
) -> None:
    """``call`` has ``result``, and no toolbox had a part in it."""
    _began(span, reportings, call, round)
    _gave(span, round, result, [])


def _began(span: Span, reportings: tuple[Reporting, ...], call: ToolCall, round: int) -> None:
    span.start(
        reportings,
        EventType.TOOL_START,
        ToolStart(round=round),
        lambda redactor: Content(arguments=arguments_form(call, redactor)),
    )


def _gave(span: Span, round: int, result: ToolResult, hidden: list[str]) -> None:
    def said(redactor: Redactor) -> Content:
        return Content(
            result=result_form(result, redactor),
            exception=redactor.text("\n".join(hidden)) if hidden else None,
        )

    span.end(
        EventType.TOOL_END,
        Level.WARNING if result.is_error else Level.INFO,
        lambda seconds: ToolEnd(round=round, outcome=Outcome.COMPLETED, is_error=result.is_error, seconds=seconds),
        said,
    )


def _ended(span: Span, round: int, outcome: Outcome, error: BaseException | None, content: ContentOf | None) -> None:
    """There is no result."""
    name = None if error is None else clip(type(error).__name__)
    span.end(
        EventType.TOOL_END,
        Level.WARNING,
        lambda seconds: ToolEnd(round=round, outcome=outcome, seconds=seconds, error_class=name),
        content,
    )

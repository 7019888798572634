"""What begins and ends, told to several ``Trace`` layers at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from svir_client.tracing.record import Attributes, Content, EventType, Level, TraceEvent, clip
from svir_client.tracing.reporting import Begun, Reporting
from svir_client.tracing.run import Learned, new_span_id

if TYPE_CHECKING:
    from svir_core.redact import Redactor

ContentOf = Callable[["Redactor"], Content]
"""Makes what was said, known secrets taken out."""


class Span:
    """A part of a run. Its end is reported once, and only after its start.

    Attributes:
        span_id: its own.
    """

    __slots__ = (
        "_begun",
        "_learned",
        "_name",
        "_open",
        "_operation_id",
        "_parent_id",
        "_run_id",
        "_session_id",
        "span_id",
    )

    def __init__(
        self,
        *,
        name: str,
        run_id: str,
        session_id: str | None,
        operation_id: str | None,
        parent_id: str | None,
        learned: Learned,
    ) -> None:
        self.span_id = new_span_id()
        self._name = name
        self._run_id = run_id
        self._session_id = session_id
        self._operation_id = operation_id
        self._parent_id = parent_id
        self._learned = learned
        self._open = False
        self._begun: tuple[tuple[Reporting, Begun], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it has begun, and not ended."""
        return self._open

    def start(
        self, reportings: Iterable[Reporting], type: EventType, attributes: Attributes, content: ContentOf | None
    ) -> None:
        """It begins, for each of ``reportings``."""
        self._begun = tuple((reporting, Begun(reporting)) for reporting in reportings)
        self._open = True
        for reporting, begun in self._begun:
            self._report(reporting, begun.time, type, Level.INFO, attributes, content)

    def end(
        self, type: EventType, level: Level, attributes: Callable[[float], Attributes], content: ContentOf | None
    ) -> None:
        """It is over; ``attributes`` are given the seconds since its start. What comes after the first is ignored."""
        if not self._open:
            return
        self._open = False
        for reporting, begun in self._begun:
            seconds = begun.seconds()
            self._report(reporting, begun.time + seconds, type, level, attributes(seconds), content)

    def _report(
        self,
        reporting: Reporting,
        time: float,
        type: EventType,
        level: Level,
        attributes: Attributes,
        content: ContentOf | None,
    ) -> None:
        redactor = reporting.redactor | self._learned.redactor
        bare = TraceEvent(
            level=level,
            type=type,
            time=time,
            run_id=self._run_id,
            span_id=self.span_id,
            parent_id=self._parent_id,
            name=clip(redactor.text(self._name)),
            attributes=attributes,
            session_id=self._session_id,
            operation_id=None if self._operation_id is None else clip(redactor.text(self._operation_id)),
        )
        reporting.write(bare, content(redactor) if content is not None and reporting.captures else None)

"""One call, from its start to the one end that is reported of it (30 section 5)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from svir_client.tracing.content import content_of
from svir_client.tracing.record import (
    Attributes,
    Content,
    EventType,
    Level,
    Outcome,
    ProviderEnd,
    ProviderStart,
    TraceEvent,
    clip,
)
from svir_client.tracing.reporting import Begun, Reporting
from svir_client.tracing.run import enclosing, new_span_id
from svir_core.errors import SvirError
from svir_core.event import Completed, Event
from svir_core.redact import Redactor
from svir_core.request import Request
from svir_core.response import Completion, FinishReason, Partial

if TYPE_CHECKING:
    from svir_client.layers.chain import Next
    from svir_client.stream import Stream

LEVELS = {Outcome.COMPLETED: Level.INFO, Outcome.ABANDONED: Level.WARNING, Outcome.FAILED: Level.ERROR}


class TracedCall:
    """Reports its start when it is made, and its end once: by :meth:`raised`, when its stream is closed, or when
    that is dropped. It never holds the stream, so that dropping that is noticed at once."""

    __slots__ = (
        "_api",
        "_begun",
        "_completion",
        "_first",
        "_model",
        "_over",
        "_parent_id",
        "_redactor",
        "_reporting",
        "_request",
        "_request_id",
        "_retries",
        "_run",
        "_run_id",
        "_span_id",
        "_status",
        "_whole",
    )

    def __init__(self, reporting: Reporting, request: Request, api: str) -> None:
        self._over = True  # until the start is reported
        self._reporting = reporting
        self._redactor = reporting.redactor
        self._request = request if reporting.captures else None
        around = enclosing()
        self._parent_id = None if around is None else around.span_id
        self._run = None if around is None else around.run
        self._run_id = uuid.uuid4().hex if self._run is None else self._run.run_id
        self._span_id = new_span_id()
        self._api = api
        self._model = clip(request.model)
        self._retries = 0
        self._status: int | None = None
        self._request_id: str | None = None
        self._first: float | None = None
        self._whole: float | None = None
        self._completion: Completion | None = None
        self._begun = Begun(reporting)
        start = ProviderStart(
            api=api,
            model=self._model,
            round=self._round,
            message_count=len(request.messages),
            tool_count=len(request.tools),
        )
        self._report(EventType.PROVIDER_START, Level.INFO, 0.0, start)
        self._over = False

    def raised(self, error: BaseException, next: Next) -> None:
        """There is no stream."""
        self._learn(next)
        self._end(Outcome.FAILED if isinstance(error, Exception) else Outcome.ABANDONED, error)

    def opened(self, stream: Stream, next: Next) -> None:
        """There is one: its end is the call's."""
        self._learn(next)
        self._learn_secrets(stream._redactor())  # of another client, behind a Fallback
        self._status = stream.status
        self._request_id = stream.request_id
        stream.inspect(self._seen)
        stream.on_close(self._closed)

    def __del__(self) -> None:
        if not getattr(self, "_over", True):
            self._end(Outcome.ABANDONED, None)

    def _learn(self, next: Next) -> None:
        self._retries = max(next.sent - 1, 0)
        self._request_id = next.request_id
        self._learn_secrets(next.redactor)

    def _learn_secrets(self, redactor: Redactor) -> None:
        self._redactor |= redactor
        if self._run is not None:
            self._run.learned.learn(redactor)

    @property
    def _round(self) -> int | None:
        return None if self._run is None else self._run.round

    def _seen(self, event: Event) -> None:
        if isinstance(event, Completed):
            self._whole = self._begun.seconds()
            self._completion = event.completion
        elif self._first is None:
            self._first = self._begun.seconds()

    def _closed(self, stream: Stream) -> None:
        if self._completion is not None:
            self._end(Outcome.COMPLETED, None)
        elif stream.error is not None:
            self._end(Outcome.FAILED, stream.error)
        else:
            self._end(Outcome.ABANDONED, None)

    def _end(self, outcome: Outcome, error: BaseException | None) -> None:
        if self._over:
            return
        self._over = True
        seconds = self._begun.seconds() if self._whole is None else self._whole
        fields: dict[str, Any] = {
            "api": self._api,
            "model": self._model,
            "round": self._round,
            "outcome": outcome,
            "seconds": seconds,
            "retries": self._retries,
            "first_token_seconds": self._first,
            "provider_request_id": self._named(self._request_id),
            "status": self._status,
        }
        if self._completion is not None:
            fields |= self._answered(self._completion)
        elif error is not None:
            fields |= self._failed(error)
        request, self._request = self._request, None
        content = None if request is None else content_of(request, self._completion, error, self._redactor)
        self._report(EventType.PROVIDER_END, LEVELS[outcome], seconds, ProviderEnd(**fields), content)

    def _answered(self, completion: Completion) -> dict[str, Any]:
        return {
            "tokens_per_second": completion.tokens_per_second,
            "finish_reason": completion.finish,
            "requires_continuation": completion.finish is FinishReason.PAUSE,
            "tool_call_count": len(completion.calls),
            "usage": completion.usage,
            "answered_model": self._named(completion.model),
            "response_id": self._named(completion.id),
            "anomaly_count": completion.anomaly_count,
        }

    def _failed(self, error: BaseException) -> dict[str, Any]:
        fields: dict[str, Any] = {"error_class": clip(type(error).__name__)}
        if isinstance(error, SvirError):
            partial = error.partial or Partial()
            fields |= {
                "usage": partial.usage,
                "answered_model": self._named(partial.model),
                "response_id": self._named(partial.id),
                "anomaly_count": len(error.anomalies),
                "status": self._status if error.status is None else error.status,
                "error_kind": error.kind,
                "retryable": error.retryable,
            }
        return fields

    def _named(self, name: str | None) -> str | None:
        """A name that the server gave, fit to be kept."""
        return None if name is None else clip(self._redactor.text(name))

    def _report(
        self, type: EventType, level: Level, after: float, attributes: Attributes, content: Content | None = None
    ) -> None:
        bare = TraceEvent(
            level=level,
            type=type,
            time=self._begun.time + after,
            run_id=self._run_id,
            span_id=self._span_id,
            parent_id=self._parent_id,
            name=self._model,
            attributes=attributes,
            session_id=None if self._run is None else self._run.session_id,
            operation_id=None if self._run is None else self._run.operation_id,
        )
        self._reporting.write(bare, content)

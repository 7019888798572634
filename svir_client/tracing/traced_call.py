"""One call, from its start to the one end that is reported of it (30 section 5)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from svir_client.redact import Redactor
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
from svir_client.tracing.sink import Sinks
from svir_core.errors import SvirError
from svir_core.event import Completed, Event
from svir_core.request import Request
from svir_core.response import Completion, FinishReason, Partial

if TYPE_CHECKING:
    from svir_client.layers.chain import Next
    from svir_client.stream import Stream

LEVELS = {Outcome.COMPLETED: Level.INFO, Outcome.ABANDONED: Level.WARNING, Outcome.FAILED: Level.ERROR}


@attrs.frozen(repr=False)
class Reporting:
    """Where and how a ``Trace`` reports: its sinks, its clocks, its secrets, and whether content is captured."""

    sinks: Sinks
    capture: bool
    redactor: Redactor
    clock: Callable[[], float]
    now: Callable[[], float]

    def seconds(self, otherwise: float) -> float:
        """A moment of the clock; ``otherwise`` when that fails."""
        return self.sinks.read(self.clock, otherwise)


class TracedCall:
    """Reports its start when it is made, and its end once: by :meth:`raised`, when its stream is closed, or when
    that is dropped. It never holds the stream, so that dropping that is noticed at once."""

    __slots__ = (
        "_api",
        "_began",
        "_completion",
        "_first",
        "_model",
        "_over",
        "_redactor",
        "_reporting",
        "_request",
        "_request_id",
        "_retries",
        "_run_id",
        "_started",
        "_status",
        "_whole",
    )

    def __init__(self, reporting: Reporting, request: Request, api: str) -> None:
        self._over = True  # until the start is reported
        self._reporting = reporting
        self._redactor = reporting.redactor
        self._request = request if reporting.capture and reporting.sinks.content else None
        self._run_id = uuid.uuid4().hex
        self._api = api
        self._model = clip(request.model)
        self._retries = 0
        self._status: int | None = None
        self._request_id: str | None = None
        self._first: float | None = None
        self._whole: float | None = None
        self._completion: Completion | None = None
        self._started = reporting.sinks.read(reporting.now, time.time())
        self._began = reporting.seconds(0.0)
        start = ProviderStart(
            api=api, model=self._model, message_count=len(request.messages), tool_count=len(request.tools)
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
        self._redactor |= stream._redactor()  # of another client, behind a Fallback
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
        self._redactor |= next.redactor

    def _seen(self, event: Event) -> None:
        if isinstance(event, Completed):
            self._whole = self._reporting.seconds(self._began)
            self._completion = event.completion
        elif self._first is None:
            self._first = self._reporting.seconds(self._began)

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
        reporting = self._reporting
        seconds = (reporting.seconds(self._began) if self._whole is None else self._whole) - self._began
        fields: dict[str, Any] = {
            "api": self._api,
            "model": self._model,
            "outcome": outcome,
            "seconds": seconds,
            "retries": self._retries,
            "first_token_seconds": None if self._first is None else self._first - self._began,
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
            time=self._started + after,
            run_id=self._run_id,
            name=self._model,
            attributes=attributes,
        )
        self._reporting.sinks.write(bare if content is None else attrs.evolve(bare, content=content), bare)

"""Events as spans and metrics of OpenTelemetry, by its GenAI semantic conventions (30 section 5).

Two rules hold for it. A span is never made current, for a stream may be read in any task: its parent is the span of
what it is part of, else what was current when it began. A span is ended once, by the end that every start has.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import attrs

from svir_client.tracing import genai
from svir_client.tracing.loop_record import GenerationEnd, GenerationFailure, GenerationStart, ToolEnd, ToolStart
from svir_client.tracing.record import ProviderEnd, ProviderStart, TraceEvent, plain
from svir_client.tracing.sinks.span_attributes import (
    End,
    Start,
    about,
    began,
    ended,
    error_type,
    is_failure,
    optional,
    said,
    span_name,
)
from svir_client.unique import Unique
from svir_core.check import expect
from svir_core.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

SCOPE: Final = "svir"


class OpenTelemetrySink(Unique):
    """A span per call of a model, generation and call of a tool, and the histograms of the conventions."""

    def __init__(self, tracer: Tracer, meter: Meter, content: bool) -> None:
        from opentelemetry import trace  # imported late: an extra

        self._api = trace
        self._tracer = tracer
        self._open: dict[str, _Open] = {}
        self._lock = threading.RLock()
        seconds, tokens = list(genai.SECONDS_BOUNDARIES), list(genai.TOKEN_BOUNDARIES)
        self._duration = meter.create_histogram(
            genai.DURATION, "s", "GenAI operation duration.", explicit_bucket_boundaries_advisory=seconds
        )
        self._first = meter.create_histogram(
            genai.TIME_TO_FIRST_CHUNK, "s", "Time to the first chunk.", explicit_bucket_boundaries_advisory=seconds
        )
        self._tokens = meter.create_histogram(
            genai.TOKEN_USAGE, "{token}", "Number of tokens used.", explicit_bucket_boundaries_advisory=tokens
        )
        self.content = content

    def write(self, event: TraceEvent) -> None:
        """Begin or end a span."""
        attributes = event.attributes
        if isinstance(attributes, ProviderStart | GenerationStart | ToolStart):
            self._start(event, attributes)
        else:
            self._end(event, attributes)

    def _start(self, event: TraceEvent, start: Start) -> None:
        values = began(event, start)
        current = self._api.get_current_span()
        parent = self._parent(event, current)
        span = self._tracer.start_span(
            span_name(values),
            context=None if parent is None else self._api.set_span_in_context(parent),
            kind=self._api.SpanKind.CLIENT if isinstance(start, ProviderStart) else self._api.SpanKind.INTERNAL,
            attributes=values if event.content is None else values | said(event.content, start),
            start_time=nanoseconds(event.time),
        )
        with self._lock:
            self._open[event.span_id] = _Open(span, event.run_id, current)

    def _parent(self, event: TraceEvent, current: Span) -> Span | None:
        """The span of what ``event`` is part of. Another run, which a tool began, is part of the tool's call, unless
        the tool has made a span of its own current; ``None`` is whatever is current."""
        with self._lock:
            around = None if event.parent_id is None else self._open.get(event.parent_id)
        if around is None or (around.run_id != event.run_id and around.current is not current):
            return None
        return around.span

    def _end(self, event: TraceEvent, end: End) -> None:
        with self._lock:
            opened = self._open.pop(event.span_id, None)
        if opened is None:  # its start could not be reported
            return
        span = opened.span
        try:
            span.set_attributes(ended(end))
            if event.content is not None:
                span.set_attributes(said(event.content, end))
            if is_failure(end):
                span.set_status(self._api.StatusCode.ERROR)
            if not isinstance(end, ToolEnd):
                self._measure(span, end)
        finally:
            span.end(nanoseconds(event.time))

    def _measure(self, span: Span, end: ProviderEnd | GenerationEnd | GenerationFailure) -> None:
        """Tokens are counted per call of the model alone: those of a generation are the same ones."""
        context = self._api.set_span_in_context(span)  # for exemplars; it is made current nowhere
        if isinstance(end, ProviderEnd):
            attributes = about(end.api, end.model) | optional({genai.RESPONSE_MODEL: end.answered_model})
            tokens = {} if end.usage is None else plain(end.usage)
            for kind in ("input", "output"):
                if kind in tokens:
                    self._tokens.record(tokens[kind], attributes | {genai.TOKEN_TYPE: kind}, context)
            if end.first_token_seconds is not None:
                self._first.record(end.first_token_seconds, attributes, context)
        else:
            attributes = about(end.api, end.model, genai.LOOP_OPERATIONS["generation"])
        self._duration.record(end.seconds, attributes | optional({genai.ERROR_TYPE: error_type(end)}), context)


@attrs.frozen
class _Open:
    """A span that has not ended, its run, and what was current when it began."""

    span: Span
    run_id: str
    current: Span


def opentelemetry(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
) -> OpenTelemetrySink:
    """A sink that reports to OpenTelemetry, by default to the global providers; needs the extra ``opentelemetry``.

    docs/tracing.md has the table of attributes. Raises ``ConfigError`` when the library is not installed.
    """
    try:
        from opentelemetry import metrics, trace  # imported late: an extra
    except ImportError:
        pass
    else:
        tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        return OpenTelemetrySink(tracer, meter, expect(content, bool, "content"))
    raise ConfigError("opentelemetry is not installed: pip install 'svir-client[opentelemetry]'")


def nanoseconds(seconds: float) -> int:
    """Seconds since the epoch as OpenTelemetry counts them; to the microsecond: a float holds no more."""
    return round(seconds * 1e6) * 1000

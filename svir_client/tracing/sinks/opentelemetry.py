"""Events as spans and metrics of OpenTelemetry, by its GenAI semantic conventions (30 section 5).

Two rules hold for it. A span is never made current: its parent is what was current at the call, and a stream may be
read in any task. A span is ended once, by the end that every start has.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from svir_client.tracing import genai
from svir_client.tracing.record import Content, Outcome, ProviderEnd, ProviderStart, TraceEvent, plain, sound
from svir_client.unique import Unique
from svir_core.check import expect
from svir_core.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

SCOPE: Final = "svir"

Values = dict[str, str | int | float | bool | list[str]]


class OpenTelemetrySink(Unique):
    """A span of kind CLIENT per call, and the histograms of the conventions."""

    def __init__(self, tracer: Tracer, meter: Meter, content: bool) -> None:
        from opentelemetry import trace  # imported late: an extra

        self._api = trace
        self._tracer = tracer
        self._spans: dict[tuple[str, str | None], Span] = {}
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
        """Begin or end a span, in the context that is current."""
        match event.attributes:
            case ProviderStart() as start:
                self._start(event, start)
            case ProviderEnd() as end:
                self._end(event, end)

    def _start(self, event: TraceEvent, start: ProviderStart) -> None:
        attributes = about(start.api, start.model) | {genai.REQUEST_STREAM: True}
        if event.session_id is not None:
            attributes[genai.CONVERSATION_ID] = sound(event.session_id)
        span = self._tracer.start_span(
            f"{attributes[genai.OPERATION_NAME]} {attributes[genai.REQUEST_MODEL]}",
            kind=self._api.SpanKind.CLIENT,
            attributes=attributes,
            start_time=nanoseconds(event.time),
        )
        with self._lock:
            self._spans[event.run_id, event.operation_id] = span

    def _end(self, event: TraceEvent, end: ProviderEnd) -> None:
        with self._lock:
            span = self._spans.pop((event.run_id, event.operation_id), None)
        if span is None:  # its start could not be reported
            return
        try:
            span.set_attributes(ended(end))
            if event.content is not None:
                span.set_attributes(said(event.content, end))
            if end.outcome is Outcome.FAILED:
                span.set_status(self._api.StatusCode.ERROR)
            self._measure(span, end)
        finally:
            span.end(nanoseconds(event.time))

    def _measure(self, span: Span, end: ProviderEnd) -> None:
        context = self._api.set_span_in_context(span)  # for exemplars; it is made current nowhere
        attributes = about(end.api, end.model) | _optional({genai.RESPONSE_MODEL: end.answered_model})
        tokens = {} if end.usage is None else plain(end.usage)
        for kind in ("input", "output"):
            if kind in tokens:
                self._tokens.record(tokens[kind], attributes | {genai.TOKEN_TYPE: kind}, context)
        if end.first_token_seconds is not None:
            self._first.record(end.first_token_seconds, attributes, context)
        self._duration.record(end.seconds, attributes | _optional({genai.ERROR_TYPE: error_type(end)}), context)


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


def about(api: str, model: str) -> Values:
    """What every span and every measurement says."""
    return {
        genai.OPERATION_NAME: genai.OPERATIONS.get(api, "chat"),
        genai.PROVIDER_NAME: genai.PROVIDERS.get(api, api),
        genai.REQUEST_MODEL: sound(model),
    }


def error_type(end: ProviderEnd) -> str | None:
    """The kind of an error of ours, else the class of what was raised; ``None`` when the answer came whole."""
    if end.outcome is Outcome.COMPLETED:
        return None
    return end.error_class or end.outcome.value if end.error_kind is None else end.error_kind.value


def ended(end: ProviderEnd) -> Values:
    """What the span of a call says at its end."""
    tokens = {} if end.usage is None else plain(end.usage)
    attributes = _optional(
        {
            genai.OUTCOME: end.outcome.value,
            genai.ERROR_TYPE: error_type(end),
            genai.RESPONSE_MODEL: end.answered_model,
            genai.RESPONSE_ID: end.response_id,
            genai.RESPONSE_TIME_TO_FIRST_CHUNK: end.first_token_seconds,
            genai.HTTP_STATUS: end.status,
            genai.RESEND_COUNT: end.retries or None,
            genai.REQUEST_ID: end.provider_request_id,
            genai.TOKENS_PER_SECOND: end.tokens_per_second,
            **{name: tokens.get(field) for field, name in genai.USAGE.items()},
        }
    )
    if end.finish_reason is not None:
        attributes[genai.RESPONSE_FINISH_REASONS] = [end.finish_reason.value]
    return attributes


def said(content: Content, end: ProviderEnd) -> Values:
    """What was said, as JSON. Of the server's words the conventions know nothing."""
    answer = {"role": "assistant", "parts": list(content.output)}
    if end.finish_reason is not None:
        answer["finish_reason"] = end.finish_reason.value
    return _optional(
        {
            genai.SYSTEM_INSTRUCTIONS: content.system and json.dumps([{"type": "text", "content": content.system}]),
            genai.INPUT_MESSAGES: json.dumps(list(content.input)),
            genai.OUTPUT_MESSAGES: json.dumps([answer]) if content.output else None,
            genai.SERVER_MESSAGE: content.server_message,
        }
    )


def nanoseconds(seconds: float) -> int:
    """Seconds since the epoch as OpenTelemetry counts them; to the microsecond: a float holds no more."""
    return round(seconds * 1e6) * 1000


def _optional(values: Mapping[str, Any]) -> Values:
    """Those that are there, as strings that an exporter can write."""
    return {name: sound(value) for name, value in values.items() if value is not None}

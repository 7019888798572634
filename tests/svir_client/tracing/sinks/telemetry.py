"""What the tests of the OpenTelemetry sink share: providers of one test, and what they were given."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from svir_client import Trace
from svir_client.tracing import OpenTelemetrySink, opentelemetry


class Telemetry:
    """Providers of one test, and what they were given."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def layer(self, *, content: bool = False, **options: Any) -> Trace:
        return Trace(self.sink(content=content), **options)

    def sink(self, *, content: bool = False) -> OpenTelemetrySink:
        return opentelemetry(tracer_provider=self.tracers, meter_provider=self.meters, content=content)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._spans.get_finished_spans()

    @property
    def span(self) -> ReadableSpan:
        (span,) = self.spans
        return span

    def points(self) -> dict[str, list[HistogramDataPoint]]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: [point for point in metric.data.data_points if isinstance(point, HistogramDataPoint)]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()

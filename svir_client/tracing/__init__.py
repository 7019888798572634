"""Tracing: what each call and each generation was, told to sinks (30 section 5; 50, Tracing)."""

from svir_client.tracing.loop_record import GenerationEnd, GenerationFailure, GenerationStart, ToolEnd, ToolStart
from svir_client.tracing.record import (
    Attributes,
    Content,
    EventType,
    Level,
    Outcome,
    ProviderEnd,
    ProviderStart,
    TraceEvent,
)
from svir_client.tracing.sink import Sink
from svir_client.tracing.sinks.console import ConsoleSink, console
from svir_client.tracing.sinks.file import FileSink, file
from svir_client.tracing.sinks.function import FunctionSink, function
from svir_client.tracing.sinks.memory import MemorySink, memory
from svir_client.tracing.sinks.opentelemetry import OpenTelemetrySink, opentelemetry
from svir_client.tracing.sinks.syslog import SyslogSink, syslog
from svir_client.tracing.trace import Trace

__all__ = (
    # the layer
    "Trace",
    # what it tells
    "Attributes",
    "Content",
    "EventType",
    "GenerationEnd",
    "GenerationFailure",
    "GenerationStart",
    "Level",
    "Outcome",
    "ProviderEnd",
    "ProviderStart",
    "ToolEnd",
    "ToolStart",
    "TraceEvent",
    # whom
    "ConsoleSink",
    "FileSink",
    "FunctionSink",
    "MemorySink",
    "OpenTelemetrySink",
    "Sink",
    "SyslogSink",
    "console",
    "file",
    "function",
    "memory",
    "opentelemetry",
    "syslog",
)

"""svir's client: a request in, a typed answer out, on asyncio and trio, or without an event loop."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from svir_client.client import AsyncClient
from svir_client.layers import Fallback, Layer, Limit, Next, Retry, Timeout, Until, wrap
from svir_client.parsed import Parsed
from svir_client.partial import PartialItems, PartialStream
from svir_client.rate_limit import RateLimit
from svir_client.raw import RawStream
from svir_client.stream import Stream, TextStream
from svir_client.transport import Transport, TransportResponse
from svir_core.compat import Compatibility

if TYPE_CHECKING:
    from svir_client.function_model import FunctionModel
    from svir_client.generation import (
        GenerationEvent,
        GenerationStream,
        GenerationTextStream,
        RoundEvent,
        RoundResults,
        generate,
        generate_stream,
        progress_of,
        resume,
        resume_stream,
    )
    from svir_client.models import Capability, ModelDescriptor
    from svir_client.session import Session, SessionState, SessionStore, SqliteStore
    from svir_client.sync import Client, SyncPartialItems, SyncPartialStream, SyncRawStream, SyncStream, SyncTextStream
    from svir_client.tools import Toolbox, ToolContext, ToolError, Tools, call_all
    from svir_client.tracing import Trace, TraceEvent, console

_LATE: Final = {
    "svir_client.function_model": ("FunctionModel",),
    "svir_client.models": ("Capability", "ModelDescriptor"),
    "svir_client.session": ("Session", "SessionState", "SessionStore", "SqliteStore"),
    "svir_client.generation": (
        "GenerationEvent",
        "GenerationStream",
        "GenerationTextStream",
        "RoundEvent",
        "RoundResults",
        "generate",
        "generate_stream",
        "progress_of",
        "resume",
        "resume_stream",
    ),
    "svir_client.sync": (
        "Client",
        "SyncPartialItems",
        "SyncPartialStream",
        "SyncRawStream",
        "SyncStream",
        "SyncTextStream",
    ),
    "svir_client.tools": ("Toolbox", "ToolContext", "ToolError", "Tools", "call_all"),
    "svir_client.tracing": ("Trace", "TraceEvent", "console"),
}
"""What is imported when somebody asks for it: most programs use none of these, and they cost a third of the import."""

__all__ = (
    # what a user makes
    "AsyncClient",
    "Client",
    "Compatibility",
    "FunctionModel",
    # rounds of model and tools: svir_client.sync has their blocking twins
    "GenerationEvent",
    "GenerationStream",
    "GenerationTextStream",
    "RoundEvent",
    "RoundResults",
    "generate",
    "generate_stream",
    "progress_of",
    "resume",
    "resume_stream",
    # layers
    "Fallback",
    "Layer",
    "Limit",
    "Next",
    "Retry",
    "Timeout",
    "Until",
    "wrap",
    # models: svir_client.models has the catalogue
    "Capability",
    "ModelDescriptor",
    # tracing: svir_client.tracing has the other sinks
    "Trace",
    "TraceEvent",
    "console",
    # conversations: svir_client.session has what a store of your own needs
    "Session",
    "SessionState",
    "SessionStore",
    "SqliteStore",
    # tools
    "ToolContext",
    "ToolError",
    "Toolbox",
    "Tools",
    "call_all",
    # what the client gives
    "Parsed",
    "PartialItems",
    "PartialStream",
    "RateLimit",
    "RawStream",
    "Stream",
    "SyncPartialItems",
    "SyncPartialStream",
    "SyncRawStream",
    "SyncStream",
    "SyncTextStream",
    "TextStream",
    # what a transport is
    "Transport",
    "TransportResponse",
)


def __getattr__(name: str) -> object:
    for module, names in _LATE.items():
        if name in names:
            value: object = getattr(importlib.import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

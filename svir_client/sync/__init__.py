"""The blocking twin of the client: the same names and signatures, for a thread without an event loop.

Nothing of a call is decided here. An ``AsyncClient`` does the work on one thread with an event loop; these
classes carry requests to it, and answers back (00 section 5, 30 section 6).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from svir_client.sync.client import Client
from svir_client.sync.partial import SyncPartialItems, SyncPartialStream
from svir_client.sync.stream import SyncRawStream, SyncStream, SyncTextStream

if TYPE_CHECKING:
    from svir_client.sync.generation import (
        SyncGenerationStream,
        SyncGenerationTextStream,
        generate,
        generate_stream,
        resume,
        resume_stream,
    )
    from svir_client.sync.open_session import SyncOpenSession, session

_LATE: Final = {
    "SyncGenerationStream": "generation",
    "SyncGenerationTextStream": "generation",
    "SyncOpenSession": "open_session",
    "generate": "generation",
    "generate_stream": "generation",
    "resume": "generation",
    "resume_stream": "generation",
    "session": "open_session",
}
"""What is imported when somebody asks for it: it brings tools, sessions and tracing, of which most need none."""

__all__ = (
    "Client",
    "SyncGenerationStream",
    "SyncGenerationTextStream",
    "SyncOpenSession",
    "SyncPartialItems",
    "SyncPartialStream",
    "SyncRawStream",
    "SyncStream",
    "SyncTextStream",
    "generate",
    "generate_stream",
    "resume",
    "resume_stream",
    "session",
)


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"svir_client.sync.{_LATE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

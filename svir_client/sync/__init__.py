"""The blocking twin of the client: the same names and signatures, for a thread without an event loop.

Nothing of a call is decided here. An ``AsyncClient`` does the work on one thread with an event loop; these
classes carry requests to it, and answers back (00 section 5, 30 section 6).
"""

from svir_client.sync.client import Client
from svir_client.sync.generation import (
    SyncGenerationStream,
    SyncGenerationTextStream,
    generate,
    generate_stream,
    resume,
    resume_stream,
)
from svir_client.sync.partial import SyncPartialItems, SyncPartialStream
from svir_client.sync.stream import SyncRawStream, SyncStream, SyncTextStream

__all__ = (
    "Client",
    "SyncGenerationStream",
    "SyncGenerationTextStream",
    "SyncPartialItems",
    "SyncPartialStream",
    "SyncRawStream",
    "SyncStream",
    "SyncTextStream",
    "generate",
    "generate_stream",
    "resume",
    "resume_stream",
)

"""The test kit: a scripted loopback server that says exactly what a test tells it to, and when.

It runs under asyncio and trio, never sleeps, and tells what it saw: every request, and when each
connection was closed. Source: 30 section 7.
"""

from svir_client.testing.record import RecordedConnection, RecordedRequest
from svir_client.testing.reply import End, Framing, Gate, Reply
from svir_client.testing.server import ScriptedServer

__all__ = (
    "End",
    "Framing",
    "Gate",
    "RecordedConnection",
    "RecordedRequest",
    "Reply",
    "ScriptedServer",
)

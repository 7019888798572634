"""The test kit: a scripted loopback server that says exactly what a test tells it to, and when.

It runs under asyncio and trio, never sleeps, and tells what it saw: every request, and when each
connection was closed. Beside it, assertions that hold for every API. Source: 30 section 7, 11 section D.
"""

from svir_client.testing.prefix import assert_prefix_stable
from svir_client.testing.record import RecordedConnection, RecordedRequest
from svir_client.testing.reply import End, Framing, Gate, Reply
from svir_client.testing.script import Answer
from svir_client.testing.server import MockServer

__all__ = (
    "Answer",
    "End",
    "Framing",
    "Gate",
    "RecordedConnection",
    "RecordedRequest",
    "Reply",
    "MockServer",
    "assert_prefix_stable",
)

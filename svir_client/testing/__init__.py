"""The test kit: a scripted loopback server that says exactly what a test tells it to, and when.

It runs under asyncio and trio, never sleeps unless a reply says so, and tells what it saw: every request, and
when each connection was closed. Beside it: recorded exchanges, assertions that hold for every API, a call
cancelled at each of its awaits, and the contracts of a transport and of a store as tests.
Source: 30 sections 1 and 7, 11 section D, 50 Session.
"""

from svir_client.testing.cancel import cancelled_at_every_await
from svir_client.testing.contract import CLAUSES, ContractError, Violation, check_transport
from svir_client.testing.prefix import assert_prefix_stable
from svir_client.testing.record import RecordedConnection, RecordedRequest
from svir_client.testing.recorder import Recorder
from svir_client.testing.recording import RecordedPiece, Recording, load_recording
from svir_client.testing.reply import End, Framing, Reply
from svir_client.testing.script import Answer
from svir_client.testing.scripted import Outcome, ScriptedTransport
from svir_client.testing.server import MockServer
from svir_client.testing.store import STORE_CLAUSES, check_store
from svir_client.testing.threaded import ThreadedMockServer
from svir_client.testing.wait import Gate, Pause

__all__ = (
    # what a server says
    "End",
    "Framing",
    "Gate",
    "Pause",
    "Reply",
    # who says it
    "Answer",
    "MockServer",
    "Outcome",
    "ScriptedTransport",
    "ThreadedMockServer",
    # what it saw
    "RecordedConnection",
    "RecordedRequest",
    # exchanges kept as data
    "RecordedPiece",
    "Recorder",
    "Recording",
    "load_recording",
    # what must hold
    "CLAUSES",
    "STORE_CLAUSES",
    "ContractError",
    "Violation",
    "assert_prefix_stable",
    "cancelled_at_every_await",
    "check_store",
    "check_transport",
)

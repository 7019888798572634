"""Conversations that last: a session, its lease and its state; and stores that keep sessions (50, Session)."""

from svir_client.session.lease import SessionLease
from svir_client.session.opened import OpenSession
from svir_client.session.record import SessionChange, SessionRecord
from svir_client.session.session import Session
from svir_client.session.sqlite import SqliteStore
from svir_client.session.state import SessionState
from svir_client.session.store import SessionClaim, SessionStore

__all__ = (
    # a conversation
    "Session",
    "SessionLease",
    "SessionState",
    # where it is kept
    "OpenSession",
    "SessionStore",
    "SqliteStore",
    # what a store of your own works with
    "SessionChange",
    "SessionClaim",
    "SessionRecord",
)

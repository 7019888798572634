"""What a checker knows of sessions and stores: read by mypy and pyright, never run."""

from __future__ import annotations

from typing import assert_type

from svir_client import Session, SessionState, SessionStore, SqliteStore, sync
from svir_client.session import OpenSession, SessionClaim, SessionLease, SessionRecord
from svir_core import Message, ToolLoop


def state(state: SessionState) -> None:
    assert_type(state.get("count", int), int | None)
    assert_type(state.update("count", 0, lambda count: count + 1), int)
    assert_type(state.update("names", list[str](), lambda names: [*names, "a"]), list[str])
    assert_type(state.erase("count"), bool)


def session(session: Session) -> None:
    assert_type(session.system, str | None)
    assert_type(session.messages, tuple[Message, ...])
    assert_type(session.suspended, ToolLoop | None)
    assert_type(session.fork(), Session)
    assert_type(Session.loads(session.dumps()), Session)
    with session.lease() as lease:
        assert_type(lease, SessionLease)
        lease.append([Message.user("a")])


async def store(store: SessionStore) -> None:
    assert_type(SqliteStore("a.db").session("alice"), OpenSession)
    async with store.session("alice", system="Be brief.") as opened:
        assert_type(opened, Session)
    assert_type(await store.load("alice"), Session | None)
    assert_type(await store.ids(), tuple[str, ...])
    claim = await store.claim("alice")
    assert_type(claim, SessionClaim)
    assert_type(await claim.read(), SessionRecord | None)


def blocking(store: SessionStore) -> None:
    with sync.session(store, "alice", system="Be brief.") as session:
        assert_type(session, Session)

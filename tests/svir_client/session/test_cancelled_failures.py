"""A save or a release that fails while asyncio cancels its task: that it was cancelled is told, with a note of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest

from svir_client import FunctionModel, Session, SqliteStore, generate_stream
from svir_client.session import SessionChange, SessionRecord
from svir_client.session.sqlite_claim import SqliteClaim
from svir_client.stream import Stream
from svir_core import Message, Request, SessionInUseError, StoreError
from tests.svir_client.session.memory_store import MemoryClaim, MemoryData, MemoryStore

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

SECONDS = 20
USER = Message.user("Hello!")
FAILURES = pytest.mark.parametrize(
    ("failure", "words"), [(StoreError("the disk is full"), "the disk is full"), (KeyError("a path"), "KeyError")]
)


class Breaking(MemoryStore):
    """The step with the name ``at`` cancels its task and waits; begun again, it fails with ``failure``."""

    def __init__(self, at: str, failure: Exception) -> None:
        super().__init__(MemoryData())
        self.at: str | None = at
        self.failure = failure
        self.times = 0

    def claim_of(self, id: str) -> MemoryClaim:
        return BreakingClaim(self, id)

    async def step(self, name: str) -> None:
        if name == self.at:
            self.times += 1
            if self.times > 1:
                raise self.failure
            cancel_me()
            await asyncio.sleep(0)
            raise AssertionError("it was cancelled")


class BreakingClaim(MemoryClaim):
    def __init__(self, store: Breaking, id: str) -> None:
        super().__init__(store, id)
        self.breaking = store

    async def read(self) -> SessionRecord | None:
        await self.breaking.step("read")
        return await super().read()

    async def write(self, change: SessionChange) -> None:
        await self.breaking.step("write")
        await super().write(change)

    async def release(self) -> None:
        await self.breaking.step("release")
        await super().release()


def cancel_me() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def says_hi(_: Request) -> str:
    return "hi"


async def cancelled(work: Coroutine[Any, Any, object]) -> list[str]:
    """The notes of the cancellation that the task ends with."""
    task = asyncio.create_task(work)
    with anyio.fail_after(SECONDS), pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert task.cancelled()
    return getattr(caught.value, "__notes__", [])


@FAILURES
@pytest.mark.parametrize("at", ["write", "release"])
@pytest.mark.parametrize("left_by", [None, LookupError("mine")])
async def test_a_session_that_is_left(at: str, left_by: Exception | None, failure: Exception, words: str) -> None:
    store = Breaking(at, failure)

    async def work() -> None:
        async with store.session("alice") as session:
            session.append(USER)
            if left_by is not None:
                raise left_by

    assert await cancelled(work()) == [f"on leaving its session: {words}"]
    assert (store.times, bool(store.data.claims)) == (2, at == "release")


@FAILURES
async def test_a_session_that_could_not_be_entered(failure: Exception, words: str) -> None:
    store = Breaking("release", failure)
    store.data.records["alice"] = SessionRecord("{")
    assert await cancelled(store.session("alice").__aenter__()) == [f"on leaving its session: {words}"]


@FAILURES
@pytest.mark.parametrize("left_by", [None, LookupError("mine")])
async def test_a_generation_that_is_left(left_by: Exception | None, failure: Exception, words: str) -> None:
    store = Breaking("write", failure)
    store.at = None
    session = Session()

    async def work() -> None:
        nonlocal session
        async with (
            store.session("alice") as session,
            generate_stream(FunctionModel(says_hi), session, "q", model="m", rollback=True),
        ):
            store.at = "write"
            if left_by is not None:
                raise left_by

    notes = await cancelled(work())
    assert notes == [f"on leaving the generation: {words}", f"on leaving its session: {words}"]
    assert (session.in_use, store.data.claims) == (False, {})


@FAILURES
async def test_a_stream_that_is_cancelled_while_it_is_closed(
    failure: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Breaking("write", failure)
    store.at, store.times = None, 1  # the next write fails
    close = Stream.aclose

    async def breaking(stream: Stream) -> None:
        await close(stream)
        store.at = "write"
        cancel_me()
        await asyncio.sleep(0)

    async def work() -> None:
        async with (
            store.session("alice") as session,
            generate_stream(FunctionModel(says_hi), session, "q", model="m", rollback=True) as run,
        ):
            async for _ in run:
                monkeypatch.setattr(Stream, "aclose", breaking)
                break

    notes = await cancelled(work())
    assert notes == [f"on leaving the generation: {words}", f"on leaving its session: {words}"]
    assert store.data.claims == {}


def deleted(store: SqliteStore) -> Coroutine[Any, Any, object]:
    return store.delete("alice")


def claimed(store: SqliteStore) -> Coroutine[Any, Any, object]:
    return store.claim("alice")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("step", [deleted, claimed])
async def test_a_release_of_sqlite(
    step: Callable[[SqliteStore], Coroutine[Any, Any, object]],
    fails: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    release, times = SqliteClaim.release, 0

    async def breaking(claim: SqliteClaim) -> None:
        nonlocal times
        times += 1
        if times == 1:
            cancel_me()
            await asyncio.sleep(0)
        await release(claim)
        if fails:
            raise StoreError("the disk is full")

    holder = await store.claim("alice") if step is claimed else None
    monkeypatch.setattr(SqliteClaim, "release", breaking)
    assert await cancelled(step(store)) == (["on leaving its session: the disk is full"] if fails else [])
    monkeypatch.undo()
    if holder is not None:
        with pytest.raises(SessionInUseError):
            await store.claim("alice")
        await holder.release()
    await (await store.claim("alice")).release()

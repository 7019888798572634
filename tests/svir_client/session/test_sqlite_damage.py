"""A database that is damaged, or went away: a value or ``StoreError``, and nothing is written into the dark."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client import SqliteStore
from svir_client.session.sqlite_connection import identity
from svir_client.session.sqlite_file import translated
from svir_core import Message, Request, SessionInUseError, StoreError, ToolLoop

SECONDS = 30
ASKED, ANSWERED = Message.user("hello"), Message.assistant("hi")


async def filled(store: SqliteStore) -> None:
    async with store.session("alice", system="be kind") as session:
        session.append(ASKED, ANSWERED)
        with session.lease() as lease:
            lease.suspend(ToolLoop(Request("m").user("more")))
    async with store.session("bob") as session:
        session.append(ASKED)


def emptied_log(path: pathlib.Path) -> bytes:
    """The whole database, in one file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


@functools.cache
def good() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "sessions.db")
        anyio.run(filled, SqliteStore(path))
        return emptied_log(path)


async def use_all(store: SqliteStore) -> None:
    """Everything that a store can be asked for; what it may raise is passed over, and nothing else."""

    async def session() -> None:
        async with store.session("alice") as session:
            session.append(ANSWERED)

    works: list[Callable[[], Any]] = [
        store.ids,
        lambda: store.load("alice"),
        lambda: store.load("bob"),
        session,
        lambda: store.load("alice"),
        lambda: store.delete("bob"),
    ]
    with anyio.fail_after(SECONDS):
        for work in works:
            with contextlib.suppress(StoreError, SessionInUseError):
                await work()


@given(
    changes=st.dictionaries(st.integers(0, 2**16), st.integers(0, 255), min_size=1, max_size=4),
    cut=st.none() | st.integers(0, 2**16),
)
def test_any_bytes_of_the_file_may_be_others(changes: dict[int, int], cut: int | None) -> None:
    whole = good()
    written = [place for place, byte in enumerate(whole) if byte or place < 100]
    changed = bytearray(whole)
    for number, byte in changes.items():
        changed[written[number % len(written)]] = byte
    if cut is not None:
        del changed[cut % len(whole) :]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "sessions.db")
        path.write_bytes(changed)
        anyio.run(use_all, SqliteStore(path))


WRONG = {
    "an id": "UPDATE session SET id = x'00ff' WHERE id = 'bob'",
    "a version": "UPDATE session SET version = 'one' WHERE id = 'alice'",
    "a version that is a blob": "UPDATE session SET version = x'31' WHERE id = 'alice'",
    "a head": "UPDATE session SET head = x'7b7d' WHERE id = 'alice'",
    "a head that is no JSON": "UPDATE session SET head = '{' WHERE id = 'alice'",
    "a message": "UPDATE message SET body = x'7b7d'",
    "a text that is no Unicode": "UPDATE message SET body = CAST(x'ff' AS TEXT)",
    "a position": "UPDATE message SET position = 'x' WHERE position = 1",
    "a position that is too far": "UPDATE message SET position = 5 WHERE position = 1",
    "a position that is a fraction": "UPDATE message SET position = 1.5 WHERE position = 1",
}


@pytest.mark.anyio
@pytest.mark.parametrize("what", WRONG)
async def test_a_column_of_another_type_is_a_store_error(what: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path)
    await filled(store)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(WRONG[what])
        connection.commit()
    work = store.ids if what == "an id" else store.session("alice").__aenter__
    with pytest.raises(StoreError, match=r"damaged|cannot be read|SQLite refused"):
        await work()
    await use_all(store)


def test_memory_that_sqlite_has_not_is_a_store_error() -> None:
    def work() -> None:
        raise MemoryError

    with pytest.raises(StoreError, match="SQLite had no memory"):
        translated(work)


@pytest.mark.anyio
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_went_away_takes_no_write(replaced: bool, tmp_path: pathlib.Path) -> None:
    path, aside = tmp_path / "sessions.db", tmp_path / "aside.db"
    store = SqliteStore(path)
    await filled(store)
    entered = store.session("alice")
    session = await entered.__aenter__()
    session.append(ASKED)
    path.rename(aside)
    if replaced:
        path.write_bytes(b"")
    with session.lease() as lease, pytest.raises(StoreError, match="moved or removed"):
        await lease.save()
    path.unlink(missing_ok=True)
    aside.rename(path)
    with session.lease() as lease:
        await lease.save()
    await entered.__aexit__(None, None, None)
    loaded = await store.load("alice")
    assert loaded is not None
    assert loaded.messages == (ASKED, ANSWERED, ASKED)


@pytest.mark.anyio
async def test_a_file_that_was_removed_loses_no_deletion(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path)
    await filled(store)
    claim = await store.claim("bob")
    path.unlink()
    assert identity(str(path)) is None
    with pytest.raises(StoreError, match="moved or removed"):
        await claim.delete()
    await claim.release()

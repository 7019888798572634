"""The SQLite store beyond the contract: other processes, its files, its failures, and what a save costs."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import os
import pathlib
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import closing
from typing import Any

import anyio
import pytest

from svir_client import SqliteStore
from svir_client.session import SessionChange, SessionRecord, sqlite_claim, sqlite_file
from svir_client.session.sqlite_claim import SqliteClaim
from svir_core import ConfigError, Message, SessionInUseError, StoreError

pytestmark = pytest.mark.anyio

SECONDS = 30
FIRST = SessionChange(0, ("1", "2"), "{}")


def is_there(path: pathlib.Path) -> bool:
    return path.exists()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "secret-path.db"


HOLDER = """
import sys, anyio
from svir_client import SqliteStore
from svir_core import Message

async def main():
    async with SqliteStore(sys.argv[1]).session("alice") as session:
        session.append(Message.user("unsaved"))
        print("held", flush=True)
        sys.stdin.readline()

anyio.run(main)
"""

MAKER = """
import sys, anyio
from svir_client import SqliteStore
from svir_core import Message

async def main(path, name):
    print("ready", flush=True)
    sys.stdin.readline()
    async with SqliteStore(path).session(name) as session:
        for number in range(20):
            with session.lease() as lease:
                lease.append([Message.user(f"{name} {number}")])
                await lease.save()
            if number == 9:
                print("half", flush=True)

anyio.run(main, *sys.argv[1:])
"""


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_another_process_has_it_until_it_is_killed(path: pathlib.Path) -> None:
    with anyio.fail_after(SECONDS), started(HOLDER, str(path)) as process:
        try:
            assert said(process) == "held"
            store = SqliteStore(path)
            for _ in range(2):
                with pytest.raises(SessionInUseError):
                    await store.claim("alice")
            with pytest.raises(SessionInUseError):
                await store.delete("alice")
            assert await store.read("alice") is None
            await (await store.claim("bob")).release()
            process.send_signal(signal.SIGKILL)
            process.wait(SECONDS)
            await (await store.claim("alice")).release()
        finally:
            process.kill()


async def test_processes_that_make_the_file_at_the_same_moment(path: pathlib.Path) -> None:
    names = ["a", "b", "c", "d"]
    processes = [started(MAKER, str(path), name) for name in names]
    try:
        assert [said(process) for process in processes] == ["ready"] * len(names)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            process.communicate(timeout=SECONDS)
            assert process.returncode == 0
    finally:
        for process in processes:
            process.kill()
    store = SqliteStore(path)
    assert await store.ids() == tuple(names)
    for name in names:
        session = await store.load(name)
        assert session is not None
        assert session.messages == tuple(Message.user(f"{name} {number}") for number in range(20))


async def test_a_writer_that_is_killed_disturbs_no_other(path: pathlib.Path) -> None:
    names = ["a", "b", "victim"]
    processes = [started(MAKER, str(path), name) for name in names]
    try:
        assert [said(process) for process in processes] == ["ready"] * len(names)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert said(processes[-1]) == "half"
        processes[-1].kill()
        for process in processes:
            process.communicate(timeout=SECONDS)
        assert [process.returncode for process in processes] == [0, 0, -signal.SIGKILL]
    finally:
        for process in processes:
            process.kill()
    store = SqliteStore(path)
    counts: list[int] = []
    for name in names:
        async with store.session(name) as session:
            counts.append(len(session.messages))
            assert session.messages == tuple(Message.user(f"{name} {number}") for number in range(counts[-1]))
    assert counts[:2] == [20, 20]
    assert counts[2] >= 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
async def test_a_claim_stays_with_the_process_that_made_it(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(path)
    claim = await store.claim("alice")
    await claim.write(FIRST)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        for use in (claim.read, lambda: claim.write(FIRST), claim.delete):
            with pytest.raises(StoreError, match="of the process that forked this one"):
                await use()
        await claim.release()
    with pytest.raises(SessionInUseError):
        await store.claim("alice")
    await claim.release()
    await (await store.claim("alice")).release()


async def test_the_files_are_for_their_owner_alone(path: pathlib.Path) -> None:
    before = os.umask(0)
    try:
        claim = await SqliteStore(path).claim("alice/../bob")
        await claim.write(FIRST)
    finally:
        os.umask(before)
    (locks,) = path.parent.glob("*.locks")
    (lock,) = locks.iterdir()
    assert lock.name == hashlib.sha256(b"alice/../bob").hexdigest()
    files = sorted(file.name for file in path.parent.iterdir())
    assert files == [path.name, f"{path.name}-shm", f"{path.name}-wal", f"{path.name}.locks"]
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (*path.parent.iterdir(), lock)}
    assert modes.pop(locks.name) == 0o700
    assert set(modes.values()) == {0o600}
    await claim.release()
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, locks.name]


async def test_every_write_is_on_the_disk(path: pathlib.Path) -> None:
    claim = await SqliteStore(path).claim("alice")
    assert claim._connection is not None
    assert claim._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert claim._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    await claim.release()


async def test_a_save_writes_what_is_new_and_no_more(path: pathlib.Path) -> None:
    claim = await SqliteStore(path).claim("alice")
    await claim.write(SessionChange(0, tuple(map(str, range(1000))), "{}"))
    assert claim._connection is not None
    before = claim._connection.total_changes
    await claim.write(SessionChange(1000, ("1000",), "{}"))
    assert claim._connection.total_changes - before == 2  # the head, and one message
    await claim.release()


async def test_making_a_store_touches_nothing_and_reading_an_empty_one_finds_nothing(path: pathlib.Path) -> None:
    store = SqliteStore(path)
    assert not is_there(path)
    assert repr(store) == "<SqliteStore>"
    assert await store.ids() == ()
    assert await store.read("alice") is None
    assert await store.delete("alice") is False


async def test_a_path_is_found_from_another_folder_too(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    store = SqliteStore(path.name)
    monkeypatch.chdir("/")
    claim = await store.claim("alice")
    await claim.release()
    assert is_there(path)


@pytest.mark.parametrize("wrong", [1, b"a.db", "", "a\0b", "/tmp/\ud800.db", ":memory:", None])
def test_what_is_no_path(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"SqliteStore\(path\)"):
        SqliteStore(wrong)


# --- failures ------------------------------------------------------------------------------------------


def newer(path: pathlib.Path) -> None:
    with closing(sqlite_file.connect(str(path))) as connection:
        connection.execute("PRAGMA user_version = 2")


def of_others(path: pathlib.Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE session (id)")


def of_another_application(path: pathlib.Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 7")


def no_database(path: pathlib.Path) -> None:
    path.write_bytes(b"no database, but long enough to be taken for a header of one" * 100)


def a_folder(path: pathlib.Path) -> None:
    path.mkdir()


def no_folder(path: pathlib.Path) -> None:
    path.parent.rmdir()


def damaged(path: pathlib.Path) -> None:
    with closing(sqlite_file.connect(str(path))) as connection:
        connection.execute("INSERT INTO session (id, version, head) VALUES ('alice', 1, '{}')")
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


FAILURES: dict[str, tuple[Callable[[pathlib.Path], None], str]] = {
    "newer": (newer, "the database has version 2, and this svir knows 1"),
    "of others": (of_others, "the database is not one of svir's sessions"),
    "of another application": (of_another_application, "the database is not one of svir's sessions"),
    "no database": (no_database, r"the file is no SQLite database \(DatabaseError\)"),
    "a folder": (a_folder, r"the database cannot be opened \(OperationalError\)"),
    "no folder": (no_folder, r"a file of the database cannot be made \(FileNotFoundError\)"),
    "damaged": (damaged, r"the database is damaged \(DatabaseError\)"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_failures_are_in_our_words(path: pathlib.Path, name: str) -> None:
    path = path.parent / "folder" / path.name
    path.parent.mkdir()
    prepare, words = FAILURES[name]
    prepare(path)
    store = SqliteStore(path)
    for use in (store.ids, lambda: store.read("alice"), lambda: store.claim("alice"), lambda: store.delete("alice")):
        with pytest.raises(StoreError, match=words) as caught:
            await use()
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        assert not caught.value.retryable
        assert "secret-path" not in str(caught.value) + repr(caught.value)
        assert "SELECT" not in "".join(traceback.format_exception_only(caught.value))


async def test_a_database_that_another_writer_has_is_worth_another_try(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.05)
    store = SqliteStore(path)
    claim = await store.claim("alice")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another writer had the database") as caught:
            await claim.write(FIRST)
        assert caught.value.retryable
        other.execute("ROLLBACK")
    await claim.write(FIRST)
    assert await store.read("alice") == SessionRecord("{}", ("1", "2"))
    await claim.release()


async def test_a_file_that_another_keeps_for_itself(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.05)
    store = SqliteStore(path)
    sqlite_file.make(str(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="another writer had the database"):
            await store.ids()
    assert await store.ids() == ()


class InTheWay:
    """A connection whose switch to the log is in the way of another's, so many times: SQLite does not wait then."""

    def __init__(self, connection: sqlite3.Connection, times: int) -> None:
        self._connection = connection
        self._times = times

    def execute(self, statement: str) -> sqlite3.Cursor:
        if "journal_mode" in statement and self._times:
            self._times -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return self._connection.execute(statement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_the_switch_to_the_log_is_tried_again(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        twice: Any = InTheWay(connection, 2)
        sqlite_file._prepare(twice)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for_ever: Any = InTheWay(connection, 1000)
        with pytest.raises(sqlite3.OperationalError):
            sqlite_file._prepare(for_ever)


class Overtaken:
    """A connection before whose second statement on a file another makes it."""

    def __init__(self, connection: sqlite3.Connection, make: Callable[[], None]) -> None:
        self._connection = connection
        self._make = make
        self._statements = 0

    def execute(self, statement: str) -> sqlite3.Cursor:
        self._statements += statement.startswith("PRAGMA")
        if self._statements == 2:
            self._make()
        return self._connection.execute(statement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_a_file_that_another_makes_while_it_is_looked_at(path: pathlib.Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        overtaken: Any = Overtaken(connection, lambda: sqlite_file.connect(str(path)).close())
        sqlite_file._prepare(overtaken)
        assert connection.execute("PRAGMA user_version").fetchone() == (sqlite_file.SCHEMA_VERSION,)


def test_a_place_without_a_write_ahead_log(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_memory(path: str, timeout: float) -> sqlite3.Connection:
        return sqlite3.connect(":memory:", isolation_level=None)

    monkeypatch.setattr(sqlite_file, "opened", in_memory)
    with pytest.raises(StoreError, match="cannot have a write-ahead log"):
        sqlite_file.connect(str(path))


def test_a_lock_that_cannot_be_had(path: pathlib.Path) -> None:
    path.write_bytes(b"no database" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        sqlite_file.lock(str(path))


async def test_a_full_disk_changes_nothing_and_the_next_write_is_made(path: pathlib.Path) -> None:
    store = SqliteStore(path)
    claim = await store.claim("alice")
    await claim.write(FIRST)
    assert claim._connection is not None
    (pages,) = claim._connection.execute("PRAGMA page_count").fetchone()
    claim._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="the disk of the database is full"):
        await claim.write(SessionChange(1, ("x" * 1_000_000,), "[]"))
    assert await store.read("alice") == SessionRecord("{}", ("1", "2"))
    claim._connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    await claim.write(SessionChange(1, ("x" * 1_000_000,), "[]"))
    assert await store.read("alice") == SessionRecord("[]", ("1", "x" * 1_000_000))
    await claim.release()


async def test_a_claim_without_its_lock_loses_to_the_other_writer(path: pathlib.Path) -> None:
    store = SqliteStore(path)
    began = await store.claim("alice")
    (path.parent / f"{path.name}.locks").rename(path.parent / "cleared")
    other = await store.claim("alice")
    await began.write(FIRST)
    with pytest.raises(StoreError, match="another writer has changed this session: the claim was lost"):
        await other.write(SessionChange(0, (), "[]"))
    await other.release()
    await began.write(SessionChange(2, ("3",), "{}"))
    (path.parent / f"{path.name}.locks").rename(path.parent / "cleared again")
    third = await store.claim("alice")
    await third.write(SessionChange(3, ("4",), "{}"))
    with pytest.raises(StoreError, match="the claim was lost"):
        await began.write(SessionChange(3, ("lost",), "{}"))
    await began.release()
    await third.release()
    assert await store.read("alice") == SessionRecord("{}", ("1", "2", "3", "4"))


async def test_a_claim_of_a_session_that_was_deleted_and_begun_anew_is_old(path: pathlib.Path) -> None:
    store = SqliteStore(path)
    old = await store.claim("alice")
    await old.write(FIRST)
    (path.parent / f"{path.name}.locks").rename(path.parent / "cleared")
    assert await store.delete("alice")
    new = await store.claim("alice")
    await new.write(SessionChange(0, ("new",), "{}"))
    with pytest.raises(StoreError, match="the claim was lost"):
        await old.write(SessionChange(0, ("old",), "{}"))
    assert await store.read("alice") == SessionRecord("{}", ("new",))
    await old.release()
    await new.release()


# --- threads and tasks ---------------------------------------------------------------------------------


async def test_event_loops_of_several_threads_use_one_store(path: pathlib.Path, anyio_backend: str) -> None:
    store = SqliteStore(path)

    def run(name: str) -> None:
        anyio.run(work, name, backend=anyio_backend)

    async def work(name: str) -> None:
        async with store.session(name) as session:
            for number in range(20):
                with session.lease() as lease:
                    lease.append([Message.user(str(number))])
                    await lease.save()

    threads = [threading.Thread(target=run, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, SECONDS)
    assert await store.ids() == ("a", "b", "c", "d")
    for name in "abcd":
        session = await store.load(name)
        assert session is not None
        assert len(session.messages) == 20


async def test_the_threads_of_others_are_not_needed(path: pathlib.Path) -> None:
    limiter = anyio.to_thread.current_default_thread_limiter()
    with anyio.fail_after(SECONDS):
        for borrower in range(int(limiter.total_tokens)):
            limiter.acquire_on_behalf_of_nowait(borrower)
        try:
            await (await SqliteStore(path).claim("alice")).release()
        finally:
            for borrower in range(int(limiter.total_tokens)):
                limiter.release_on_behalf_of(borrower)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_asyncio_cancels_by_itself_leaves_no_claim(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, go_on = threading.Event(), threading.Event()
    lock = sqlite_file.lock

    def slow(path: str) -> sqlite3.Connection | None:
        under_way.set()
        assert go_on.wait(SECONDS)
        return lock(path)

    store = SqliteStore(path)
    monkeypatch.setattr(sqlite_claim, "lock", slow)
    task = asyncio.create_task(store.claim("alice"))
    await anyio.to_thread.run_sync(under_way.wait, SECONDS)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.undo()
    await (await store.claim("alice")).release()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_write_whose_task_was_cancelled_does_not_come_after_a_later_one(path: pathlib.Path) -> None:
    store = SqliteStore(path)
    claim = await store.claim("alice")
    await claim.write(FIRST)
    assert claim._mutex.acquire(timeout=SECONDS)  # the first write's thread has to wait
    early = asyncio.create_task(claim.write(SessionChange(2, ("early",), "{}")))
    await asyncio.sleep(0)
    late = asyncio.create_task(claim.write(SessionChange(2, ("late",), "{}")))
    await asyncio.sleep(0)
    claim._mutex.release()
    with anyio.fail_after(SECONDS):
        await late
        with pytest.raises(StoreError, match="a later write has overtaken this one"):
            await early
    assert await store.read("alice") == SessionRecord("{}", ("1", "2", "late"))
    await claim.release()


async def test_a_claim_that_was_released_before_it_was_open_opens_nothing(path: pathlib.Path) -> None:
    claim = SqliteClaim(str(path), "alice")
    await claim.release()
    await claim.open()
    with pytest.raises(StoreError, match="the claim was released"):
        await claim.read()
    assert not is_there(path)
    with pytest.raises(ConfigError, match="one of a kind"):
        copy.copy(claim)

"""A session of a SQLite store for one writer: the lock that dies with its process, and the writes."""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio
import anyio.to_thread

from svir_client.finished import Finished
from svir_client.session.record import SessionChange, SessionRecord
from svir_client.session.sqlite_connection import identity
from svir_client.session.sqlite_file import Transaction, connect, damaged, lock, stored, translated
from svir_client.session.store import SessionClaim
from svir_client.unique import Unique
from svir_core.check import expect
from svir_core.errors import SessionInUseError, StoreError

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """What ``work`` gives, in a worker thread that no other work can keep away. A cancellation waits for its end."""
    return await anyio.to_thread.run_sync(translated, work, limiter=anyio.CapacityLimiter(1))


class SqliteClaim(SessionClaim, Unique):
    """One session of the database at ``path``.

    Two things hold other writers off: a lock of the operating system on a file of this session's own, and, should that
    ever fail (a file system without locks, a folder that was cleared), the version that each write expects.
    """

    __slots__ = (
        "_connection",
        "_file",
        "_id",
        "_lock",
        "_mutex",
        "_number",
        "_path",
        "_process",
        "_released",
        "_turn",
        "_version",
    )

    def __init__(self, path: str, id: str) -> None:
        self._path = path
        self._id = id
        self._process = os.getpid()
        self._lock: sqlite3.Connection | None = None
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._number: int | None = None
        self._version = 0
        self._released = False
        self._turn = 0
        self._mutex = threading.Lock()  # a task that asyncio cancels by itself leaves its thread at work

    async def open(self) -> None:
        """Take the session: ``SessionInUseError`` when another has it."""
        try:
            await in_thread(self._open)
        except BaseException as error:
            await self.leave(error)
            raise

    async def read(self) -> SessionRecord | None:
        """As :meth:`SessionClaim.read`."""
        return await in_thread(lambda: self._holding(lambda connection: read_session(connection, self._id)))

    async def write(self, change: SessionChange) -> None:
        """As :meth:`SessionClaim.write`."""
        expect(change, SessionChange, "SessionClaim.write(change)")
        self._turn += 1
        turn = self._turn
        await in_thread(lambda: self._holding(lambda connection: self._write(connection, change, turn)))

    async def delete(self) -> bool:
        """Forget the session; whether there was one."""
        return await in_thread(lambda: self._holding(self._delete))

    async def release(self) -> None:
        """As :meth:`SessionClaim.release`."""
        await in_thread(self._close)

    async def leave(self, error: BaseException | None) -> None:
        """Release it, whatever cancels its task meanwhile; ``error`` is what it is left by."""
        leaving = Finished()
        with leaving.noted(error, "its session"):
            await leaving.run(self.release, math.inf)
        leaving.pass_on(error)

    # --- in a worker thread ----------------------------------------------------------------------------

    def _open(self) -> None:
        with self._mutex:
            if self._released:
                return
            self._lock = lock(_lock_path(self._path, self._id))
            if self._lock is None:
                raise SessionInUseError("another writer has this session")
            self._connection = connect(self._path)
            self._file = identity(self._path)
            row = self._connection.execute("SELECT number, version FROM session WHERE id = ?", (self._id,)).fetchone()
            if row is not None:
                number, version = row
                self._number, self._version = stored(number, int), stored(version, int)

    def _holding(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._mutex:
            if self._process != os.getpid():
                raise StoreError("the claim is of the process that forked this one")
            if self._connection is None:
                raise StoreError("the claim was released")
            return work(self._connection)

    def _write(self, connection: sqlite3.Connection, change: SessionChange, turn: int) -> None:
        if turn != self._turn:  # its task was cancelled before this thread came to it, and has written again
            raise StoreError("a later write has overtaken this one")
        with Transaction(connection, "IMMEDIATE") as transaction:
            number = self._write_head(connection, change.head)
            (count,) = connection.execute(
                "SELECT coalesce(max(position) + 1, 0) FROM message WHERE session = ?", (number,)
            ).fetchone()
            if stored(count, int) < change.keep:
                raise StoreError(f"{change.keep} messages cannot stay: {count} are stored")
            connection.execute("DELETE FROM message WHERE session = ? AND position >= ?", (number, change.keep))
            connection.executemany(
                "INSERT INTO message (session, position, body) VALUES (?, ?, ?)",
                [(number, position, body) for position, body in enumerate(change.append, change.keep)],
            )
            self._check_file()
            transaction.commit()
        self._number = number
        self._version += 1

    def _write_head(self, connection: sqlite3.Connection, head: str) -> int:
        """The number of the session, whose head is now ``head``."""
        if self._number is None:
            begun = connection.execute(
                "INSERT OR IGNORE INTO session (id, version, head) VALUES (?, 1, ?)", (self._id, head)
            )
            number = begun.lastrowid if begun.rowcount == 1 else None
        else:
            changed = connection.execute(
                "UPDATE session SET version = version + 1, head = ? WHERE number = ? AND version = ?",
                (head, self._number, self._version),
            )
            number = self._number if changed.rowcount == 1 else None
        if number is None:
            raise StoreError("another writer has changed this session: the claim was lost")
        return number

    def _check_file(self) -> None:
        """``StoreError`` when what is written would be found by nobody."""
        if self._file is None or identity(self._path) != self._file:
            raise StoreError("the file of the database was moved or removed while a session of it was open")

    def _delete(self, connection: sqlite3.Connection) -> bool:
        with Transaction(connection, "IMMEDIATE") as transaction:
            connection.execute("DELETE FROM message WHERE session = ?", (self._number,))
            deleted = connection.execute("DELETE FROM session WHERE number = ?", (self._number,)).rowcount
            self._check_file()
            transaction.commit()
        return deleted > 0

    def _close(self) -> None:
        """The lock goes last: the log may be written back until then."""
        with self._mutex:
            self._released = True
            if self._process != os.getpid():
                return  # SQLite's connections are not carried over a fork
            for connection in (self._connection, self._lock):
                if connection is not None:
                    connection.close()
            self._connection = self._lock = None


def read_session(connection: sqlite3.Connection, id: str) -> SessionRecord | None:
    """The session with this id, as it is at one moment."""
    with Transaction(connection, "DEFERRED"):
        row = connection.execute("SELECT number, head FROM session WHERE id = ?", (id,)).fetchone()
        if row is None:
            return None
        number, head = row
        rows = connection.execute("SELECT position, body FROM message WHERE session = ? ORDER BY position", (number,))
        messages: list[str] = []
        for position, body in rows:
            if position != len(messages):
                raise damaged()
            messages.append(stored(body, str))
        return SessionRecord(stored(head, str), messages)


def _lock_path(path: str, id: str) -> str:
    folder = f"{path}.locks"
    with suppress(FileExistsError):
        os.mkdir(folder, mode=0o700)
    return os.path.join(folder, hashlib.sha256(id.encode()).hexdigest())

"""The SQLite file of a store: how it is made and opened, and what its failures are in our words.

Three rules hold for all of it. What is acknowledged is on the disk: a write-ahead log, and ``synchronous=FULL``. A file
that is not a store of ours, or a newer one, is left alone. Nobody but SQLite ever opens one of these files under its
name: where a process closes any descriptor of a file, POSIX lets go of all locks that the process has on it.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from svir_client.session.sqlite_connection import opened
from svir_core.errors import StoreError

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")

BUSY_SECONDS: Final = 10.0
"""How long another writer of the same file is waited for: each has it for one short transaction."""

APPLICATION: Final = 0x73766972
"""``PRAGMA application_id`` of our files: "svir"."""

SCHEMA_VERSION: Final = 1
"""``PRAGMA user_version``: which tables there are."""

_SCHEMA: Final = (
    # AUTOINCREMENT: a number never comes again, so that a claim of a session that was deleted since is seen to be old
    "CREATE TABLE session (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
    " version INTEGER NOT NULL, head TEXT NOT NULL)",
    "CREATE TABLE message (session INTEGER NOT NULL REFERENCES session (number), position INTEGER NOT NULL,"
    " body TEXT NOT NULL, PRIMARY KEY (session, position))",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

_WORDS: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_PERM: "the database may not be opened",
    sqlite3.SQLITE_BUSY: f"another writer had the database for more than {BUSY_SECONDS:g} s",
    sqlite3.SQLITE_LOCKED: "another connection had a table of the database",
    sqlite3.SQLITE_NOMEM: "SQLite had no memory",
    sqlite3.SQLITE_READONLY: "the database may not be written",
    sqlite3.SQLITE_IOERR: "the disk of the database failed",
    sqlite3.SQLITE_CORRUPT: "the database is damaged",
    sqlite3.SQLITE_FULL: "the disk of the database is full",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened",
    sqlite3.SQLITE_TOOBIG: "a message is larger than SQLite takes",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database",
}
"""SQLite's primary result codes in our words; nothing of SQLite's own text is shown, which may hold a path or SQL."""

_RETRYABLE: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def result_code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code; ``None`` for what Python's module finds itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def translated(work: Callable[[], T]) -> T:
    """What ``work`` gives; what SQLite and the operating system raise in it is raised as ``StoreError``."""
    try:
        return work()
    except sqlite3.Error as error:
        code = result_code(error)
        words = _WORDS.get(code or 0, "SQLite refused")
        failure = StoreError(f"{words} ({type(error).__name__})", retryable=code in _RETRYABLE)
    except UnicodeDecodeError:  # SQLite's own words of what it found, which Python reads
        failure = damaged()
    except MemoryError:  # SQLITE_NOMEM, as Python tells it: a damaged file may ask for any amount
        failure = StoreError(_WORDS[sqlite3.SQLITE_NOMEM])
    except OSError as error:
        failure = StoreError(f"a file of the database cannot be made ({type(error).__name__})")
    raise failure


def damaged() -> StoreError:
    """What is raised for what SQLite gives without complaint, and nobody has written."""
    return StoreError(_WORDS[sqlite3.SQLITE_CORRUPT])


def stored(value: object, kind: type[T]) -> T:
    """``value`` of a column, which was written as a ``kind``: a damaged file has any type anywhere."""
    if isinstance(value, kind):
        return value
    raise damaged()


def connect(path: str) -> sqlite3.Connection:
    """A connection to the store at ``path``, which is made, for its owner alone, where there is none."""
    make(path)
    connection = opened(path, BUSY_SECONDS)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def lock(path: str) -> sqlite3.Connection | None:
    """A connection that keeps every other from ``path`` until it is closed, or its process ends; ``None`` when another
    has it. The file holds nothing: it is there to be locked."""
    make(path)
    connection = opened(path, 0.0)
    try:
        # no journal file: one that a killed process leaves is rolled back first, and who comes meanwhile is refused
        connection.execute("PRAGMA journal_mode = MEMORY")
        # not EXCLUSIVE: of two that begin it at once both may fail, each in the way of the other
        connection.execute("BEGIN IMMEDIATE")
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error) and result_code(error) == sqlite3.SQLITE_BUSY:
            return None
        raise
    return connection


def make(path: str) -> None:
    """An empty file for its owner alone, unless there is one. It is made under another name, and never open under its
    own."""
    if os.path.exists(path):
        return
    descriptor, temporary = tempfile.mkstemp(prefix=".svir-", dir=os.path.dirname(path))
    try:
        os.close(descriptor)
        with suppress(FileExistsError):  # somebody was faster
            os.link(temporary, path)
    finally:
        os.unlink(temporary)


def _prepare(connection: sqlite3.Connection) -> None:
    with Transaction(connection, "DEFERRED"):  # one moment for all that is looked at
        made = _is_made(connection)
    if not made:
        _log_ahead(connection)
        with Transaction(connection, "IMMEDIATE") as transaction:
            if not _is_made(connection):  # somebody was faster
                for statement in _SCHEMA:
                    connection.execute(statement)
            transaction.commit()
    connection.execute("PRAGMA synchronous = FULL")


def _is_made(connection: sqlite3.Connection) -> bool:
    """Whether it is a store of ours; false for a database with nothing in it. ``StoreError`` for any other."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (application, version) == (APPLICATION, SCHEMA_VERSION):
        return True
    if application == APPLICATION:
        raise StoreError(f"the database has version {version}, and this svir knows {SCHEMA_VERSION}")
    if application or version or tables:
        raise StoreError("the database is not one of svir's sessions")
    return False


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, for good. SQLite does not wait here for others that do the same."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if result_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            break
    if mode != "wal":
        raise StoreError("the database cannot have a write-ahead log where it is")


class Transaction:
    """A transaction on ``connection`` while its block lasts; without a commit it is as if it had not been."""

    def __init__(self, connection: sqlite3.Connection, kind: Literal["DEFERRED", "IMMEDIATE"]) -> None:
        self._connection = connection
        self._kind = kind

    def __enter__(self) -> Self:
        self._connection.execute(f"BEGIN {self._kind}")
        return self

    def commit(self) -> None:
        """Make it last."""
        self._connection.execute("COMMIT")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._connection.in_transaction:  # not when it was committed, or SQLite has undone it
            self._connection.execute("ROLLBACK")

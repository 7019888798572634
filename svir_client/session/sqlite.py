"""The embedded store: sessions in a SQLite file, for all processes of one machine (50, Session)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Final, TypeVar, cast

from svir_client.session.form import session_id
from svir_client.session.record import SessionRecord
from svir_client.session.sqlite_claim import SqliteClaim, in_thread, read_session
from svir_client.session.sqlite_file import connect, stored
from svir_client.session.store import SessionStore
from svir_core.errors import ConfigError

T = TypeVar("T")

_IDS: Final = "SELECT id FROM session ORDER BY id"


class SqliteStore(SessionStore):
    """Sessions in the file at ``path``, which is made when it is first used; its folder must be there.

    What was saved survives a crash of the process and of the machine. Beside the file stand its log (``-wal``,
    ``-shm``), and a folder ``.locks`` with an empty file for each session that was ever claimed, which are never to be
    removed while a process uses the store. All are for their owner alone (0600, 0700). The file system must be one of
    this machine. Nothing is open but what a claim holds, so there is nothing to close, and any event loop, thread and
    process may use one store. A claim belongs to the process that made it; in a child that was forked while a file of
    the store was open, using that is a ``StoreError``.

    Every method raises ``StoreError`` when the disk or the database fails: in our words, without its path. One is
    ``retryable`` when another writer had the database for 10 s. ``ConfigError`` for a ``path`` that is none.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = os.fspath(path) if isinstance(cast("object", path), str | os.PathLike) else None
        if not isinstance(given, str) or not _names_a_file(given):
            raise ConfigError("SqliteStore(path): a path as str or os.PathLike[str]; what is not kept needs no store")
        self._path = os.path.abspath(given)

    async def claim(self, id: str) -> SqliteClaim:
        """As :meth:`SessionStore.claim`."""
        claim = SqliteClaim(self._path, session_id(id))
        await claim.open()
        return claim

    async def read(self, id: str) -> SessionRecord | None:
        """As :meth:`SessionStore.read`."""
        return await self._connected(lambda connection: read_session(connection, session_id(id)))

    async def ids(self) -> tuple[str, ...]:
        """As :meth:`SessionStore.ids`."""
        return await self._connected(lambda connection: tuple(stored(id, str) for (id,) in connection.execute(_IDS)))

    async def delete(self, id: str) -> bool:
        """As :meth:`SessionStore.delete`."""
        claim = await self.claim(id)
        try:
            deleted = await claim.delete()
        except BaseException as error:
            await claim.leave(error)
            raise
        await claim.leave(None)
        return deleted

    def __repr__(self) -> str:
        return "<SqliteStore>"

    async def _connected(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            with closing(connect(self._path)) as connection:
                return work(connection)

        return await in_thread(run)


def _names_a_file(path: str) -> bool:
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return bool(name) and b"\0" not in name and path != ":memory:"

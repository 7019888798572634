"""Connections to SQLite files that know what a fork makes of them.

A forked child has the parent's table of open files, in SQLite's own memory. A connection that it opens to one of them
is taken for a further one of the same process: it locks nothing, and what it writes is lost when the parent removes the
log. So a child opens no file that was open at the fork, and never closes what it was born with.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from typing import Any, Final

from svir_core.errors import StoreError

_CHANGING: Final = threading.RLock()
"""Held while a file is opened or closed, and over a fork: a child must know of every file that was open."""


class Connection(sqlite3.Connection):
    """One that is known while it is open."""

    def __init__(self, path: str, **options: Any) -> None:
        with _CHANGING:
            super().__init__(path, **options)
            self.file = identity(path)
            _OPEN.add(self)

    def close(self) -> None:
        """Close it."""
        with _CHANGING:
            super().close()
            _OPEN.discard(self)


_OPEN: Final[weakref.WeakSet[Connection]] = weakref.WeakSet()
_INHERITED: Final[list[Connection]] = []
"""Those of the parents of this process: kept, so that none is collected, and closed by that."""


def identity(path: str) -> tuple[int, int] | None:
    """Which file is at ``path``, without opening it; ``None`` when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def opened(path: str, timeout: float) -> Connection:
    """A connection to the file at ``path``, which waits ``timeout`` seconds for others; it begins no transaction by
    itself, and may be used on any thread. ``StoreError`` when the file was open as this process was forked."""
    file = identity(path)
    if any(connection.file == file for connection in _INHERITED):
        raise StoreError("the database was open when this process was forked: use it in one that was not")
    return sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False, factory=Connection)


def _forked() -> None:
    _INHERITED.extend(_OPEN)
    _OPEN.clear()
    _CHANGING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_CHANGING.acquire, after_in_parent=_CHANGING.release, after_in_child=_forked)

"""What a store does not have yet of a session: so that each save writes what is new, and no more."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from svir_client.session.record import SessionChange
from svir_client.slot import Slots
from svir_core.errors import ConfigError

if TYPE_CHECKING:
    from svir_client.session.store import SessionClaim


class Unsaved:
    """The difference between a session and what is stored of it.

    A save is a ``begin``, a write, and an ``end``; the session may change between the two, and one that failed may have
    been written all the same. So what was stored before it stays the base of the next change, and that change is
    written whatever is in it.
    """

    __slots__ = ("_base", "_fresh", "_head", "_intact", "_stored", "_writing")

    def __init__(self, stored: int, stored_head: str, head: str) -> None:
        self._base = stored
        self._fresh: list[str] = []
        self._head = head
        self._stored: tuple[int, str] | None = (stored, stored_head)
        self._writing = (stored, head)
        self._intact = stored

    def append(self, texts: tuple[str, ...]) -> None:
        """Messages came."""
        self._fresh += texts

    def truncate(self, count: int) -> None:
        """Only the first ``count`` messages are left."""
        del self._fresh[max(count - self._base, 0) :]
        self._base = min(self._base, count)
        self._intact = min(self._intact, count)

    def replace_head(self, head: str) -> None:
        """The head became another."""
        self._head = head

    def begin(self) -> SessionChange | None:
        """What to write now, or ``None`` when all is stored."""
        if self._stored == (self._base, self._head) and not self._fresh:
            return None
        self._intact = self._base + len(self._fresh)
        self._writing = (self._intact, self._head)
        self._stored = None
        return SessionChange(self._base, tuple(self._fresh), self._head)

    def end(self) -> None:
        """It was written."""
        self._stored = self._writing
        del self._fresh[: self._intact - self._base]
        self._base = self._intact


class Storage:
    """The store of one session while its block lasts: one save after the other, from any event loop."""

    def __init__(self, claim: SessionClaim, unsaved: Unsaved) -> None:
        self._claim = claim
        self._unsaved = unsaved
        self._lock = threading.Lock()
        self._turn = Slots(1)
        self._process = os.getpid()
        self._left = False
        self._closed = False

    def append(self, texts: tuple[str, ...]) -> None:
        """As :meth:`Unsaved.append`."""
        with self._lock:
            self._unsaved.append(texts)

    def truncate(self, count: int) -> None:
        """As :meth:`Unsaved.truncate`."""
        with self._lock:
            self._unsaved.truncate(count)

    def replace_head(self, head: str) -> None:
        """As :meth:`Unsaved.replace_head`."""
        with self._lock:
            self._unsaved.replace_head(head)

    def leave(self) -> None:
        """Its block is being left: what a user changes from now on could be too late for the last save."""
        self._left = True

    def close(self) -> None:
        """Refuse to save from now on."""
        self._closed = True

    def check_open(self) -> None:
        """``ConfigError`` once its block is being left, and in a process that was forked since it was entered."""
        if self._left:
            raise _over()
        if self._process != os.getpid():
            raise ConfigError("this session was opened before the process was forked, and is the other process's")

    async def save(self) -> None:
        """Write what is unsaved. Raises what the store raises; ``ConfigError`` when it was closed."""
        await self._turn.acquire()
        try:
            if self._closed:
                raise _over()
            with self._lock:
                change = self._unsaved.begin()
            if change is not None:
                await self._claim.write(change)
                with self._lock:
                    self._unsaved.end()
        finally:
            self._turn.release()


def _over() -> ConfigError:
    return ConfigError("the block of store.session() was left: this session is saved no more")

"""What a store of sessions is, for a database of yours: four methods, and three of a claim (50, Session).

Three rules hold for all of it. One claim has a session at a time, over all processes that share the store, and one
that ended with its process is over. A write is there whole when ``write`` returns, and whole or not at all when it does
not. Every failure is a ``StoreError``, but for a session that another claim has: ``SessionInUseError``, at once.
``svir_client.testing.check_store`` holds a store to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from svir_client.session.form import read_record, session_id
from svir_client.session.opened import OpenSession
from svir_client.session.record import SessionChange, SessionRecord
from svir_client.session.session import Session


class SessionClaim(ABC):
    """One session of a store, for one writer. Its methods are called one at a time, but for ``release``."""

    __slots__ = ()

    @abstractmethod
    async def read(self) -> SessionRecord | None:
        """The session as it is stored; ``None`` when it was never written."""

    @abstractmethod
    async def write(self, change: SessionChange) -> None:
        """Make ``change`` in one transaction; the first begins the session. ``StoreError`` when fewer messages than
        ``change.keep`` are stored, when the claim was released, or when it was lost to another writer."""

    @abstractmethod
    async def release(self) -> None:
        """Let go of the session. A second time does nothing. One that was cancelled can be made again."""


class SessionStore(ABC):
    """Sessions by id. A store has these four methods; what is built on them is below."""

    __slots__ = ()

    @abstractmethod
    async def claim(self, id: str) -> SessionClaim:
        """The session for one writer, whether it was ever written or not. ``SessionInUseError`` at once, without
        waiting, while another has it, in this process or another."""

    @abstractmethod
    async def read(self, id: str) -> SessionRecord | None:
        """The session as it is stored, whoever has it; ``None`` when it was never written."""

    @abstractmethod
    async def ids(self) -> tuple[str, ...]:
        """The ids of all sessions that were written, sorted."""

    @abstractmethod
    async def delete(self, id: str) -> bool:
        """Forget the session; whether there was one. ``SessionInUseError`` while somebody has it."""

    # --- what is built on them ---------------------------------------------------------------------------

    def session(self, id: str, *, system: str | None = None) -> OpenSession:
        """``async with store.session("alice") as session``: the session, for this block alone, saved as it changes.

        ``system`` is the system instruction of one that begins here; one that is stored has its own. Entering raises
        ``SessionInUseError`` at once while another has it, and ``StoreError`` when what is stored cannot be read.
        """
        return OpenSession(self, session_id(id), system)

    async def load(self, id: str) -> Session | None:
        """The session as it is stored, whoever has it, as a copy that saves to nowhere; ``None`` without one."""
        stored = await self.read(session_id(id))
        return None if stored is None else Session._of(read_record(id, stored), None)

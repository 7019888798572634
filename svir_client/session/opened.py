"""A session of a store, for one block: claimed, read or begun, saved as it changes, and released in every case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final

from svir_client.finished import Finished, note
from svir_client.session.form import Document, Head, head_text, read_record, system_text
from svir_client.session.record import SessionRecord
from svir_client.session.session import Session
from svir_client.session.unsaved import Storage, Unsaved
from svir_client.unique import Unique
from svir_core.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from svir_client.session.store import SessionClaim, SessionStore

LEAVING_SECONDS: Final = 15.0
"""For the last save, and again for the release, which a cancellation does not cut short: longer than a writer of the
same SQLite file is waited for, and short enough for a program that ends."""


class OpenSession(Unique):
    """What ``store.session(id)`` gives; entered once, by ``async with``.

    On leaving, whatever the reason, what changed is saved and the session released, in at most 15 s for each: a
    cancellation waits for that. A save that failed is raised as ``StoreError``, or noted on the exception that the
    block was left by. From then on what would change the session is a ``ConfigError``, and a lease that somebody still
    holds saves no more.
    """

    __slots__ = ("_claim", "_id", "_storage", "_store", "_system", "_used")

    def __init__(self, store: SessionStore, id: str, system: str | None) -> None:
        self._store = store
        self._id = id
        self._system = None if system is None else system_text(system)
        self._used = False
        self._claim: SessionClaim | None = None
        self._storage: Storage | None = None

    async def __aenter__(self) -> Session:
        if self._used:
            raise ConfigError("store.session() is entered once: ask the store for another")
        self._used = True
        claim = await self._store.claim(self._id)
        try:
            stored = await claim.read()
            document, unsaved = self._begun() if stored is None else self._stored(stored)
        except BaseException as error:
            leaving = Finished()
            failures = await _within(leaving, claim.release, "released")
            _note(leaving.outcome(error) or error, failures)
            leaving.pass_on(error)
            raise
        self._claim = claim
        self._storage = Storage(claim, unsaved)
        return Session._of(document, self._storage)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        storage, claim = self._storage, self._claim
        self._storage = self._claim = None
        if storage is None or claim is None:
            raise ConfigError("store.session() was not entered")
        failures: list[Exception] = []
        leaving = Finished()
        storage.leave()
        try:
            failures += await _within(leaving, storage.save, "saved")
        finally:
            storage.close()
            failures += await _within(leaving, claim.release, "released")
        outcome = leaving.outcome(error)
        if outcome is None and failures:
            outcome = failures.pop(0)
        if outcome is not None:
            _note(outcome, failures)
            if outcome is not error:
                raise outcome

    def __repr__(self) -> str:
        return f"<OpenSession {self._id!r}>"

    def _begun(self) -> tuple[Document, Unsaved]:
        """One that was never written: nothing of it is stored before something is in it."""
        return Document(self._id, self._system), Unsaved(0, head_text(Head()), head_text(Head(self._system)))

    def _stored(self, stored: SessionRecord) -> tuple[Document, Unsaved]:
        return read_record(self._id, stored), Unsaved(len(stored.messages), stored.head, stored.head)


async def _within(leaving: Finished, work: Callable[[], Awaitable[None]], done: str) -> list[Exception]:
    """What ``work`` failed with, if it did; no cancellation cuts it short but its own time."""
    try:
        in_time = await leaving.run(work, LEAVING_SECONDS)
    except Exception as error:  # noqa: BLE001 - a store of somebody's own may raise any: it is raised or noted
        return [error]
    return [] if in_time else [StoreError(f"it was not {done} within {LEAVING_SECONDS:g} s")]


def _note(error: BaseException, failures: list[Exception]) -> None:
    for failure in failures:
        note(error, "its session", failure)

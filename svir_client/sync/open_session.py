"""A session of a store for a thread without an event loop (50, Session)."""

from __future__ import annotations

from types import TracebackType

from svir_client.finished import note
from svir_client.session import OpenSession, Session, SessionStore
from svir_client.sync.loop_thread import Job, LoopThread, loop_thread, refuse_event_loop
from svir_client.unique import Unique
from svir_core.check import an
from svir_core.errors import ConfigError


def session(store: SessionStore, id: str, *, system: str | None = None) -> SyncOpenSession:
    """``with sync.session(store, "alice") as session``: as :meth:`svir_client.session.SessionStore.session`.

    On a thread that runs an event loop it is a ``ConfigError``.
    """
    refuse_event_loop()
    if not isinstance(store, SessionStore):
        raise ConfigError(f"store must be a SessionStore, not {an(type(store))}")
    return SyncOpenSession(store.session(id, system=system))


class SyncOpenSession(Unique):
    """What :func:`session` gives; entered once, by ``with``. The store's work is done on the loop thread.

    Ctrl-C while it is entered lets go of the session, and while it is left waits for the save and the release. A forked
    child has no part in it: leaving the block does nothing there.
    """

    __slots__ = ("__weakref__", "_inside", "_opened", "_thread")

    def __init__(self, opened: OpenSession) -> None:
        self._opened = opened
        self._thread: LoopThread | None = None
        self._inside = False

    def __enter__(self) -> Session:
        refuse_event_loop()
        if self._thread is not None:
            raise ConfigError("sync.session() is entered once: ask for another")
        thread = self._thread = loop_thread()
        job = Job(thread, self._enter)
        try:
            job.start()
            return job.result()
        except BaseException as error:
            job.cancel()
            try:
                job.join()
            finally:
                left = self._abandon(thread)  # it may have been entered before it was cancelled, or though it was
            _note_failure(error, left)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        thread = self._thread
        if thread is None:
            raise ConfigError("sync.session() was not entered")
        if thread.lost:
            return
        job = Job(thread, lambda: self._leave(kind, error, traceback))
        try:
            job.start()
            job.result()
        except BaseException as interrupt:
            job.start()  # nobody knows whether it had been
            _note_failure(interrupt, job)
            raise

    def __del__(self) -> None:
        thread = getattr(self, "_thread", None)
        if thread is not None and self._inside and not thread.lost:  # leaving was interrupted before it had begun
            self._abandon(thread)

    def __repr__(self) -> str:
        return repr(self._opened).replace(OpenSession.__name__, type(self).__name__, 1)

    def _abandon(self, thread: LoopThread) -> Job[None]:
        """Begin to leave it, if it is entered, and wait for nothing."""
        job = Job(thread, lambda: self._leave(None, None, None))
        job.start()
        return job

    # --- on the loop thread ----------------------------------------------------------------------------

    async def _enter(self) -> Session:
        session = await self._opened.__aenter__()
        self._inside = True
        return session

    async def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._inside:
            self._inside = False
            await self._opened.__aexit__(kind, error, traceback)


def _note_failure(interrupt: BaseException, job: Job[None]) -> None:
    """Wait for ``job``, and note on ``interrupt`` what it fails with, unless that is ``interrupt`` itself."""
    try:
        job.result()
    except Exception as failure:  # noqa: BLE001 - a store of somebody's own may raise any
        if failure is not interrupt:
            note(interrupt, "its session", failure)

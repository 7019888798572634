"""A session for one generation alone: nobody else changes it meanwhile (51 sections 1.5 C and 2.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from svir_client.unique import Unique
from svir_core.message import Message

if TYPE_CHECKING:
    from typing import Self

    from svir_client.session.session import Session
    from svir_core.loop import ToolLoop


class SessionLease(Unique):
    """What :meth:`Session.lease` gives: who holds it may change the session. Leaving its block releases it.

    A lease that nobody holds any more, released or not, is over. What is asked of one that was released is a
    ``ConfigError``.
    """

    __slots__ = ("__weakref__", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def session(self) -> Session:
        """The session that it is of."""
        return self._session

    def append(self, messages: Iterable[Message]) -> None:
        """Add messages; ``ConfigError`` for one of the system, and for one that the session's store cannot hold."""
        self._session._append(messages, self)

    def advance(
        self, messages: Iterable[Message], loop: ToolLoop | None, *, tell: Callable[[], object] | None = None
    ) -> None:
        """:meth:`append` and :meth:`suspend` as one step: both or, by ``ConfigError``, neither. ``tell`` is called once
        it is known that nothing refuses them, before they are the session's."""
        self._session._advance(messages, loop, tell, self)

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` messages, and forget a generation that began after them; ``ConfigError`` when there
        are not so many."""
        self._session._truncate(count, self)

    def suspend(self, loop: ToolLoop | None) -> None:
        """Remember a copy of a generation that did not finish, or that there is none. Its history is the session's.
        ``ConfigError`` for one that the session's store cannot hold, and for one that began after the last message."""
        self._session._suspend(loop, self)

    async def save(self) -> None:
        """Write what changed since the last time to the session's store, in one transaction; nothing without a store,
        and nothing when nothing changed. Raises what the store raises (``StoreError``): then the next one writes it.

        ``ConfigError`` when the block of ``store.session(...)`` was left.
        """
        await self._session._save(self)

    def release(self) -> None:
        """End it, waiting for nothing. A second time does nothing."""
        self._session._release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<SessionLease of {self._session!r}>"

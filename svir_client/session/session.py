"""A conversation: its system instruction, its messages, and what its tools share (50, Session; 51 section 2.1)."""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Callable, Iterable

from svir_client.session.form import (
    Document,
    Head,
    check_start,
    document_bytes,
    head_text,
    history,
    message_text,
    read_document,
    session_id,
    system_text,
)
from svir_client.session.lease import SessionLease
from svir_client.session.messages import Messages
from svir_client.session.state import SessionState
from svir_client.session.unsaved import Storage
from svir_client.unique import Unique
from svir_core.check import count as checked_count
from svir_core.check import expect
from svir_core.errors import ConfigError, SessionInUseError
from svir_core.history import HistoryFault, check_history
from svir_core.loop import ToolLoop
from svir_core.message import Message
from svir_core.wire.api import Api


class Session(Unique):
    """A conversation in memory. One of a store is made by ``store.session(id)``.

    Any thread and task may look at it at any time. While a generation has it, by its lease, everything that would
    change it is a ``SessionInUseError``; once the block of ``store.session()`` was left, a ``ConfigError``. ``id`` is
    unique across processes when it is not given.

    Raises ``ConfigError`` for an id that is empty or no valid Unicode, an empty ``system``, and a message of the system
    in ``messages``.
    """

    __slots__ = ("__weakref__", "_id", "_lease", "_lock", "_messages", "_state", "_storage", "_suspended", "_system")

    def __init__(self, id: str | None = None, *, system: str | None = None, messages: Iterable[Message] = ()) -> None:
        self._id = uuid.uuid4().hex if id is None else session_id(id)
        self._system = None if system is None else system_text(system)
        self._messages = Messages(history(messages))
        self._suspended: ToolLoop | None = None  # without its history
        self._state = SessionState()
        self._storage: Storage | None = None
        self._lease: weakref.ref[SessionLease] | None = None
        self._lock = threading.Lock()  # never held over I/O

    @classmethod
    def _of(cls, document: Document, storage: Storage | None) -> Session:
        session = cls(document.id, system=document.system, messages=document.messages)
        session._suspended = _bare(document.suspended)
        session._storage = storage
        return session

    # --- what it is ------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its id, which tools and traces are told."""
        return self._id

    @property
    def system(self) -> str | None:
        """The system instruction."""
        return self._system

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages as they are now."""
        return self._messages.seen()

    @property
    def state(self) -> SessionState:
        """What its tools share in this process; never stored."""
        return self._state

    @property
    def suspended(self) -> ToolLoop | None:
        """A copy of the generation that did not finish, over the messages as they are now; ``None`` without one."""
        with self._lock:
            return None if self._suspended is None else self._suspended.with_history(self._messages.seen())

    @property
    def in_use(self) -> bool:
        """Whether somebody has its lease."""
        return self._holder() is not None

    def check_history(self, api: Api) -> tuple[HistoryFault, ...]:
        """What ``api`` would refuse about its calls and results, as :func:`svir_core.check_history`."""
        return check_history(self._messages.seen(), api)

    def __repr__(self) -> str:
        return f"<Session {self._id!r}, {len(self._messages)} messages{', in use' if self.in_use else ''}>"

    # --- what a user changes ---------------------------------------------------------------------------

    def set_system(self, text: str) -> None:
        """Replace the system instruction, before the first message. ``ConfigError`` for an empty one;
        ``SessionInUseError``; ``ConfigError`` when there are messages (51 section 2.1 has this order)."""
        system = system_text(text)
        with self._lock:
            self._may_change(None)
            if len(self._messages):
                raise ConfigError("the system instruction is set before the first message, or after clear()")
            self._replace_head(system, self._suspended)

    def append(self, *messages: Message) -> None:
        """Add messages, and forget a generation that did not finish: its next step would come after them.

        ``ConfigError`` for one of the system, and for one that its store cannot hold; ``SessionInUseError``.
        """
        self._append(messages, None)

    def clear(self) -> None:
        """Forget the messages, and a generation that did not finish; the system instruction and the state stay.
        ``SessionInUseError``."""
        with self._lock:
            self._may_change(None)
            self._replace_head(self._system, None)
            self._cut(0)

    def lease(self) -> SessionLease:
        """The session for one generation alone; ``SessionInUseError`` at once while another has it."""
        lease = SessionLease(self)
        with self._lock:
            self._may_change(None)
            self._lease = weakref.ref(lease)
        return lease

    # --- copies ----------------------------------------------------------------------------------------

    def fork(self, id: str | None = None) -> Session:
        """A session in memory with the same system instruction and messages, an empty state of its own, and no
        generation that did not finish."""
        document = self._document()
        return Session(id, system=document.system, messages=document.messages)

    def dumps(self) -> bytes:
        """It as JSON: id, system instruction, messages, and the generation that did not finish; no state. A lone
        surrogate becomes U+FFFD. ``ConfigError``, naming the path, for what has no JSON form."""
        return document_bytes(self._document())

    @classmethod
    def loads(cls, data: bytes | bytearray | memoryview | str) -> Session:
        """The inverse of :meth:`dumps`. ``ConfigError``, naming the path, for anything else."""
        return cls._of(read_document(data), None)

    def _document(self) -> Document:
        with self._lock:
            return Document(self._id, self._system, self._messages.seen(), self._suspended)

    # --- what a lease changes, or a user by no lease ---------------------------------------------------

    def _append(self, messages: Iterable[Message], by: SessionLease | None) -> None:
        added = history(messages)
        texts = self._texts(added)
        with self._lock:
            self._may_change(by)
            if by is None and added:
                self._replace_head(self._system, None)
            self._add(added, texts)

    def _advance(
        self, messages: Iterable[Message], loop: ToolLoop | None, tell: Callable[[], object] | None, by: SessionLease
    ) -> None:
        added = history(messages)
        bare = None if loop is None else _bare(expect(loop, ToolLoop, "SessionLease.advance(loop)"))
        texts, head = self._texts(added), self._head_text(self._system, bare)
        if tell is not None:
            with self._lock:
                self._may_advance(added, bare, by)
            tell()
        with self._lock:
            self._may_advance(added, bare, by)
            self._set_head(self._system, bare, head)
            self._add(added, texts)

    def _truncate(self, count: int, by: SessionLease) -> None:
        checked_count(count, 0, "SessionLease.truncate(count)")
        with self._lock:
            self._may_change(by)
            if count > len(self._messages):
                raise ConfigError(f"truncate({count}): there are {len(self._messages)} messages")
            start = None if self._suspended is None else self._suspended.start
            if start is not None and start >= count:  # its turn is taken back with it
                self._replace_head(self._system, None)
            self._cut(count)

    def _suspend(self, loop: ToolLoop | None, by: SessionLease) -> None:
        bare = None if loop is None else _bare(expect(loop, ToolLoop, "SessionLease.suspend(loop)"))
        with self._lock:
            self._may_change(by)
            head = self._head_text(self._system, bare)
            check_start(bare, len(self._messages), "SessionLease.suspend(loop), its start")
            self._set_head(self._system, bare, head)

    async def _save(self, by: SessionLease) -> None:
        with self._lock:
            self._may_change(by)
        if self._storage is not None:
            await self._storage.save()

    def _release(self, by: SessionLease) -> None:
        with self._lock:
            if self._holder() is by:
                self._lease = None

    def _texts(self, messages: tuple[Message, ...]) -> tuple[str, ...]:
        """What its store will have of ``messages``; nothing without one. ``ConfigError`` for what has no JSON form."""
        return () if self._storage is None else tuple(map(message_text, messages))

    def _head_text(self, system: str | None, suspended: ToolLoop | None) -> str:
        return "" if self._storage is None else head_text(Head(system, suspended))

    # --- under the lock --------------------------------------------------------------------------------

    def _holder(self) -> SessionLease | None:
        lease = self._lease
        return None if lease is None else lease()

    def _may_change(self, by: SessionLease | None) -> None:
        holder = self._holder()
        if holder is not by:
            if by is None:
                raise SessionInUseError("a generation has this session")
            raise ConfigError("this lease was released")
        if by is None and self._storage is not None:
            self._storage.check_open()  # what a lease changes is refused by its save

    def _may_advance(self, added: tuple[Message, ...], loop: ToolLoop | None, by: SessionLease) -> None:
        self._may_change(by)
        check_start(loop, len(self._messages) + len(added), "SessionLease.advance(loop), its start")

    def _add(self, messages: tuple[Message, ...], texts: tuple[str, ...]) -> None:
        self._messages.add(messages)
        if self._storage is not None:
            self._storage.append(texts)

    def _cut(self, count: int) -> None:
        self._messages.cut(count)
        if self._storage is not None:
            self._storage.truncate(count)

    def _replace_head(self, system: str | None, suspended: ToolLoop | None) -> None:
        """Both as they are from now on; ``ConfigError``, and nothing has changed, when they have no JSON form."""
        self._set_head(system, suspended, self._head_text(system, suspended))

    def _set_head(self, system: str | None, suspended: ToolLoop | None, text: str) -> None:
        if self._storage is not None:
            self._storage.replace_head(text)
        self._system = system
        self._suspended = suspended


def _bare(loop: ToolLoop | None) -> ToolLoop | None:
    return None if loop is None else loop.with_history(())

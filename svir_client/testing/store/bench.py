"""What every clause works with: stores over the same data, ids of its own, and what it may expect."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from svir_client.session.record import SessionChange, SessionRecord
from svir_client.session.store import SessionClaim, SessionStore
from svir_client.testing.contract.bench import Broken, expect, soon
from svir_core.check import an
from svir_core.errors import SessionInUseError, SvirError

E = TypeVar("E", bound=SvirError)

HEAD: Final = '{"type":"session_head"}'
SYSTEM: Final = '{"type":"session_head","system":"Be brief."}'


def texts(*words: str) -> tuple[str, ...]:
    """The JSON texts of messages that say these words."""
    return tuple(f'{{"type":"message","role":"user","parts":[{{"type":"text","text":"{word}"}}]}}' for word in words)


def first(*words: str, head: str = HEAD) -> SessionChange:
    """The change that begins a session with messages that say these words."""
    return SessionChange(0, texts(*words), head)


class StoreBench:
    """Stores that ``make`` gives, each as another process would have it, and ids that nothing else uses."""

    def __init__(self, make: Callable[[], SessionStore]) -> None:
        self._make = make
        self._ids: list[str] = []
        self._claims: list[SessionClaim] = []

    def store(self) -> SessionStore:
        """Another store over the same data."""
        return self._make()

    def id(self) -> str:
        """An id that nothing was ever stored under."""
        return self.ids("")[0]

    def ids(self, *names: str) -> list[str]:
        """Such ids, which differ in their ends alone: these names."""
        common = f"check-{uuid.uuid4().hex}-"
        made = [common + name for name in names]
        self._ids += made
        return made

    async def claim(self, id: str, store: SessionStore | None = None) -> SessionClaim:
        """The claim of ``id``, by another store unless one is given."""
        with soon("claiming a session that is free"):
            claim = await (self.store() if store is None else store).claim(id)
        self._claims.append(claim)
        return claim

    async def begun(self, *words: str) -> tuple[str, SessionClaim]:
        """A session with messages that say these words, and its claim."""
        id = self.id()
        claim = await self.claim(id)
        await claim.write(first(*words))
        return id, claim

    async def expect_stored(self, id: str, head: str | None, *messages: str) -> None:
        """Hold what another store reads to this; ``head`` ``None`` for nothing."""
        stored = await self.store().read(id)
        wanted = None if head is None else SessionRecord(head, messages)
        expect(stored == wanted, f"{shown(stored)} was read, and not {shown(wanted)}")

    async def expect_claimed(self, id: str) -> None:
        """Hold it to that nobody else gets ``id``, whatever store they have."""
        await refusal(SessionInUseError, lambda: self.store().claim(id), "claiming a session that another has")

    async def aclose(self) -> None:
        """Leave nothing behind."""
        for claim in self._claims:
            await claim.release()
        store = self.store()
        for id in self._ids:
            await store.delete(id)


async def refusal(kind: type[E], work: Callable[[], Awaitable[object]], what: str) -> E:
    """The error of ``what``, which must be a ``kind``, come at once, and hide nothing foreign."""
    refused: E | None = None
    with soon(f"{what}: {kind.__name__}"):
        try:
            await work()
        except kind as error:
            refused = error
    if refused is None:
        raise Broken(f"{what}: no {kind.__name__} was raised")
    behind = refused.__cause__ or refused.__context__
    expect(behind is None, f"{what}: {an(type(behind))} stands behind the {kind.__name__}")
    return refused


def shown(stored: SessionRecord | None) -> str:
    """What a record holds, in short."""
    if stored is None:
        return "nothing"
    return f"a head of {len(stored.head)} characters with {len(stored.messages)} messages"

"""A store in memory: the reference for the contract, and what broken ones are made from."""

from __future__ import annotations

import anyio.lowlevel
import attrs

from svir_client.session import SessionChange, SessionClaim, SessionRecord, SessionStore
from svir_core import SessionInUseError, StoreError


@attrs.define
class MemoryData:
    """What all stores over it share, as processes share a database."""

    records: dict[str, SessionRecord] = attrs.field(factory=dict[str, SessionRecord])
    claims: dict[str, MemoryClaim] = attrs.field(factory=dict[str, "MemoryClaim"])


class MemoryClaim(SessionClaim):
    def __init__(self, store: MemoryStore, id: str) -> None:
        self.store = store
        self.data = store.data
        self.id = id

    async def read(self) -> SessionRecord | None:
        return await self.store.read(self.id)

    async def write(self, change: SessionChange) -> None:
        await anyio.lowlevel.checkpoint()
        self.checked()
        before = self.data.records.get(self.id)
        stored = () if before is None else before.messages
        if len(stored) < change.keep:
            raise StoreError("fewer are stored")
        self.data.records[self.id] = self.changed(before, stored, change)

    def checked(self) -> None:
        if self.data.claims.get(self.id) is not self:
            raise StoreError("released")

    def changed(self, before: SessionRecord | None, stored: tuple[str, ...], change: SessionChange) -> SessionRecord:
        return SessionRecord(change.head, stored[: change.keep] + change.append)

    async def release(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self.data.claims.get(self.id) is self:
            del self.data.claims[self.id]


class MemoryStore(SessionStore):
    def __init__(self, data: MemoryData) -> None:
        self.data = data

    def claim_of(self, id: str) -> MemoryClaim:
        return MemoryClaim(self, id)

    async def claim(self, id: str) -> SessionClaim:
        await anyio.lowlevel.checkpoint()
        if id in self.data.claims:
            raise SessionInUseError("claimed")
        claim = self.data.claims[id] = self.claim_of(id)
        return claim

    async def read(self, id: str) -> SessionRecord | None:
        await anyio.lowlevel.checkpoint()
        return self.data.records.get(id)

    async def ids(self) -> tuple[str, ...]:
        await anyio.lowlevel.checkpoint()
        return tuple(sorted(self.data.records))

    async def delete(self, id: str) -> bool:
        await anyio.lowlevel.checkpoint()
        if id in self.data.claims:
            raise SessionInUseError("claimed")
        return self.data.records.pop(id, None) is not None

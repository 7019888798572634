"""Every broken store, and the clauses that are meant to notice it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Final, NamedTuple

import anyio.lowlevel

from svir_client.session import SessionChange, SessionClaim, SessionRecord
from svir_core import SessionInUseError, StoreError
from tests.svir_client.session.memory_store import MemoryClaim, MemoryData, MemoryStore


class BeginsWhenClaimed(MemoryStore):
    async def claim(self, id: str) -> SessionClaim:
        claim = await super().claim(id)
        self.data.records.setdefault(id, SessionRecord("{}"))
        return claim


class KeepsForItself(MemoryStore):
    """A cache that other processes never see."""

    def __init__(self, data: MemoryData) -> None:
        super().__init__(MemoryData(claims=data.claims))


class NormalisesClaim(MemoryClaim):
    def changed(self, before: SessionRecord | None, stored: tuple[str, ...], change: SessionChange) -> SessionRecord:
        made = super().changed(before, stored, change)
        return SessionRecord(self.again(made.head), tuple(map(self.again, made.messages)))

    def again(self, text: str) -> str:
        return json.dumps(json.loads(text), sort_keys=True)


class Normalises(MemoryStore):
    """A column of a type that is parsed."""

    def claim_of(self, id: str) -> MemoryClaim:
        return NormalisesClaim(self, id)


class ReplacesClaim(MemoryClaim):
    def changed(self, before: SessionRecord | None, stored: tuple[str, ...], change: SessionChange) -> SessionRecord:
        return SessionRecord(change.head, change.append)


class Replaces(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return ReplacesClaim(self, id)


class OnlyAppendsClaim(MemoryClaim):
    def changed(self, before: SessionRecord | None, stored: tuple[str, ...], change: SessionChange) -> SessionRecord:
        return SessionRecord(change.head, stored + change.append)


class OnlyAppends(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return OnlyAppendsClaim(self, id)


class KeepsTheHeadClaim(MemoryClaim):
    def changed(self, before: SessionRecord | None, stored: tuple[str, ...], change: SessionChange) -> SessionRecord:
        made = super().changed(before, stored, change)
        return made if before is None else SessionRecord(before.head, made.messages)


class KeepsTheHead(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return KeepsTheHeadClaim(self, id)


class ForgetsTheEmptyClaim(MemoryClaim):
    async def write(self, change: SessionChange) -> None:
        if change.append or change.keep:
            await super().write(change)


class ForgetsTheEmpty(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return ForgetsTheEmptyClaim(self, id)


class KeepsWhatIsNotThereClaim(MemoryClaim):
    async def write(self, change: SessionChange) -> None:
        before = self.data.records.get(self.id)
        stored = () if before is None else before.messages
        await super().write(SessionChange(min(change.keep, len(stored)), change.append, change.head))


class KeepsWhatIsNotThere(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return KeepsWhatIsNotThereClaim(self, id)


class SortsByText(MemoryStore):
    """Positions that are compared as texts: 10 before 9."""

    async def read(self, id: str) -> SessionRecord | None:
        stored = await super().read(id)
        if stored is None:
            return None
        places = sorted(range(len(stored.messages)), key=str)
        return SessionRecord(stored.head, [stored.messages[place] for place in places])


class FoldsIds(MemoryStore):
    """A collation that takes some texts for equal."""

    def folded(self, id: str) -> str:
        return unicodedata.normalize("NFC", id).casefold().strip()

    async def claim(self, id: str) -> SessionClaim:
        return await super().claim(self.folded(id))

    async def read(self, id: str) -> SessionRecord | None:
        return await super().read(self.folded(id))

    async def delete(self, id: str) -> bool:
        return await super().delete(self.folded(id))


class ClipsIds(MemoryStore):
    """A column of 255 characters."""

    async def claim(self, id: str) -> SessionClaim:
        return await super().claim(id[:255])

    async def read(self, id: str) -> SessionRecord | None:
        return await super().read(id[:255])

    async def delete(self, id: str) -> bool:
        return await super().delete(id[:255])


class ListsAsTheyCame(MemoryStore):
    async def ids(self) -> tuple[str, ...]:
        return tuple(self.data.records)


class KeepsTheDeleted(MemoryStore):
    async def delete(self, id: str) -> bool:
        if id in self.data.claims:
            raise SessionInUseError("claimed")
        return id in self.data.records


class NeverSaysWhatItDeleted(MemoryStore):
    async def delete(self, id: str) -> bool:
        await super().delete(id)
        return False


class GivesEverybody(MemoryStore):
    async def claim(self, id: str) -> SessionClaim:
        claim = self.data.claims[id] = self.claim_of(id)
        return claim


class WaitsForTheClaim(MemoryStore):
    async def claim(self, id: str) -> SessionClaim:
        while id in self.data.claims:
            await anyio.lowlevel.checkpoint()
        return await super().claim(id)


class ShowsTheForeign(MemoryStore):
    async def claim(self, id: str) -> SessionClaim:
        try:
            self.data.claims[id + id]
        except KeyError:
            if id in self.data.claims:
                raise SessionInUseError("claimed")  # noqa: B904 - what stands behind it is the fault
        return await super().claim(id)


class RaisesForeign(MemoryStore):
    async def claim(self, id: str) -> SessionClaim:
        if id in self.data.claims:
            raise KeyError(id)
        return await super().claim(id)


class LooksAndThenTakes(MemoryStore):
    async def claim(self, id: str) -> SessionClaim:
        if id in self.data.claims:
            raise SessionInUseError("claimed")
        await anyio.lowlevel.checkpoint()
        claim = self.data.claims[id] = self.claim_of(id)
        return claim


class OneForAll(MemoryStore):
    async def claim(self, id: str) -> SessionClaim:
        if self.data.claims:
            raise SessionInUseError("claimed")
        return await super().claim(id)


class NeverReleasesClaim(MemoryClaim):
    async def release(self) -> None:
        pass


class NeverReleases(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return NeverReleasesClaim(self, id)


class ReleasesOthersClaim(MemoryClaim):
    async def release(self) -> None:
        self.data.claims.pop(self.id, None)


class ReleasesOthers(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return ReleasesOthersClaim(self, id)


class RefusesOnceOnly(MemoryStore):
    async def claim(self, id: str) -> SessionClaim:
        if self.data.claims.pop(id, None) is not None:
            raise SessionInUseError("claimed")
        return await super().claim(id)


class WritesAfterTheReleaseClaim(MemoryClaim):
    def checked(self) -> None:
        pass


class WritesAfterTheRelease(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return WritesAfterTheReleaseClaim(self, id)


class ReadsOnlyWhatIsFree(MemoryStore):
    async def read(self, id: str) -> SessionRecord | None:
        if id in self.data.claims:
            raise SessionInUseError("claimed")
        return await super().read(id)


class DeletesWhatIsClaimed(MemoryStore):
    async def delete(self, id: str) -> bool:
        return self.data.records.pop(id, None) is not None


class LeaksACancelledClaim(MemoryStore):
    async def claim(self, id: str) -> SessionClaim:
        claim = await super().claim(id)
        await anyio.lowlevel.checkpoint()
        return claim


class WritesInTwoStepsClaim(MemoryClaim):
    async def write(self, change: SessionChange) -> None:
        before = self.data.records.get(self.id)
        if before is not None:
            self.data.records[self.id] = SessionRecord(change.head, before.messages)
        await super().write(change)


class WritesInTwoSteps(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return WritesInTwoStepsClaim(self, id)


class StaysBusyClaim(MemoryClaim):
    busy = False

    async def read(self) -> SessionRecord | None:
        self.busy = True
        stored = await super().read()
        self.busy = False
        return stored

    def checked(self) -> None:
        super().checked()
        if self.busy:
            raise StoreError("busy")


class StaysBusy(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return StaysBusyClaim(self, id)


class ReleasesOnceOnlyClaim(MemoryClaim):
    released = False

    async def release(self) -> None:
        if not self.released:
            self.released = True
            await super().release()


class ReleasesOnceOnly(MemoryStore):
    def claim_of(self, id: str) -> MemoryClaim:
        return ReleasesOnceOnlyClaim(self, id)


class Case(NamedTuple):
    store: Callable[[MemoryData], MemoryStore]
    clauses: tuple[str, ...]


CASES: Final = (
    Case(BeginsWhenClaimed, ("nothing_before_a_write",)),
    Case(KeepsForItself, ("a_write_is_read", "messages_are_added")),
    Case(Normalises, ("texts_come_back_exactly",)),
    Case(Replaces, ("messages_are_added", "other_sessions_are_free")),
    Case(OnlyAppends, ("messages_are_dropped", "a_change_made_twice_is_made_once")),
    Case(KeepsTheHead, ("the_head_is_replaced",)),
    Case(ForgetsTheEmpty, ("a_session_may_be_empty",)),
    Case(KeepsWhatIsNotThere, ("more_than_is_stored_cannot_stay",)),
    Case(SortsByText, ("a_long_session",)),
    Case(FoldsIds, ("ids_are_told_apart", "ids_are_listed")),
    Case(ClipsIds, ("ids_are_listed",)),
    Case(ListsAsTheyCame, ("ids_are_listed",)),
    Case(KeepsTheDeleted, ("what_is_deleted_is_gone",)),
    Case(NeverSaysWhatItDeleted, ("what_is_deleted_is_gone",)),
    Case(GivesEverybody, ("one_claim_at_a_time", "of_many_claims_one_is_given")),
    Case(WaitsForTheClaim, ("one_claim_at_a_time",)),
    Case(ShowsTheForeign, ("one_claim_at_a_time",)),
    Case(RaisesForeign, ("one_claim_at_a_time",)),
    Case(LooksAndThenTakes, ("of_many_claims_one_is_given",)),
    Case(OneForAll, ("other_sessions_are_free",)),
    Case(NeverReleases, ("a_release_frees_the_session", "a_write_is_read")),
    Case(ReleasesOthers, ("a_release_frees_the_session",)),
    Case(RefusesOnceOnly, ("a_refused_claim_leaves_nothing", "one_claim_at_a_time")),
    Case(WritesAfterTheRelease, ("nothing_is_written_after_the_release",)),
    Case(ReadsOnlyWhatIsFree, ("reading_needs_no_claim",)),
    Case(DeletesWhatIsClaimed, ("a_claimed_session_is_not_deleted",)),
    Case(LeaksACancelledClaim, ("a_cancelled_claim",)),
    Case(WritesInTwoSteps, ("a_cancelled_write",)),
    Case(StaysBusy, ("a_cancelled_read",)),
    Case(ReleasesOnceOnly, ("a_cancelled_release",)),
)

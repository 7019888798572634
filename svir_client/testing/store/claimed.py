"""Who may write: one claim of a session at a time."""

from __future__ import annotations

from typing import Final

import anyio

from svir_client.session.record import SessionChange
from svir_client.session.store import SessionClaim
from svir_client.testing.contract.bench import expect, soon
from svir_client.testing.store.bench import HEAD, SYSTEM, StoreBench, first, refusal, texts
from svir_core.errors import SessionInUseError, StoreError


async def one_claim_at_a_time(bench: StoreBench) -> None:
    """A session that is claimed is ``SessionInUseError``, at once, for the same store and any other."""
    store = bench.store()
    id = bench.id()
    claim = await bench.claim(id, store)
    await refusal(SessionInUseError, lambda: store.claim(id), "claiming a session twice by one store")
    await bench.expect_claimed(id)
    await claim.write(first("one"))
    await bench.expect_claimed(id)


async def of_many_claims_one_is_given(bench: StoreBench) -> None:
    """Of ten that are asked for at once, one is given, and nine are ``SessionInUseError``."""
    id = bench.id()
    given: list[SessionClaim] = []
    refused: list[SessionInUseError] = []

    async def ask() -> None:
        try:
            given.append(await bench.claim(id))
        except SessionInUseError as error:
            refused.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(ask)
    expect((len(given), len(refused)) == (1, 9), f"{len(given)} were given, and {len(refused)} refused")


async def other_sessions_are_free(bench: StoreBench) -> None:
    """A claim is of one session: twenty are had and written side by side, and do not mix."""
    ids = [bench.id() for _ in range(20)]
    claims = [await bench.claim(id) for id in ids]

    async def write(number: int, claim: SessionClaim) -> None:
        for count in range(5):
            await claim.write(SessionChange(count, texts(f"{number} {count}"), HEAD))

    async with anyio.create_task_group() as tasks:
        for number, claim in enumerate(claims):
            tasks.start_soon(write, number, claim)
    for number, id in enumerate(ids):
        await bench.expect_stored(id, HEAD, *texts(*(f"{number} {count}" for count in range(5))))


async def a_release_frees_the_session(bench: StoreBench) -> None:
    """The next claim is given at once. Releasing a second time does nothing to it."""
    id, claim = await bench.begun("one")
    await claim.release()
    following = await bench.claim(id)
    await claim.release()
    await bench.expect_claimed(id)
    await following.write(SessionChange(1, texts("two"), HEAD))
    await bench.expect_stored(id, HEAD, *texts("one", "two"))


async def a_refused_claim_leaves_nothing(bench: StoreBench) -> None:
    """Whoever was refused is not in the way of the next, nor of who has the session."""
    id, claim = await bench.begun("one")
    for _ in range(3):
        await bench.expect_claimed(id)
    await claim.write(SessionChange(1, texts("two"), HEAD))
    await claim.release()
    await (await bench.claim(id)).write(SessionChange(2, texts("three"), HEAD))
    await bench.expect_stored(id, HEAD, *texts("one", "two", "three"))


async def nothing_is_written_after_the_release(bench: StoreBench) -> None:
    """A write by a claim that was released is a ``StoreError``, and changes nothing, whoever has the session."""
    id, claim = await bench.begun("one")
    await claim.release()
    late = SessionChange(0, texts("late"), SYSTEM)
    await refusal(StoreError, lambda: claim.write(late), "writing after the release")
    await bench.claim(id)
    await refusal(StoreError, lambda: claim.write(late), "writing after the release, with another claim")
    await bench.expect_stored(id, HEAD, *texts("one"))


async def reading_needs_no_claim(bench: StoreBench) -> None:
    """``read`` and ``ids`` are answered at once while a session is claimed, with its last write."""
    id, claim = await bench.begun("one")
    await claim.write(SessionChange(1, texts("two"), SYSTEM))
    with soon("reading a session that is claimed"):
        await bench.expect_stored(id, SYSTEM, *texts("one", "two"))
        expect(id in await bench.store().ids(), "ids() has it not")


async def a_claimed_session_is_not_deleted(bench: StoreBench) -> None:
    """``delete`` of a session that is claimed is ``SessionInUseError``, and who has it goes on."""
    id, claim = await bench.begun("one")
    await refusal(SessionInUseError, lambda: bench.store().delete(id), "deleting a session that another has")
    await claim.write(SessionChange(1, texts("two"), HEAD))
    await bench.expect_stored(id, HEAD, *texts("one", "two"))


CLAUSES: Final = (
    one_claim_at_a_time,
    of_many_claims_one_is_given,
    other_sessions_are_free,
    a_release_frees_the_session,
    a_refused_claim_leaves_nothing,
    nothing_is_written_after_the_release,
    reading_needs_no_claim,
    a_claimed_session_is_not_deleted,
)

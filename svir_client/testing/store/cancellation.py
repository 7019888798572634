"""What a cancellation leaves behind, at any await: no claim that nobody has, and no half of a write."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from svir_client.session.record import SessionChange, SessionRecord
from svir_client.session.store import SessionClaim
from svir_client.testing.cancel import cancelled_at_every_await
from svir_client.testing.contract.bench import expect
from svir_client.testing.store.bench import HEAD, SYSTEM, StoreBench, shown, texts

Work = AsyncGenerator[Coroutine[Any, Any, object]]


async def a_cancelled_claim(bench: StoreBench) -> None:
    """A ``claim`` that was cancelled, and gave none, holds nothing: the next is given."""

    @asynccontextmanager
    async def attempt() -> Work:
        id = bench.id()
        given: list[SessionClaim] = []

        async def claim() -> None:
            given.append(await bench.store().claim(id))

        yield claim()
        for one in given:
            await one.release()
        await (await bench.claim(id)).release()

    await cancelled_at_every_await(attempt)


async def a_cancelled_write(bench: StoreBench) -> None:
    """A ``write`` that was cancelled was made whole, or not at all; the same claim makes it again, or another."""

    @asynccontextmanager
    async def attempt() -> Work:
        id, claim = await bench.begun("one", "two")
        change = SessionChange(1, texts("three", "four"), SYSTEM)
        yield claim.write(change)
        stored = await bench.store().read(id)
        before, after = SessionRecord(HEAD, texts("one", "two")), SessionRecord(SYSTEM, texts("one", "three", "four"))
        expect(stored in (before, after), f"{shown(stored)} was read after a write that was cancelled")
        await claim.write(SessionChange(1, texts("five"), HEAD))
        await bench.expect_stored(id, HEAD, *texts("one", "five"))
        await claim.release()

    await cancelled_at_every_await(attempt)


async def a_cancelled_read(bench: StoreBench) -> None:
    """A ``read`` that was cancelled leaves claim and session as they were."""

    @asynccontextmanager
    async def attempt() -> Work:
        id, claim = await bench.begun("one")
        yield claim.read()
        await claim.write(SessionChange(1, texts("two"), HEAD))
        await bench.expect_stored(id, HEAD, *texts("one", "two"))
        await claim.release()

    await cancelled_at_every_await(attempt)


async def a_cancelled_release(bench: StoreBench) -> None:
    """After a ``release`` that was cancelled, another one frees the session."""

    @asynccontextmanager
    async def attempt() -> Work:
        id, claim = await bench.begun("one")
        yield claim.release()
        await claim.release()
        await (await bench.claim(id)).release()

    await cancelled_at_every_await(attempt)


CLAUSES: Final = (a_cancelled_claim, a_cancelled_write, a_cancelled_read, a_cancelled_release)

"""What is done to its end though its task is cancelled, by a scope or by asyncio itself, once or again and again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from unittest import mock

import anyio
import anyio.lowlevel
import pytest

from svir_client import Session, SqliteStore
from svir_client.finished import Finished
from svir_client.session.sqlite_claim import SqliteClaim
from svir_core import Message

SECONDS = 20
NATIVE = pytest.mark.parametrize("anyio_backend", ["asyncio"])
USER = Message.user("Hello!")


@pytest.mark.anyio
async def test_a_cancelled_scope_does_not_break_the_work() -> None:
    leaving, steps = Finished(), list[int]()

    async def work() -> None:
        for number in range(3):
            await anyio.lowlevel.checkpoint()
            steps.append(number)

    with anyio.fail_after(SECONDS), anyio.CancelScope() as scope:
        scope.cancel()
        assert await leaving.run(work, SECONDS)
        leaving.pass_on(None)
    assert steps == [0, 1, 2]
    assert leaving.cancelled is None


@pytest.mark.anyio
async def test_its_time_ends_the_work() -> None:
    leaving = Finished()
    with anyio.fail_after(SECONDS):
        assert not await leaving.run(anyio.sleep_forever, 0.01)
    leaving.pass_on(None)


@pytest.mark.anyio
async def test_what_the_work_raises_is_raised() -> None:
    async def work() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await Finished().run(work, SECONDS)


@pytest.mark.anyio
@NATIVE
async def test_work_that_asyncio_breaks_is_begun_again() -> None:
    leaving, begun = Finished(), list[int]()

    async def work() -> None:
        begun.append(len(begun))
        if len(begun) < 4:
            task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def whole() -> None:
        assert await leaving.run(work, SECONDS)
        leaving.pass_on(None)

    task = asyncio.create_task(whole())
    with anyio.fail_after(SECONDS), pytest.raises(asyncio.CancelledError):
        await task
    assert begun == [0, 1, 2, 3]


@pytest.mark.anyio
@NATIVE
@pytest.mark.parametrize("asked", [1, 2])
async def test_a_cancellation_that_waits_for_the_next_await_breaks_no_work(asked: int) -> None:
    leaving, begun = Finished(), list[int]()

    async def work() -> None:
        begun.append(len(begun))
        await asyncio.sleep(0)
        if len(begun) == 1:
            for _ in range(asked):
                task.cancel()

    async def whole() -> None:
        task.cancel()
        assert await leaving.run(work, SECONDS)
        assert leaving.cancelled is not None
        assert await leaving.run(work, SECONDS)
        leaving.pass_on(None)

    task = asyncio.create_task(whole())
    with anyio.fail_after(SECONDS), pytest.raises(asyncio.CancelledError):
        await task
    assert begun == [0, 1]


@pytest.mark.anyio
@NATIVE
async def test_broken_work_has_no_more_time_than_any() -> None:
    leaving = Finished()

    async def work() -> None:
        task.cancel()
        await anyio.sleep(0.002)

    task = asyncio.create_task(leaving.run(work, 0.05))
    with anyio.fail_after(SECONDS):
        assert not await task
    assert leaving.cancelled is not None


@pytest.mark.anyio
@NATIVE
async def test_a_cancellation_of_the_works_own_is_no_one_elses() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    leaving = Finished()
    with pytest.raises(asyncio.CancelledError):
        await leaving.run(work, SECONDS)
    assert leaving.cancelled is None


@pytest.mark.anyio
@NATIVE
async def test_a_task_that_ends_cancelled_is_told_once() -> None:
    leaving = Finished()
    leaving.cancelled = asyncio.CancelledError()
    leaving.pass_on(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        leaving.pass_on(KeyError())


@pytest.mark.anyio
@NATIVE
@pytest.mark.parametrize("later", range(9))
async def test_a_second_cancel_loses_no_session(later: int, tmp_path: Path) -> None:
    store, inside = SqliteStore(tmp_path / "sessions.db"), anyio.Event()

    async def work() -> None:
        async with store.session("alice") as session:
            session.append(USER)
            inside.set()
            await anyio.sleep_forever()

    with anyio.fail_after(SECONDS):
        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        for _ in range(later):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await stored(store) == (USER,)
        async with store.session("alice"):
            pass


@pytest.mark.anyio
@NATIVE
async def test_a_task_that_cancels_itself_loses_no_session(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")

    async def work() -> None:
        async with store.session("alice") as session:
            session.append(USER)
            task.cancel()

    with anyio.fail_after(SECONDS):
        task = asyncio.create_task(work())
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await task
        assert await store.delete("alice")  # it was saved, and is free while the cancellation is still held
        assert not hasattr(cancelled.value, "__notes__")


@pytest.mark.anyio
@NATIVE
async def test_what_was_deleted_by_a_task_that_cancels_itself_is_free(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")

    async def delete() -> None:
        with mock.patch.object(SqliteClaim, "delete", cancelling):
            await store.delete("alice")

    async def cancelling(_: SqliteClaim) -> bool:
        task.cancel()
        return True

    with anyio.fail_after(SECONDS):
        task = asyncio.create_task(delete())
        with pytest.raises(asyncio.CancelledError):
            await task
        await reentered(store)


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill() ends the process there")
def test_an_interrupt_loses_no_session(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")

    async def main() -> None:
        async with store.session("alice") as session:
            session.append(USER)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert asyncio.run(stored(store)) == (USER,)
    asyncio.run(reentered(store))


@pytest.mark.parametrize("before", [False, True])
def test_the_end_of_asyncio_run_loses_no_session(before: bool, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")

    async def main() -> None:
        inside = anyio.Event()

        async def work() -> None:
            async with store.session("alice") as session:
                session.append(USER)
                inside.set()
                await anyio.sleep_forever()

        task = asyncio.create_task(work())
        await inside.wait()
        if before:
            task.cancel()
            await asyncio.sleep(0)

    asyncio.run(main())
    assert asyncio.run(stored(store)) == (USER,)
    asyncio.run(reentered(store))


async def stored(store: SqliteStore) -> tuple[Message, ...] | None:
    session: Session | None = await store.load("alice")
    return None if session is None else session.messages


async def reentered(store: SqliteStore) -> None:
    async with store.session("alice"):
        pass

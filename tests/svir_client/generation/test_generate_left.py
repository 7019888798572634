"""How a generation is left when something goes wrong with that too: the error it was left by comes first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from svir_client import FunctionModel, Session, SqliteStore, generate, generate_stream, progress_of, resume
from svir_client.session import SessionChange, SessionRecord
from svir_core import Completion, ConfigError, ErrorKind, Message, RateLimitedError, Request, ServerError, SvirError
from tests.svir_client.chat import SECONDS
from tests.svir_client.generation.generations import asks, call, scripted_by, some_tools
from tests.svir_client.session.memory_store import MemoryClaim, MemoryData, MemoryStore

pytestmark = pytest.mark.anyio

NATIVE = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Budget(SvirError):
    """Of a caller's own, whose constructor is its own too."""

    kind = ErrorKind.CONFIG

    def __init__(self, cents: int) -> None:
        super().__init__(f"a budget of {cents} cents")


class Mine(RateLimitedError):
    pass


class Bare(SvirError):
    """Has nothing that ours have: its constructor does not call ours."""

    kind = ErrorKind.SERVER

    def __init__(self) -> None:
        Exception.__init__(self, "made wrong")


class Stubborn(Exception):
    """Takes nobody's ``progress``, and says so in its own way."""

    @property
    def progress(self) -> None:
        return None

    @progress.setter
    def progress(self, value: Any) -> None:
        raise TypeError


class Secretive(Exception):
    @property
    def progress(self) -> None:
        raise KeyError


class Own(Exception):
    progress = 7


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (Budget(5), ConfigError("a budget of 5 cents")),
        (Mine("x", status=429), RateLimitedError("x", status=429)),
        (RateLimitedError("x", retry_after=float("inf")), RateLimitedError("x")),
        (ServerError("x", offset=2**70), ServerError("x")),
        (Bare(), ServerError("Bare")),
        (ServerError("x", partial=cast("Any", "nope")), ServerError("x")),
        (ServerError("x", anomalies=cast("Any", [1])), ServerError("x")),
        (ServerError("x", anomalies=cast("Any", (1,))), ServerError("x")),
        (ServerError(cast("Any", 5)), ServerError("ServerError")),
    ],
)
async def test_an_error_of_ones_own_is_raised_as_it_is_and_kept_as_one_of_ours(
    error: SvirError, kept: SvirError, tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    async with scripted_by(error) as (_, client), store.session("alice") as session:
        with pytest.raises(type(error)) as caught:
            await generate(client, session, "hi", model="m")
        assert caught.value is error
        assert not session.in_use
    loaded = await store.load("alice")
    assert loaded is not None
    assert loaded.suspended is not None
    assert loaded.suspended.error == kept


@pytest.mark.parametrize("error", [Stubborn(), Secretive(), Own()])
async def test_an_error_that_takes_no_progress_is_raised_all_the_same(error: Exception) -> None:
    session = Session()
    async with scripted_by(error, "ok") as (_, client):
        with pytest.raises(type(error)) as caught:
            await generate(client, session, "hi", model="m")
        assert caught.value is error
        assert not session.in_use
        assert (await resume(client, session)).text == "ok"
    if isinstance(error, Own):
        assert error.progress == 7
        assert progress_of(error) is None


class Failing(MemoryStore):
    """A store whose writes fail, in whatever way, once it is told to."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(MemoryData())
        self.failure: Exception | None = None
        self.later = failure

    def claim_of(self, id: str) -> MemoryClaim:
        return FailingClaim(self, id)


class FailingClaim(MemoryClaim):
    def __init__(self, store: Failing, id: str) -> None:
        super().__init__(store, id)
        self.failing = store

    def changed(self, before: SessionRecord | None, stored: tuple[str, ...], change: SessionChange) -> SessionRecord:
        if self.failing.failure is not None:
            raise self.failing.failure
        return super().changed(before, stored, change)


async def test_what_fails_on_leaving_is_noted_on_the_error_it_was_left_by() -> None:
    store = Failing(OSError("a path"))

    async def model(request: Request) -> str:
        store.failure = store.later
        raise ServerError("no")

    with anyio.fail_after(SECONDS):
        async with store.session("alice") as session:
            with pytest.raises(ServerError) as caught:
                await generate(FunctionModel(model), session, "hi", model="m")
            store.failure = None
            assert caught.value.__notes__ == ["on leaving the generation: OSError"]
            assert session.suspended is not None
            assert not session.in_use


async def test_a_rollback_leaves_the_suspended_generation_that_was_there() -> None:
    session = Session(messages=[Message.user("a"), Message.assistant("b")])
    async with scripted_by(ServerError("first"), ServerError("second"), "ok") as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m")
        before, messages = session.suspended, session.messages
        assert before is not None
        with pytest.raises(ServerError):
            await generate(client, session, "again", model="m", rollback=True)
        assert session.suspended == before
        assert session.messages == messages
        assert (await resume(client, session)).text == "ok"


async def test_a_rolled_back_resumption_leaves_nothing_suspended() -> None:
    session = Session(messages=[Message.user("a"), Message.assistant("b")])
    async with scripted_by(ServerError("first"), ServerError("second")) as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m")
        with pytest.raises(ServerError):
            await resume(client, session, rollback=True)
    assert session.suspended is None
    assert len(session.messages) == 2


async def test_a_second_close_waits_for_the_first() -> None:
    told = list[str]()
    writing, go_on = anyio.Event(), anyio.Event()

    class Slow(MemoryClaim):
        async def write(self, change: SessionChange) -> None:
            if told:
                writing.set()
                await go_on.wait()
            await super().write(change)

    class Store(MemoryStore):
        def claim_of(self, id: str) -> MemoryClaim:
            return Slow(self, id)

    async def close(name: str) -> None:
        await run.aclose()
        told.append(f"{name}, in use: {session.in_use}")

    model = FunctionModel(asks_once)
    with anyio.fail_after(SECONDS):
        async with (
            Store(MemoryData()).session("alice") as session,
            generate_stream(model, session, "hi", model="m", tools=some_tools(), rollback=True) as run,
        ):
            async for _ in run:
                break
            told.append("closing")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(close, "first")
                await writing.wait()
                tasks.start_soon(close, "second")
                await anyio.wait_all_tasks_blocked()
                assert told == ["closing"]
                go_on.set()
    assert sorted(told[1:]) == ["first, in use: False", "second, in use: False"]


async def asks_once(request: Request) -> Completion:
    return asks(call("c"))


@NATIVE
@pytest.mark.parametrize("later", range(8))
@pytest.mark.parametrize("rollback", [False, True])
async def test_a_second_native_cancel_loses_nothing_of_what_is_kept(later: int, rollback: bool, tmp_path: Path) -> None:
    asked = anyio.Event()

    async def model(request: Request) -> str:
        asked.set()
        await anyio.sleep_forever()
        return "never"

    store = SqliteStore(tmp_path / "sessions.db")
    with anyio.fail_after(SECONDS):
        async with store.session("alice") as session:
            session.append(Message.user("a"), Message.assistant("b"))
            work = generate(FunctionModel(model), session, "hi", model="m", rollback=rollback)
            task = asyncio.create_task(work)
            await asked.wait()
            task.cancel()
            for _ in range(later):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not session.in_use
            stored = await store.load("alice")
        assert stored is not None
        assert len(stored.messages) == (2 if rollback else 3)
        assert (stored.suspended is None) is rollback

"""A session of a store for one block: begun or read, saved as it changes, released on every exit."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from svir_client import Session, SqliteStore
from svir_client.session import OpenSession, SessionChange, SessionClaim, SessionRecord, SessionStore, opened
from svir_client.testing import cancelled_at_every_await
from svir_core import (
    ConfigError,
    Image,
    Message,
    Opaque,
    PathSource,
    Request,
    SessionInUseError,
    StoreError,
    Text,
    ToolLoop,
)
from tests.svir_client.session.memory_store import MemoryClaim, MemoryData, MemoryStore

pytestmark = pytest.mark.anyio

USER = Message.user("Hello!")
ANSWER = Message.assistant("Hi.")
SECONDS = 20


class WatchedClaim(MemoryClaim):
    """Remembers what is written, and does first what the store says."""

    def __init__(self, store: Watched, id: str) -> None:
        super().__init__(store, id)
        self.watched = store

    async def read(self) -> SessionRecord | None:
        await self.watched.before_read()
        return await super().read()

    async def write(self, change: SessionChange) -> None:
        await self.watched.before_write()
        await super().write(change)
        self.watched.changes.append(change)

    async def release(self) -> None:
        await self.watched.before_release()
        await super().release()


class Watched(MemoryStore):
    """A store in memory that tells what it was told."""

    def __init__(self, data: MemoryData | None = None) -> None:
        super().__init__(MemoryData() if data is None else data)
        self.changes: list[SessionChange] = []
        self.before_read: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint
        self.before_write: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint
        self.before_release: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint

    def claim_of(self, id: str) -> MemoryClaim:
        return WatchedClaim(self, id)

    async def stored(self, id: str = "alice") -> tuple[Message, ...] | None:
        session = await self.load(id)
        return None if session is None else session.messages


async def left_by_an_exception(store: SessionStore) -> None:
    async with store.session("alice") as session:
        session.append(USER)
        raise KeyError


async def fails() -> None:
    raise StoreError("the disk is full")


async def test_a_session_begins_and_is_read_again() -> None:
    store = Watched()
    async with store.session("alice", system="Be brief.") as session:
        assert (session.id, session.system, session.messages) == ("alice", "Be brief.", ())
        session.append(USER)
    assert store.data.claims == {}
    async with store.session("alice", system="Be long.") as session:
        assert (session.system, session.messages) == ("Be brief.", (USER,))
        with session.lease() as lease:
            lease.append([ANSWER])
            lease.suspend(ToolLoop(Request("m").message(USER)))
            await lease.save()
            assert await store.stored() == (USER, ANSWER)
    again = await store.load("alice")
    assert again is not None
    assert again.dumps() == session.dumps()
    assert again.suspended == session.suspended


async def test_each_save_writes_what_is_new() -> None:
    store = Watched()
    async with store.session("alice") as session, anyio.create_task_group():
        session.append(USER)
        with session.lease() as lease:
            await lease.save()
            await lease.save()
            lease.append([ANSWER, USER])
            await lease.save()
            lease.truncate(2)
            await lease.save()
            lease.truncate(1)
            lease.append([USER])
            await lease.save()
    written = [(change.keep, len(change.append)) for change in store.changes]
    assert written == [(0, 1), (1, 2), (2, 0), (1, 1)]


async def test_a_session_with_nothing_in_it_is_not_stored() -> None:
    store = Watched()
    async with store.session("alice"):
        pass
    assert await store.ids() == ()
    async with store.session("alice", system="Be brief."):
        pass
    assert await store.ids() == ("alice",)
    async with store.session("alice") as session:
        session.state.set("key", 1)
    assert len(store.changes) == 1


async def test_a_session_that_somebody_has() -> None:
    store = Watched()
    async with store.session("alice") as session:
        session.append(USER)
        with pytest.raises(SessionInUseError):
            async with Watched(store.data).session("alice"):
                pass
        async with store.session("bob"):
            pass
    assert await store.stored() == (USER,)


async def test_what_a_store_cannot_hold_is_refused_before_it_is_in_the_session() -> None:
    store = Watched()
    async with store.session("alice") as session:
        session.append(USER)
        with pytest.raises(ConfigError, match=r"\$\.parts\[0\]\.source\.path"):
            session.append(Message.user(Image(PathSource("\udcff.png"), "image/png")))
        with session.lease() as lease, pytest.raises(ConfigError, match=r"\$\.suspended\.start: an integer"):
            lease.suspend(ToolLoop(Request("m").message(USER), start=2**70))
        assert session.messages == (USER,)
        assert session.suspended is None
    assert await store.stored() == (USER,)


async def test_a_turn_that_was_taken_back_leaves_a_session_that_opens_again() -> None:
    store = Watched()
    async with store.session("alice") as session:
        session.append(USER, ANSWER)
        with session.lease() as lease:
            lease.advance([USER], ToolLoop(Request("m").message(USER), start=2))
            await lease.save()
            lease.truncate(2)
            await lease.save()
    async with store.session("alice") as session:
        assert (session.messages, session.suspended) == ((USER, ANSWER), None)


async def test_an_exception_is_left_alone_and_what_was_there_is_saved() -> None:
    store = Watched()
    with pytest.raises(KeyError):
        await left_by_an_exception(store)
    assert await store.stored() == (USER,)
    assert store.data.claims == {}


async def test_a_cancellation_waits_for_the_save_and_the_release() -> None:
    store = Watched()
    with anyio.CancelScope() as scope:
        async with store.session("alice") as session:
            session.append(USER)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert await store.stored() == (USER,)
    assert store.data.claims == {}


async def test_cancelled_at_every_await() -> None:
    @asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, None]]:
        store = Watched()

        async def work() -> None:
            async with store.session("alice") as session:
                session.append(USER)
                with session.lease() as lease:
                    await lease.save()
                    lease.append([ANSWER])
                    await lease.save()

        yield work()
        assert store.data.claims == {}
        assert await store.stored() in (None, (USER,), (USER, ANSWER))

    with anyio.fail_after(SECONDS):
        assert await cancelled_at_every_await(attempt) > 5


async def test_a_save_that_fails_is_raised_and_made_by_the_next() -> None:
    store = Watched()
    async with store.session("alice") as session:
        session.append(USER)
        with session.lease() as lease:
            store.before_write = fails
            with pytest.raises(StoreError, match="the disk is full"):
                await lease.save()
            store.before_write = anyio.lowlevel.checkpoint
            await lease.save()
    assert [(change.keep, len(change.append)) for change in store.changes] == [(0, 1)]


async def test_a_last_save_that_fails() -> None:
    store = Watched()
    store.before_write = fails
    with pytest.raises(StoreError, match="the disk is full") as caught:
        async with store.session("alice") as session:
            session.append(USER)
    assert caught.value.__context__ is None
    with pytest.raises(KeyError) as left:
        await left_by_an_exception(store)
    assert left.value.__notes__ == ["on leaving its session: the disk is full"]
    assert store.data.claims == {}


async def test_a_release_that_fails_too() -> None:
    store = Watched()
    store.before_write = store.before_release = fails
    with pytest.raises(StoreError) as caught:
        async with store.session("alice") as session:
            session.append(USER)
    assert caught.value.__notes__ == ["on leaving its session: the disk is full"]


async def test_what_a_store_of_yours_raises_otherwise_passes_through_and_the_session_is_released() -> None:
    async def breaks() -> None:
        raise KeyError("yours")

    store = Watched()
    store.before_write = breaks
    with pytest.raises(KeyError, match="yours"):
        async with store.session("alice") as session:
            session.append(USER)
    assert store.data.claims == {}


async def stuck() -> None:
    """Gives up by itself: who waits for it shields that wait from the limits of a test."""
    with anyio.fail_after(2):
        await anyio.sleep_forever()


@pytest.mark.parametrize("step", ["before_write", "before_release"])
async def test_leaving_ends_in_time(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "LEAVING_SECONDS", 0.05)
    store = Watched()
    setattr(store, step, stuck)
    done = {"before_write": "saved", "before_release": "released"}[step]
    with pytest.raises(StoreError, match=rf"it was not {done} within 0\.05 s"):
        async with store.session("alice") as session:
            session.append(USER)


async def test_an_entry_that_fails_releases_the_session() -> None:
    store = Watched()
    store.before_read = fails
    with pytest.raises(StoreError):
        await store.session("alice").__aenter__()
    assert store.data.claims == {}
    store.before_release = fails
    with pytest.raises(StoreError) as caught:
        await store.session("alice").__aenter__()
    assert caught.value.__notes__ == ["on leaving its session: the disk is full"]


@pytest.mark.parametrize(
    ("record", "detail"),
    [
        (SessionRecord("{"), "$: not JSON, at character 1"),
        (SessionRecord('{"type":"session","id":"a"}'), "$.type: expected 'session_head', got 'session'"),
        (SessionRecord('{"type":"session_head"}', ["[]"]), "$.messages[0]: expected an object with a type"),
        (
            SessionRecord('{"type":"session_head"}', ['{"type":"message","role":"user","parts":[]}', "x"]),
            "$.messages[1]: not JSON",
        ),
        (SessionRecord('{"type":"session_head","system":""}'), "$: the system instruction of a session must not"),
        (SessionRecord('{"type":"session_head","later":1}'), "$.later: 'session_head' has no such field"),
    ],
)
async def test_what_cannot_be_read_is_named_by_its_path(record: SessionRecord, detail: str) -> None:
    store = Watched(MemoryData({"alice": record}))
    for read in (store.load("alice"), store.session("alice").__aenter__()):
        with pytest.raises(StoreError) as caught:
            await read
        assert caught.value.detail.startswith(f"what the store has of this session cannot be read: {detail}")
        assert caught.value.__context__ is None
    assert store.data.claims == {}
    assert store.data.records == {"alice": record}


async def test_a_lease_that_outlives_the_block_saves_no_more() -> None:
    store = Watched()
    async with store.session("alice") as session:
        lease = session.lease()
        lease.append([USER])
    assert await store.stored() == (USER,)
    lease.append([ANSWER])
    with pytest.raises(ConfigError, match=r"the block of store.session\(\) was left"):
        await lease.save()
    assert await store.stored() == (USER,)


CHANGES: dict[str, Callable[[Session], object]] = {
    "append": lambda session: session.append(ANSWER),
    "clear": Session.clear,
    "set_system": lambda session: session.set_system("Be long."),
    "lease": Session.lease,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_what_would_change_a_session_after_its_block_is_refused(change: Callable[[Session], object]) -> None:
    store = Watched()
    async with store.session("alice", system="Be brief.") as session:
        pass
    with pytest.raises(ConfigError, match=r"the block of store.session\(\) was left"):
        change(session)
    assert (session.messages, session.system, session.in_use) == ((), "Be brief.", False)


async def test_what_comes_while_the_last_save_is_written_is_refused() -> None:
    store = Watched()

    async def too_late() -> None:
        with pytest.raises(ConfigError, match=r"the block of store.session\(\) was left"):
            session.append(ANSWER)

    async with store.session("alice") as session:
        session.append(USER)
        store.before_write = too_late
    assert session.messages == await store.stored() == (USER,)


async def test_a_step_that_has_no_json_form_is_not_made_by_half() -> None:
    store = Watched()
    good, bad = ToolLoop(Request("m").user("x")), ToolLoop(Request("m", seed=2**70).user("x"))
    strange = Message.user(Text("hi", Opaque("function", cast("Any", object()))))
    async with store.session("alice", system="Be brief.") as session:
        with session.lease() as lease:
            lease.advance([USER], good)
            for messages, loop in (([ANSWER], bad), ([ANSWER, strange], None)):
                with pytest.raises(ConfigError):
                    lease.advance(messages, loop)
                assert session.messages == (USER,)
                assert session.suspended == good.with_history([USER])
            await lease.save()
            assert await store.stored() == (USER,)
            lease.advance([ANSWER], None)
            assert session.suspended is None
    assert await store.stored() == session.messages == (USER, ANSWER)


async def test_a_save_that_is_cancelled_while_it_waits_gives_no_turn_back_that_it_did_not_have() -> None:
    store = Watched()
    goes_on, begun, writing, most = anyio.Event(), 0, 0, 0

    async def alone() -> None:
        nonlocal begun, writing, most
        begun, writing = begun + 1, writing + 1
        most = max(most, writing)
        await goes_on.wait()
        writing -= 1

    store.before_write = alone
    with anyio.fail_after(SECONDS):
        async with store.session("alice") as session:
            with session.lease() as lease:
                async with anyio.create_task_group() as tasks:
                    lease.append([USER])
                    tasks.start_soon(lease.save)
                    await anyio.wait_all_tasks_blocked()
                    async with anyio.create_task_group() as second:
                        second.start_soon(lease.save)
                        await anyio.wait_all_tasks_blocked()
                        second.cancel_scope.cancel()
                    lease.append([ANSWER])
                    tasks.start_soon(lease.save)
                    await anyio.wait_all_tasks_blocked()
                    assert begun == 1
                    goes_on.set()
    assert (begun, most) == (2, 1)
    assert await store.stored() == (USER, ANSWER)


async def test_saves_from_many_tasks_come_one_after_the_other() -> None:
    store = Watched()
    under_way = 0

    async def alone() -> None:
        nonlocal under_way
        under_way += 1
        assert under_way == 1
        await anyio.lowlevel.checkpoint()
        under_way -= 1

    store.before_write = alone
    with anyio.fail_after(SECONDS):
        async with store.session("alice") as session:
            with session.lease() as lease:

                async def work(number: int) -> None:
                    lease.append([Message.user(str(number))])
                    await lease.save()

                async with anyio.create_task_group() as tasks:
                    for number in range(10):
                        tasks.start_soon(work, number)
                assert await store.stored() == session.messages
    assert len(session.messages) == 10


async def test_it_is_entered_once_and_is_one_of_a_kind() -> None:
    store = Watched()
    block = store.session("alice")
    assert repr(block) == "<OpenSession 'alice'>"
    with pytest.raises(ConfigError, match="was not entered"):
        await block.__aexit__(None, None, None)
    async with block:
        with pytest.raises(ConfigError, match="entered once"):
            await block.__aenter__()
    with pytest.raises(ConfigError, match="entered once"):
        await block.__aenter__()
    with pytest.raises(ConfigError, match="one of a kind"):
        copy.copy(block)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_wrong_arguments() -> None:
    store = Watched()
    wrong: Any = 1
    makes: list[Callable[[], object]] = [lambda: store.session(""), lambda: store.session(wrong)]
    makes.append(lambda: store.session("a", system=""))
    for make in makes:
        with pytest.raises(ConfigError):
            make()
    with pytest.raises(ConfigError):
        await store.load("")
    for change in ((-1, (), ""), (True, (), ""), (0, "text", ""), (0, [1], ""), (0, wrong, ""), (0, (), wrong)):
        values: Any = change
        with pytest.raises(ConfigError):
            SessionChange(*values)
    assert "secret" not in repr(SessionChange(0, ["secret"], "secret")) + repr(SessionRecord("secret", ["secret"]))


def test_a_store_that_lacks_a_method_is_none() -> None:
    class Incomplete(SessionStore):
        async def ids(self) -> tuple[str, ...]:
            return ()

    incomplete: Any = Incomplete
    with pytest.raises(TypeError, match="abstract"):
        incomplete()
    assert issubclass(WatchedClaim, SessionClaim)
    assert isinstance(SqliteStore("x").session("a"), OpenSession)


async def test_a_loaded_session_is_of_no_store() -> None:
    store = Watched()
    assert await store.load("alice") is None
    async with store.session("alice") as session:
        session.append(USER)
        with session.lease() as lease:
            await lease.save()
        loaded = await store.load("alice")
        assert isinstance(loaded, Session)
        loaded.append(ANSWER)
        with loaded.lease() as lease:
            await lease.save()
    assert await store.stored() == (USER,)

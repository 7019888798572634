"""Generations of a stored session: each step is on the disk when it is told, and what a store fails is not lost."""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
import sqlite3
import sys
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

import anyio
import pytest

import svir_client.generation.steps
from svir_client import RoundResults, SqliteStore, Tools, Trace, generate, generate_stream, resume
from svir_client.session import SessionChange
from svir_client.testing import cancelled_at_every_await
from svir_client.tracing import memory
from svir_core import (
    Completed,
    Completion,
    ConfigError,
    LoopPhase,
    Opaque,
    Request,
    ServerError,
    StoreError,
    Text,
)
from tests.svir_client.chat import SECONDS
from tests.svir_client.generation.generations import asks, assert_at_rest, call, roles, says, scripted_by
from tests.svir_client.session.memory_store import MemoryClaim, MemoryData, MemoryStore

pytestmark = pytest.mark.anyio

ASKED = asks(call("a"), call("b"))
ANSWERS = (ASKED, says("done"))


# --- on the disk -------------------------------------------------------------------------------------


class Disk:
    """What another program sees in the file."""

    def __init__(self, path: pathlib.Path) -> None:
        self._address = f"{path.as_uri()}?mode=ro"

    def look(self) -> tuple[int, str | None]:
        """How many messages there are, and the phase and round of what did not finish."""
        with contextlib.closing(sqlite3.connect(self._address, uri=True)) as connection:
            (messages,) = connection.execute("SELECT count(*) FROM message").fetchone()
            (head,) = connection.execute("SELECT head FROM session").fetchone()
        suspended = json.loads(head).get("suspended")
        if suspended is None:
            return messages, None
        return messages, f"{suspended.get('phase', 'model')} {suspended.get('rounds', 0)}"


async def test_each_step_is_on_the_disk_when_it_is_told(tmp_path: pathlib.Path, tools: Tools) -> None:
    path = tmp_path / "sessions.db"
    disk, seen = Disk(path), list[tuple[str, int, str | None]]()

    @tools.tool
    async def looks() -> str:
        seen.append(("tool", *disk.look()))
        return "seen"

    def looked(answer: Completion) -> Any:
        def model(request: Request) -> Completion:
            seen.append(("model", *disk.look()))
            assert len(request.messages) == disk.look()[0]
            return answer

        return model

    answers = [looked(answer) for answer in (asks(call("a", "looks")), says("done"))]
    async with scripted_by(*answers) as (_, client), SqliteStore(path).session("alice") as session:
        async with generate_stream(client, session, "hi", model="m", tools=tools) as run:
            seen.append(("entered", *disk.look()))
            async for event in run:
                if isinstance(event, RoundResults):
                    seen.append(("results", *disk.look()))
                elif isinstance(event.event, Completed):
                    seen.append(("completed", *disk.look()))
        assert disk.look() == (4, None)
    assert seen == [
        ("entered", 1, "model 0"),
        ("model", 1, "model 0"),
        ("completed", 1, "tools 1"),
        ("tool", 1, "tools 1"),
        ("results", 3, "model 1"),
        ("model", 3, "model 1"),
        ("completed", 4, None),
    ]


async def test_a_stored_session_goes_on_in_another_block(tmp_path: pathlib.Path, tools: Tools) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    async with scripted_by(ASKED, ServerError("no"), "done") as (_, client):
        async with store.session("alice", system="s") as session:
            with pytest.raises(ServerError):
                await generate(client, session, "hi", model="m", tools=tools)
        async with store.session("alice") as session:
            assert session.suspended is not None
            assert isinstance(session.suspended.error, ServerError)
            answer = await resume(client, session, tools=tools)
        stored = await store.load("alice")
    assert stored is not None
    assert (answer.messages, stored.system, stored.suspended) == (stored.messages, "s", None)


async def test_rolled_back_on_the_disk_too(tmp_path: pathlib.Path, tools: Tools) -> None:
    path = tmp_path / "sessions.db"
    async with (
        scripted_by("ok", ASKED, ServerError("no")) as (_, client),
        SqliteStore(path).session("alice") as session,
    ):
        await generate(client, session, "first", model="m")
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m", tools=tools, rollback=True)
        assert Disk(path).look() == (2, None)


async def test_cancelled_at_every_await_what_is_stored_goes_on(tmp_path: pathlib.Path, tools: Tools) -> None:
    store, number = SqliteStore(tmp_path / "sessions.db"), 0

    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        nonlocal number
        number += 1
        async with scripted_by(*ANSWERS) as (script, client):
            async with store.session(f"s{number}") as session:
                yield generate(client, session, "hi", model="m", tools=tools)
                assert_at_rest(session)
                stored = await store.load(session.id)
                assert (() if stored is None else stored.messages) == session.messages
                assert (None if stored is None else stored.suspended) == session.suspended
            async with store.session(f"s{number}") as session:
                left = session.suspended
                if left is not None:
                    script.answers[:] = ANSWERS[left.rounds :]
                    answer = await resume(client, session, tools=tools)
                    assert (answer.text, answer.rounds, answer.tool_calls) == ("done", 2, 2)
                assert roles(session) in ([], ["u", "a", "t", "a"])

    with anyio.fail_after(5 * SECONDS):
        assert await cancelled_at_every_await(attempt) > 5


# --- a store that fails ------------------------------------------------------------------------------


class FailingClaim(MemoryClaim):
    async def write(self, change: SessionChange) -> None:
        store = self.store
        assert isinstance(store, FailingStore)
        store.writes += 1
        if store.writes in store.failing:
            raise StoreError("the disk is full")
        if store.writes in store.stuck:
            await anyio.sleep_forever()
        await super().write(change)


class FailingStore(MemoryStore):
    """Its writes of these numbers fail, or never end; they count from 1."""

    def __init__(self, *failing: int, stuck: frozenset[int] = frozenset()) -> None:
        super().__init__(MemoryData())
        self.failing = frozenset(failing)
        self.stuck = stuck
        self.writes = 0

    def claim_of(self, id: str) -> FailingClaim:
        return FailingClaim(self, id)


@pytest.mark.parametrize("write", [1, 2, 3, 4])
@pytest.mark.parametrize("twice", [False, True])
async def test_a_step_that_could_not_be_stored_is_in_the_session_and_stored_with_the_next(
    tools: Tools, write: int, twice: bool
) -> None:
    """Writes of one generation: its input, the answer with calls, their results, the last answer."""
    store = FailingStore(write, *([write + 1] if twice else []))
    async with scripted_by(*ANSWERS) as (script, client), store.session("alice") as session:
        with pytest.raises(StoreError, match="the disk is full") as caught:
            await generate(client, session, "hi", model="m", tools=tools)
        assert_at_rest(session)
        assert ("on leaving the generation: the disk is full" in getattr(caught.value, "__notes__", [])) is twice
        progress = caught.value.progress
        assert progress is not None
        assert progress.messages == session.messages
        assert progress.rounds == {1: 0, 2: 1, 3: 1, 4: 2}[write]
        left = session.suspended
        assert left is not None
        assert left.phase is (LoopPhase.MODEL, LoopPhase.TOOLS, LoopPhase.MODEL, LoopPhase.FINISHED)[write - 1]
        assert isinstance(left.error, StoreError) is (write != 4)
        answer = await resume(client, session, tools=tools)
        assert (answer.text, answer.rounds, answer.tool_calls) == ("done", 2, 2)
        assert len(script.requests) == 2
        stored = await store.load("alice")
        assert stored is not None
        assert (stored.messages, stored.suspended) == (session.messages, None)
    assert roles(stored) == ["u", "a", "t", "a"]


async def test_who_leaves_while_the_store_fails_is_told() -> None:
    store = FailingStore(2)
    async with scripted_by("ok") as (_, client), store.session("alice") as session:
        run = generate_stream(client, session, "hi", model="m", rollback=True)
        with pytest.raises(StoreError) as caught:
            async with run:
                await anext(run)
        assert_at_rest(session)
        progress = caught.value.progress
        assert progress is not None
        assert (progress, len(progress.messages), session.messages) == (run.progress, 1, ())


async def test_who_leaves_by_an_exception_while_the_store_fails_has_that_and_a_note() -> None:
    store = FailingStore(2)
    async with scripted_by("ok") as (_, client), store.session("alice") as session:
        run = generate_stream(client, session, "hi", model="m", rollback=True)

        async def leaves() -> None:
            async with run:
                await anext(run)
                raise LookupError("mine")

        with pytest.raises(LookupError) as caught:
            await leaves()
        assert caught.value.__notes__ == ["on leaving the generation: the disk is full"]
        assert_at_rest(session)


async def test_who_leaves_by_an_error_of_its_own_has_that_and_a_note_of_the_store() -> None:
    store = FailingStore(2)
    async with scripted_by(LookupError("mine")) as (_, client), store.session("alice") as session:
        with pytest.raises(LookupError) as caught:
            await generate(client, session, "hi", model="m", rollback=True)
        assert caught.value.__notes__ == ["on leaving the generation: the disk is full"]
        assert session.messages == ()


async def test_a_store_that_never_answers_holds_nobody_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svir_client.generation.steps, "SAVE_SECONDS", 0.01)
    store = FailingStore(stuck=frozenset({2}))
    async with scripted_by(LookupError("mine")) as (_, client), store.session("alice") as session:
        with pytest.raises(LookupError):
            await generate(client, session, "hi", model="m", rollback=True)
        assert_at_rest(session)
    assert await store.load("alice") is not None


# --- what no store can hold --------------------------------------------------------------------------

ANYTHING: Any = object()  # as a tool of the caller's, that no checker has seen, may give
UNSTORABLE = Opaque("function", ANYTHING)


async def test_a_result_that_has_no_json_form_is_refused_and_the_step_is_not_made(tools: Tools) -> None:
    strange = True

    @tools.tool
    async def given() -> Text:
        return Text("hm", UNSTORABLE) if strange else Text("plain")

    store = FailingStore()
    async with scripted_by(asks(call("a", "given")), "done") as (_, client), store.session("alice") as session:
        with pytest.raises(ConfigError) as caught:
            await generate(client, session, "hi", model="m", tools=tools)
        assert_at_rest(session)
        assert caught.value.progress is not None
        assert (caught.value.progress.tool_calls, roles(session)) == (0, ["u"])
        strange = False
        assert (await resume(client, session, tools=tools)).tool_calls == 1
    assert roles(session) == ["u", "a", "t", "a"]


async def test_an_input_or_settings_that_no_store_can_hold_are_refused_before_anything_is_stored() -> None:
    store, sink = FailingStore(), memory()
    async with (
        scripted_by("plain", layers=[Trace(sink)]) as (_, client),
        store.session("alice", system="Be brief.") as session,
    ):
        wrong: list[tuple[Any, dict[str, Any]]] = [
            (Text("hi", UNSTORABLE), {}),
            ("hi", {"extra": {"x": object()}}),
            ("hi", {"seed": 2**70}),
            ("hi", {"max_tokens": 2**70}),
        ]
        for input, options in wrong:
            with pytest.raises(ConfigError):
                await generate(client, session, input, model="m", **options)
            assert (session.messages, session.suspended, store.writes, sink.events) == ((), None, 0, ())
            assert_at_rest(session)
        assert (await generate(client, session, "hi", model="m")).text == "plain"


class OfOurOwn(ServerError):
    """What a layer of the caller's raises: it has no JSON form, and is kept as one of svir's."""


async def test_an_error_that_no_store_can_hold_is_raised_and_kept_as_one_of_svirs(tools: Tools) -> None:
    store = FailingStore()
    async with scripted_by(ASKED, OfOurOwn("no"), says("done")) as (_, client), store.session("alice") as session:
        with pytest.raises(OfOurOwn):
            await generate(client, session, "hi", model="m", tools=tools)
        assert_at_rest(session)
        assert roles(session) == ["u", "a", "t"]
        assert session.suspended is not None
        assert session.suspended.error == ServerError("no")
        assert (await resume(client, session, tools=tools)).text == "done"


# --- a process that dies -----------------------------------------------------------------------------

DIES = """
import anyio, os, signal, sys
from svir_client import FunctionModel, SqliteStore, Tools, generate_stream
from svir_core import Completion, ToolCall

path, when = sys.argv[1:]
tools = Tools()

def die(here):
    if here == when:
        os.kill(os.getpid(), signal.SIGKILL)

@tools.tool
async def f() -> str:
    die("tool")
    return "done"

async def model(request):
    number = 1 if len(request.messages) == 1 else 2
    die(f"model {number}")
    return Completion("tool_calls", [ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")]) if number == 1 else "done"

async def main():
    async with SqliteStore(path).session("alice") as session, FunctionModel(model) as client:
        async with generate_stream(client, session, "hi", model="m", tools=tools) as run:
            die("entered")
            async for event in run:
                die(f"{type(getattr(event, 'event', event)).__name__} {event.round}")

anyio.run(main)
"""


@pytest.mark.parametrize(
    ("when", "messages", "left"),
    [
        ("entered", 1, "model 0"),
        ("model 1", 1, "model 0"),
        ("ToolCallDelta 1", 1, "model 0"),
        ("Completed 1", 1, "tools 1"),
        ("tool", 1, "tools 1"),
        ("RoundResults 1", 3, "model 1"),
        ("model 2", 3, "model 1"),
        ("Completed 2", 4, None),
    ],
)
async def test_a_process_that_is_killed_leaves_what_it_was_told(
    tmp_path: pathlib.Path, tools: Tools, when: str, messages: int, left: str | None
) -> None:
    path = tmp_path / "sessions.db"
    with anyio.fail_after(SECONDS):
        died = await anyio.run_process([sys.executable, "-c", DIES, str(path), when], check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    assert Disk(path).look() == (messages, left)
    async with SqliteStore(path).session("alice") as session:
        suspended = session.suspended
        if suspended is not None:
            async with scripted_by(*ANSWERS[suspended.rounds :]) as (_, client):
                answer = await resume(client, session, tools=tools)
            assert (answer.text, answer.rounds, answer.tool_calls) == ("done", 2, 2)
        assert roles(session) == ["u", "a", "t", "a"]
        assert_at_rest(session)
    assert Disk(path).look() == (4, None)

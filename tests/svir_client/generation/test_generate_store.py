"""Generations of a stored session: each step is on the disk when it is told, and nobody waits meanwhile to look."""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import signal
import sqlite3
import sys
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

import anyio
import pytest

from svir_client import RoundResults, SessionState, SqliteStore, Tools, generate, generate_stream, resume
from svir_client.session import SessionChange
from svir_client.testing import cancelled_at_every_await
from svir_core import (
    Completed,
    Completion,
    Message,
    Request,
    ServerError,
    SessionInUseError,
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


# --- a store that is slow ----------------------------------------------------------------------------


class SlowClaim(MemoryClaim):
    async def write(self, change: SessionChange) -> None:
        store = self.store
        assert isinstance(store, SlowStore)
        store.writing.set()
        await store.go_on.wait()
        await super().write(change)


class SlowStore(MemoryStore):
    """One whose writes wait until they may go on."""

    def __init__(self) -> None:
        super().__init__(MemoryData())
        self.writing = anyio.Event()
        self.go_on = anyio.Event()

    def claim_of(self, id: str) -> SlowClaim:
        return SlowClaim(self, id)


async def test_the_model_is_asked_once_the_input_is_stored_and_nobody_waits_for_the_store_to_look() -> None:
    store, stored = SlowStore(), list[tuple[Message, ...]]()

    async def model(request: Request) -> str:
        copy = await store.load("s")
        stored.append(() if copy is None else copy.messages)
        return "ok"

    def count(state: SessionState) -> int:
        return state.update("n", 0, lambda number: number + 1)

    async with (
        scripted_by(model) as (_, client),
        store.session("s") as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(functools.partial(generate, client, session, "hi", model="m"))
        await store.writing.wait()
        assert (session.messages, stored) == ((Message.user("hi"),), [])
        assert (count(session.state), count(session.state)) == (1, 2)
        with pytest.raises(SessionInUseError):
            session.append(Message.user("me too"))
        store.go_on.set()
    assert stored == [(Message.user("hi"),)]
    copy = await store.load("s")
    assert copy is not None
    assert copy.messages == (Message.user("hi"), Message.assistant("ok"))


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

"""A generation in a session of the SQLite store: saved at each step, and gone on with where it was left."""

from __future__ import annotations

import pathlib

import anyio
import orjson
import pytest

from svir_client import FunctionModel, Session, SqliteStore, Tools, generate, resume
from svir_client.session import SessionRecord
from svir_client.session.form import read_record
from svir_core import (
    Completion,
    ConfigError,
    GenerationOutcome,
    Message,
    Request,
    Role,
    StoreError,
    Text,
    ToolCall,
    ToolLoop,
    ToolResult,
    TransportError,
)

pytestmark = pytest.mark.anyio

SECONDS = 30
CALL = ToolCall("c1", "remove", '{"name": "a"}')


async def counts(store: SqliteStore) -> tuple[int, bool]:
    """How many messages are stored, and whether a generation is suspended."""
    stored = await store.load("alice")
    return (0, False) if stored is None else (len(stored.messages), stored.suspended is not None)


async def test_each_step_is_stored_before_the_next(tmp_path: pathlib.Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    seen: list[tuple[int, bool]] = []
    tools = Tools()

    @tools.tool
    async def remove(name: str) -> str:
        seen.append(await counts(store))
        return name

    async def model(request: Request) -> Completion:
        seen.append(await counts(store))
        results = [message for message in request.messages if message.role is Role.TOOL]
        return Completion("stop", [Text("done")]) if results else Completion("tool_calls", [CALL])

    with anyio.fail_after(SECONDS):
        async with store.session("alice") as session:
            answer = await generate(FunctionModel(model), session, "Clean up.", model="m", tools=tools)
            assert answer.text == "done"
            seen.append(await counts(store))
    assert seen == [(1, True), (1, True), (3, True), (4, False)]


async def test_an_approval_comes_in_another_process(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "sessions.db"
    removed: list[str] = []
    tools = Tools()

    @tools.tool(requires_approval=True)
    async def remove(name: str) -> str:
        removed.append(name)
        return "removed"

    async def model(request: Request) -> Completion:
        last = request.messages[-1].parts[0]
        return Completion("stop", [Text("done")]) if isinstance(last, ToolResult) else Completion("tool_calls", [CALL])

    with anyio.fail_after(SECONDS):
        async with SqliteStore(path).session("alice") as session:
            answer = await generate(FunctionModel(model), session, "Clean up.", model="m", tools=tools)
            assert answer.outcome is GenerationOutcome.AWAITING_APPROVAL
            left = session.dumps()
        async with SqliteStore(path).session("alice") as session:
            assert session.dumps() == left
            assert removed == []
            answer = await resume(FunctionModel(model), session, approvals={CALL.id: True}, tools=tools)
            assert (answer.text, answer.rounds, answer.tool_calls) == ("done", 2, 1)
            assert session.suspended is None
    assert removed == ["a"]
    assert await counts(SqliteStore(path)) == (4, False)


@pytest.mark.parametrize("rollback", [False, True])
async def test_what_a_failure_leaves_is_what_is_stored(tmp_path: pathlib.Path, rollback: bool) -> None:
    store = SqliteStore(tmp_path / "sessions.db")

    async def model(request: Request) -> Completion:
        raise TransportError("gone")

    async def again(request: Request) -> Completion:
        return Completion("stop", [Text("done")])

    with anyio.fail_after(SECONDS):
        async with store.session("alice") as session:
            with pytest.raises(TransportError):
                await generate(FunctionModel(model), session, "Hello!", model="m", rollback=rollback)
            assert await counts(store) == ((0, False) if rollback else (1, True))
        if rollback:
            return
        async with store.session("alice") as session:
            assert (await resume(FunctionModel(again), session)).text == "done"
    assert await counts(store) == (2, False)


@pytest.mark.parametrize("start", [1, 7])
async def test_a_generation_that_began_after_the_last_message_is_refused(start: int) -> None:
    session = Session(messages=[Message.user("hi")])
    with session.lease() as lease:
        lease.suspend(ToolLoop(Request("m").user("hi")))
    document = orjson.loads(session.dumps())
    assert Session.loads(orjson.dumps(document)).suspended == session.suspended
    document["suspended"]["start"] = start
    with pytest.raises(ConfigError, match=rf"\$\.suspended\.start: {start}, and there are 1 messages"):
        Session.loads(orjson.dumps(document))
    head = {"type": "session_head", "suspended": document["suspended"]}
    stored = SessionRecord(orjson.dumps(head).decode(), [orjson.dumps(document["messages"][0]).decode()])
    with pytest.raises(StoreError, match=r"\$\.suspended\.start"):
        read_record("alice", stored)

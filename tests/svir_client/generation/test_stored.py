"""A generation on a session of a store: what is stored before what, and what nobody waits for meanwhile."""

from __future__ import annotations

import anyio
import pytest

from svir_client import FunctionModel, SessionState, Tools, generate
from svir_client.session import SessionChange
from svir_core import Message, Request, SessionInUseError
from tests.svir_client.chat import SECONDS
from tests.svir_client.session.memory_store import MemoryClaim, MemoryData, MemoryStore

pytestmark = pytest.mark.anyio


class SlowStore(MemoryStore):
    """One whose writes wait until they may go on."""

    def __init__(self) -> None:
        super().__init__(MemoryData())
        self.writing = anyio.Event()
        self.go_on = anyio.Event()

    def claim_of(self, id: str) -> MemoryClaim:
        return SlowClaim(self, id)


class SlowClaim(MemoryClaim):
    async def write(self, change: SessionChange) -> None:
        store = self.store
        assert isinstance(store, SlowStore)
        store.writing.set()
        await store.go_on.wait()
        await super().write(change)


async def test_the_model_is_asked_once_the_input_is_stored_and_nobody_waits_for_the_store_to_look() -> None:
    store = SlowStore()
    stored: list[tuple[Message, ...]] = []

    async def model(request: Request) -> str:
        copy = await store.load("s")
        stored.append(() if copy is None else copy.messages)
        return "ok"

    def count(state: SessionState) -> int:
        return state.update("n", 0, lambda number: number + 1)

    with anyio.fail_after(SECONDS):
        async with FunctionModel(model) as client, store.session("s") as session, anyio.create_task_group() as tasks:

            async def run() -> None:
                await generate(client, session, "hi", model="m", tools=Tools())

            tasks.start_soon(run)
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

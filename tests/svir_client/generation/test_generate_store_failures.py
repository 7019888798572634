"""Generations of a stored session whose store fails, or cannot hold what it is given: nothing of them is lost."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import svir_client.generation.steps
from svir_client import Tools, Trace, generate, generate_stream, resume
from svir_client.session import SessionChange
from svir_client.tracing import memory
from svir_core import (
    ConfigError,
    LoopPhase,
    Opaque,
    ServerError,
    StoreError,
    Text,
)
from tests.svir_client.generation.generations import asks, assert_at_rest, call, roles, says, scripted_by
from tests.svir_client.session.memory_store import MemoryClaim, MemoryData, MemoryStore

pytestmark = pytest.mark.anyio

ASKED = asks(call("a"), call("b"))
ANSWERS = (ASKED, says("done"))


# --- a store that fails ------------------------------------------------------------------------------


STUCK_SECONDS = 2
"""A write that is stuck gives up then: who waits for it shields that wait from the limits of a test."""


class FailingClaim(MemoryClaim):
    async def write(self, change: SessionChange) -> None:
        store = self.store
        assert isinstance(store, FailingStore)
        store.writes += 1
        if store.writes in store.failing:
            raise StoreError("the disk is full")
        if store.writes in store.stuck:
            with anyio.fail_after(STUCK_SECONDS):
                await anyio.sleep_forever()
        await super().write(change)


class FailingStore(MemoryStore):
    """Its writes of these numbers fail, or are stuck; they count from 1."""

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
        with pytest.raises(LookupError) as caught:
            await generate(client, session, "hi", model="m", rollback=True)
        assert getattr(caught.value, "__notes__", []) == []
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

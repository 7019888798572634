"""Whatever a model answers, whatever fails, wherever it is interrupted and stored: a generation that goes on comes to
what it would have come to, and no history is ever without the results of its calls."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import anyio
import anyio.lowlevel
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client import FunctionModel, Session, Tools, generate, resume
from svir_core import (
    Completion,
    FinishReason,
    Generation,
    GenerationOutcome,
    LoopLimits,
    LoopPhase,
    MaxRoundsError,
    MaxToolCallsError,
    Request,
    ServerError,
    Text,
    ToolCall,
    Usage,
)
from tests.svir_client.chat import SECONDS
from tests.svir_client.generation.generations import assert_at_rest, says

AMPLE = LoopLimits(rounds=50, tool_calls=200)
ARGUMENTS = {"works": "{}", "fails": "{}", "stops": "{}", "asks": "{}", "nobody": "{}", "cut": '{"a'}
NAMES = {"cut": "works"}
"""What a call that was cut off would have called."""


@attrs.frozen
class Faults:
    """What goes wrong: before which answers the server fails, in which rounds somebody cancels while a tool runs, and
    what the first try may cost."""

    fails: frozenset[int]
    cancelled: frozenset[int]
    rounds: int
    calls: int


@st.composite
def answers(draw: st.DrawFn) -> list[Completion]:
    """Rounds that ask for more, and one that does not."""
    made: list[Completion] = []
    for number in range(draw(st.integers(0, 3))):
        usage = draw(st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(0, 9)))
        kinds = draw(st.lists(st.sampled_from(sorted(ARGUMENTS)), max_size=4))
        calls = [
            ToolCall(f"c{number}_{place}", NAMES.get(kind, kind), ARGUMENTS[kind], complete=kind != "cut")
            for place, kind in enumerate(kinds)
        ]
        finish = FinishReason.TOOL_CALLS if calls else FinishReason.PAUSE
        made.append(Completion(finish, [Text(f"round {number}"), *calls], usage=usage))
    return [*made, says("done", draw(st.none() | st.just(Usage(1, 2, 3))))]


faults = st.builds(
    Faults,
    st.frozensets(st.integers(0, 3)),
    st.frozensets(st.integers(0, 3)),
    st.integers(1, 3),
    st.integers(1, 5),
)


class World:
    """A model that follows its rounds, and tools; each fault happens once."""

    def __init__(self, answers: Sequence[Completion], faults: Faults | None = None) -> None:
        self._answers = answers
        self._fails = set[int]() if faults is None else set(faults.fails)
        self._cancelled = set[int]() if faults is None else set(faults.cancelled)
        self._round = 0
        self.scope = anyio.CancelScope()
        self.tools = Tools()
        for tool in (self.works, self.fails, self.stops):
            self.tools.add(tool)
        self.tools.add(self.asks, requires_approval=True)

    async def model(self, request: Request) -> Completion:
        said = sum(message.role.value == "assistant" for message in request.messages)
        self._round = said
        if said in self._fails:
            self._fails.remove(said)
            raise ServerError(f"before answer {said}")
        return self._answers[said]

    async def works(self) -> str:
        await anyio.lowlevel.checkpoint()
        return "works"

    async def fails(self) -> str:
        raise ValueError("fails")

    async def asks(self) -> str:
        return "asked"

    async def stops(self) -> str:
        if self._round in self._cancelled:
            self._cancelled.remove(self._round)
            self.scope.cancel()
            await anyio.sleep_forever()
        return "stops"


def decisions_on(session: Session) -> dict[str, bool] | None:
    """A yes to each call that waits; ``None`` when none does."""
    loop = session.suspended
    if loop is None or loop.phase is not LoopPhase.APPROVAL:
        return None
    return {call.id: True for call in loop.generation.awaiting}


async def run(world: World, session: Session, limits: LoopLimits | None) -> Generation | None:
    """One try, by a client of its own: what it came to, ``None`` when it was cancelled."""
    async with FunctionModel(world.model) as client:
        with anyio.CancelScope() as world.scope:
            if session.suspended is None:
                return await generate(client, session, "hi", model="m", tools=world.tools, limits=limits)
            decisions = decisions_on(session)
            return await resume(client, session, tools=world.tools, limits=limits, approvals=decisions)
    return None


async def to_its_end(world: World, session: Session, limits: LoopLimits | None) -> tuple[Generation, Session]:
    """Try after try, the session stored and read again between them."""
    for _ in range(40):
        came = None
        try:
            came = await run(world, session, limits)
            limits = None
        except ServerError:
            limits = None
        except (MaxRoundsError, MaxToolCallsError):
            limits = AMPLE
        assert_at_rest(session)
        if came is not None and came.outcome is GenerationOutcome.ANSWERED:
            return came, session
        session = Session.loads(session.dumps())
    raise AssertionError("it never came to its end")


async def compare(rounds: list[Completion], faults: Faults) -> None:
    with anyio.fail_after(SECONDS):
        wanted, whole = await to_its_end(World(rounds), Session("s"), AMPLE)
        first = LoopLimits(rounds=faults.rounds, tool_calls=faults.calls)
        came, session = await to_its_end(World(rounds, faults), Session("s"), first)
    assert came == wanted
    assert session.dumps() == whole.dumps()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(answers(), faults)
def test_interrupted_and_stored_anywhere_it_comes_to_the_same(
    backend: str, rounds: list[Completion], faults: Faults
) -> None:
    anyio.run(functools.partial(compare, rounds, faults), backend=backend)

"""Whatever a model and its tools do, and however a generation is left: every start has one end, in one tree."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
from hypothesis import given
from hypothesis import strategies as st

from svir_client import FunctionModel, Retry, Session, Tools, Trace, generate_stream
from svir_client.generation.stream import GenerationStream
from svir_client.tracing import EventType, GenerationEnd, GenerationFailure, Outcome, memory
from svir_core.errors import ConfigError, SvirError, TransportError
from svir_core.generation import Generation
from svir_core.loop_limits import LoopLimits
from svir_core.message import Text, ToolCall
from svir_core.request import Request
from svir_core.response import Completion, FinishReason, Usage
from tests.svir_client.chat import SECONDS
from tests.svir_client.layers.calls import Clock
from tests.svir_client.tracing.sinks.telemetry import Telemetry
from tests.svir_client.tracing.test_generate import check_tree

TOOLS = ("look", "broken", "nowhere", "delete", "nested", "wait")

ROUNDS = st.one_of(
    st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3),
    st.sampled_from(["pause", "down", "bug", "answer"]),
)


def answer_of(round: list[str] | str, number: int) -> Completion:
    """What the model says in a round; raises what it fails of."""
    if round == "down":
        raise TransportError("canary", unsent=True)
    if round == "bug":
        raise LookupError("canary")
    if isinstance(round, list):
        calls = tuple(ToolCall(f"{number}-{each}", name, "{}") for each, name in enumerate(round))
        return Completion(FinishReason.TOOL_CALLS, calls, usage=Usage(input=1))
    finish = FinishReason.PAUSE if round == "pause" else FinishReason.STOP
    return Completion(finish, (Text("canary"),), usage=Usage(input=1))


def scripted(rounds: list[list[str] | str], layers: list[Any]) -> FunctionModel:
    script: Iterator[tuple[int, list[str] | str]] = iter(enumerate([*rounds, "answer", "answer", "answer"]))

    def model(request: Request) -> Completion:
        number, round = next(script)
        return answer_of(round, number)

    return FunctionModel(model, layers=layers)


def registry(inner: FunctionModel, scope: anyio.CancelScope, way: str) -> Tools:
    tools = Tools()

    @tools.tool
    def look() -> str:
        return "canary"

    @tools.tool
    def broken() -> str:
        raise LookupError("canary")

    @tools.tool(requires_approval=True)
    def delete() -> str:
        return "canary"

    @tools.tool
    async def nested() -> str:
        async with generate_stream(inner, None, "canary", model="inner") as run:
            async for _ in run:
                pass
        return run.generation.text

    @tools.tool
    async def wait() -> str:
        if way == "cancel":
            scope.cancel()
        await anyio.lowlevel.checkpoint()
        return "canary"

    return tools


@given(
    st.lists(ROUNDS, max_size=4),
    st.sampled_from(["asyncio", "trio"]),
    st.sampled_from(["read", "break", "cancel", "drop"]),
    st.integers(0, 4),
    st.builds(
        LoopLimits,
        rounds=st.integers(1, 4),
        tool_calls=st.integers(1, 6),
        parallel=st.integers(1, 3),
        stop_on_tool_error=st.booleans(),
    ),
    st.sampled_from([(), ("retry",)]),
    st.booleans(),
)
def test_every_start_has_one_end(
    rounds: list[list[str] | str],
    backend: str,
    way: str,
    after: int,
    limits: LoopLimits,
    between: tuple[str, ...],
    rollback: bool,
) -> None:
    sink, telemetry = memory(), Telemetry()
    trace = Trace(sink, telemetry.sink())
    came: list[Generation | BaseException | None] = []

    async def work() -> None:
        layers: list[Any] = [*[Retry.transient(1, sleep=Clock().sleep) for _ in between], trace]
        async with scripted(["answer"], [trace]) as inner, scripted(rounds, layers) as client:
            scope = anyio.CancelScope()
            tools = registry(inner, scope, way)
            run = generate_stream(client, Session(), "canary", model="m", tools=tools, limits=limits, rollback=rollback)
            with anyio.fail_after(SECONDS), scope:
                came.append(await outcome_of(run, way, after))
            came.append(None)  # what was cancelled came to nothing
            del run
            if way == "drop":
                gc.collect()

    anyio.run(work, backend=backend)
    check_tree(sink)
    assert trace.failures == 0
    assert "canary" not in repr([event.document() for event in sink.events])
    assert len(telemetry.spans) == len({event.span_id for event in sink.events})
    telemetry.close()
    (end,) = [
        event.attributes
        for event in sink.events
        if event.type in {EventType.GENERATION_END, EventType.ERROR} and event.name == "m"
    ]
    check(end, came[0])


async def outcome_of(run: GenerationStream, way: str, after: int) -> Generation | BaseException | None:
    """What it came to; ``None`` when it was left before that."""
    try:
        async with contextlib.AsyncExitStack() as kept:
            await kept.enter_async_context(run)
            number = 0
            async for _ in run:
                if way in {"break", "drop"} and number == after:
                    if way == "break":
                        break
                    kept.pop_all()
                    return None
                number += 1
    except (SvirError, LookupError) as error:
        return error
    with contextlib.suppress(ConfigError):
        return run.generation
    return None


def check(end: object, came: Generation | BaseException | None) -> None:
    """The end says what the caller saw."""
    match came:
        case Generation():
            assert isinstance(end, GenerationEnd)
            assert (end.outcome, end.model_rounds, end.tool_calls) == (came.outcome, came.rounds, came.tool_calls)
            assert (end.usage or Usage()) == came.usage
        case None:
            assert isinstance(end, GenerationEnd)
            assert end.outcome is Outcome.ABANDONED
        case _:
            assert isinstance(end, GenerationFailure)
            assert end.error_class == type(came).__name__
            assert end.error_kind is (came.kind if isinstance(came, SvirError) else None)

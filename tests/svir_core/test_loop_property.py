"""Drawn generations: whatever models, tools, people and networks do, a loop that is stored between any two steps goes
on as the one that never was, in another process too, and what holds of every loop holds after every step."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core import serial
from svir_core.errors import ContentFilterError, RateLimitedError, SvirError, TransportError, TruncatedStreamError
from svir_core.history import check_history
from svir_core.loop import ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import CallModel, Finished
from svir_core.message import Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from svir_core.request import Request, Tool
from svir_core.response import Completion, FinishReason, Partial, Usage
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from tests.svir_core.loop_moves import Move, advance, step_of

ROOT = pathlib.Path(__file__).parents[2]
APIS = (openai_chat.API, openai_responses.API, anthropic_messages.API, gemini.API)
NAMES = ("f", "g", "h")
HISTORIES = (
    Request("m").user("hi"),
    Request("m", system="s", tools=[Tool(name) for name in NAMES]).user("hi"),
    Request("m").user("x").message(Message.assistant(ToolCall("old", "f", "{}"))).tool_result("old", "1"),
    Request("m").user("x").message(Message.assistant("y")).user("hi"),
)

OPAQUE = st.none() | st.builds(Opaque, st.sampled_from([api.name for api in APIS]), st.just('{"signature":"x"}'))
TEXT: st.SearchStrategy[Part] = st.builds(Text, st.text(max_size=5), OPAQUE)
REASONING: st.SearchStrategy[Part] = st.builds(Reasoning, st.just("think"), st.text(max_size=5), OPAQUE)
CALL = st.builds(
    ToolCall,
    st.sampled_from(["a", "b", "c", "d", "e"]),
    st.sampled_from(NAMES),
    st.sampled_from(["", "{}", '{"x": 1}', '{"x": ']),
    st.sampled_from([True, True, False]),
    st.booleans(),
    OPAQUE,
)
BROKEN: st.SearchStrategy[Part] = st.sampled_from([ToolCall("", "f", "{}"), ToolCall("a", "", "{}")])
COUNT = st.none() | st.integers(0, 5) | st.just(2**64 - 1)
USAGE = st.none() | st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT)
PARTS = st.lists(TEXT | REASONING | CALL | CALL | CALL, max_size=5) | st.lists(CALL | BROKEN, max_size=2)
SERVED = st.none() | st.just("served")
ANYTHING = st.builds(Completion, st.sampled_from(FinishReason), PARTS, USAGE, model=SERVED)
ASKS = st.builds(
    Completion,
    st.sampled_from([FinishReason.TOOL_CALLS, FinishReason.LENGTH, FinishReason.PAUSE]),
    st.tuples(TEXT, st.lists(CALL, min_size=1, max_size=4, unique_by=lambda call: call.id)).map(
        lambda drawn: [drawn[0], *drawn[1]]
    ),
    USAGE,
    model=SERVED,
)
PAUSES = st.builds(Completion, st.just(FinishReason.PAUSE), st.lists(TEXT | REASONING, max_size=2), USAGE)
ANSWER = st.one_of(ASKS, ASKS, ASKS, ASKS, PAUSES, ANYTHING)
ERROR = st.sampled_from(
    [
        *[None] * 12,
        TransportError("refused", status=503, unsent=True),
        RateLimitedError("wait", retry_after=1.5),
        TruncatedStreamError("ended", partial=Partial((Text("half"),), Usage(1)), server_message="no"),
        ContentFilterError("no"),
    ]
)
LIMITS = st.builds(
    LoopLimits,
    rounds=st.sampled_from([8, 5, 3, 2, 1]),
    tool_calls=st.sampled_from([64, 9, 6, 3, 1]),
    parallel=st.integers(1, 4),
    stop_on_tool_error=st.sampled_from([False, False, True]),
)
MOVE = st.builds(
    Move,
    ANSWER,
    st.lists(st.booleans(), min_size=1, max_size=3).map(tuple),
    st.booleans(),
    ERROR,
    st.none() | LIMITS,
    st.sampled_from([False, False, False, True]),
)


@attrs.frozen
class Case:
    """A loop that begins, and what is told to it; ``apart``: no id comes again in a later answer."""

    loop: bytes
    moves: list[Move]
    apart: bool


def with_ids_of(move: Move, number: int) -> Move:
    parts = [
        attrs.evolve(part, id=f"{part.id}{number}") if isinstance(part, ToolCall) and part.id else part
        for part in move.completion.parts
    ]
    return attrs.evolve(move, completion=attrs.evolve(move.completion, parts=parts))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    loop = ToolLoop(
        draw(st.sampled_from(HISTORIES)),
        limits=draw(LIMITS),
        requires_approval=draw(st.frozensets(st.sampled_from(NAMES))),
    )
    moves = draw(st.lists(MOVE, min_size=4, max_size=16))
    apart = draw(st.booleans())
    numbered = [with_ids_of(move, number) for number, move in enumerate(moves)] if apart else moves
    return Case(serial.dumps(loop), numbered, apart)


def begun(case: Case) -> ToolLoop:
    return serial.loads(case.loop, ToolLoop)


def calls_of(message: Message) -> list[str]:
    return [part.id for part in message.parts if isinstance(part, ToolCall)]


def results_of(message: Message) -> list[str]:
    return [part.call_id for part in message.parts if isinstance(part, ToolResult)]


@given(cases())
def test_a_loop_that_is_stored_after_every_step_goes_on_as_one_that_never_was(case: Case) -> None:
    never, stored = begun(case), begun(case)
    for move in case.moves:
        advance(never, move)
        advance(stored, move)
        data = serial.dumps(stored)
        assert data == serial.dumps(never)
        stored = serial.loads(data, ToolLoop)
        assert stored == never
        assert step_of(stored) == step_of(never)
        assert serial.dumps(stored) == data


@given(cases())
def test_rounds_and_calls_grow_only_as_far_as_the_limits(case: Case) -> None:
    loop = begun(case)
    for move in case.moves:
        rounds, calls = loop.rounds, loop.tool_calls
        advance(loop, move)
        assert loop.rounds == rounds or loop.rounds <= loop.limits.rounds
        assert loop.tool_calls == calls or loop.tool_calls <= loop.limits.tool_calls
        step = step_of(loop)
        assert not isinstance(step, CallModel) or step.round <= loop.limits.rounds


@given(cases())
def test_the_history_only_grows_no_call_is_without_its_result_and_the_counts_are_of_what_it_got(case: Case) -> None:
    loop = begun(case)
    before, answers = loop.request, list[Completion]()
    for move in case.moves:
        rounds = loop.rounds
        advance(loop, move)
        assert loop.request.replace(messages=()) == before.replace(messages=())
        assert loop.request.messages[: len(before.messages)] == before.messages
        before = loop.request
        for number, message in enumerate(before.messages):
            if calls_of(message):
                assert results_of(before.messages[number + 1]) == calls_of(message)
        for api in APIS:
            if case.apart or not api.matches_by_id:
                assert check_history(before.messages, api) == ()
        if loop.rounds > rounds:
            answers.append(move.completion)
        assert loop.rounds == len(answers)
        assert loop.tool_calls == sum(len(results_of(message)) for message in loop.progress.messages[1:])
        assert loop.usage == summed([answer.usage or Usage() for answer in answers])


def summed(usages: list[Usage]) -> Usage:
    """The sum of each counter, by another way than the loop's."""
    columns = zip(*(attrs.astuple(usage) for usage in usages), strict=True)
    sums = [None if None in column else sum(column) for column in columns]
    running = [None if each is not None and each >= 2**64 else each for each in sums]
    return Usage(*running)


@given(cases())
def test_next_changes_nothing_and_every_error_has_the_progress(case: Case) -> None:
    loop = begun(case)
    for move in case.moves:
        advance(loop, move)
        data = serial.dumps(loop)
        step = step_of(loop)
        assert step_of(loop) == step
        assert serial.dumps(loop) == data
        if isinstance(step, SvirError):
            assert step.progress == loop.progress
        if isinstance(step, Finished):
            assert step.response.messages == loop.progress.messages
            assert loop.request.messages[-1].role in (Role.ASSISTANT, Role.TOOL)


@attrs.frozen
class Worker:
    """A process of its own, which keeps nothing between two steps."""

    requests: IO[bytes]
    answers: IO[bytes]

    def advance(self, loop: bytes, move: Move) -> bytes:
        self.requests.write(orjson.dumps({"loop": orjson.loads(loop), "move": move.dump()}) + b"\n")
        self.requests.flush()
        return self.answers.readline().rstrip(b"\n")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    command = [sys.executable, "-m", "tests.svir_core.loop_moves"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Worker(process.stdin, process.stdout)
        process.stdin.close()
        assert process.wait(timeout=20) == 0


@given(case=cases())
def test_another_process_takes_every_step_as_this_one_does(worker: Worker, case: Case) -> None:
    here, there = begun(case), case.loop
    for move in case.moves:
        advance(here, move)
        there = worker.advance(there, move)
        assert there == serial.dumps(here)

"""The engine is killed at every write of its journal, and comes to the same end without doing anything twice."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum

import anyio
import attrs
import orjson
import pytest

from examples import engine
from examples.engine import (
    ANSWERS,
    FIRST,
    Engine,
    Journal,
    NoJournalError,
    Policy,
    at_least_once,
    at_most_once,
    scripted,
    trip,
)
from svir_client import FunctionModel, Tools
from svir_core import (
    Completion,
    Generation,
    Request,
    SvirError,
    ToolCall,
    ToolLoop,
    ToolResult,
    TransportError,
)
from tests.examples.program import refused

pytestmark = pytest.mark.anyio

SECONDS = 60
ROOT = pathlib.Path(__file__).parents[2]
CALLS = {"flight": "a", "hotel": "b", "You fly on Monday.": "c"}
LINES = 1 + 2 * len(ANSWERS) + 2 * len(CALLS)
"""The start; and of each answer and each call that it is about to be, and what came of it."""

TO_THE_FIRST_CALL = 1 + 2 + 1


class Killed(Exception):
    """The end of a process, as far as one process can show it."""


class Moment(StrEnum):
    BEFORE = "before a line is written"
    TORN = "in the middle of a line"
    AFTER = "after a line was written"


class DyingJournal(Journal):
    """Written to until its ``last`` line, and never again."""

    def __init__(self, path: pathlib.Path, last: int, moment: Moment) -> None:
        super().__init__(path)
        self._left = last
        self._moment = moment

    def write(self, line: bytes) -> None:
        self._left -= 1
        if self._left > 0:
            super().write(line)
        elif self._left == 0 and self._moment is not Moment.BEFORE:
            super().write(line if self._moment is Moment.AFTER else line[: len(line) // 2])
        if self._left <= 0:
            raise Killed


@attrs.define
class World:
    """What was really done: the rounds that the model was asked for, and the calls that ran."""

    asked: list[int] = attrs.field(factory=list[int])
    done: list[str] = attrs.field(factory=list[str])
    down: SvirError | None = None

    async def model(self, request: Request) -> Completion:
        if self.down is not None:
            raise self.down
        self.asked.append(1 + sum(message.role == "assistant" for message in request.messages))
        return scripted(request)

    def tools(self) -> Tools:
        tools = Tools()

        @tools.tool
        async def book(what: str) -> str:
            await anyio.lowlevel.checkpoint()
            self.done.append(CALLS[what])
            return f"booked: {what}"

        @tools.tool
        async def write(text: str) -> str:
            self.done.append(CALLS[text])
            return "sent"

        return tools

    async def run(
        self, journal: Journal, unfinished: Policy = at_most_once, start: ToolLoop | None = None
    ) -> Generation:
        try:
            with anyio.fail_after(SECONDS):
                async with FunctionModel(self.model) as client:
                    engine = Engine(client, self.tools(), journal, unfinished)
                    return await engine.run(trip("m") if start is None else start)
        finally:
            journal.close()

    async def die(self, journal: Journal, unfinished: Policy = at_most_once) -> bool:
        """Whether it was killed before it was done."""
        killed = False
        try:
            await self.run(journal, unfinished)
        except* Killed:
            killed = True
        return killed


def records(path: pathlib.Path) -> list[dict[str, list[object]]]:
    """The lines that were written whole."""
    return [orjson.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def keys(path: pathlib.Path, which: str, what: str) -> set[object]:
    return {record[which][-1] for record in records(path) if which in record and record[which][0] == what}


def results(generation: Generation) -> Iterator[ToolResult]:
    for message in generation.messages:
        yield from (part for part in message.parts if isinstance(part, ToolResult))


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "journal"


async def whole(folder: pathlib.Path) -> Generation:
    world = World()
    generation = await world.run(Journal(folder / "whole"))
    assert (world.asked, sorted(world.done)) == ([1, 2, 3], ["a", "b", "c"])
    assert len(records(folder / "whole")) == LINES
    return generation


async def test_nothing_is_done_again_when_all_is_recorded(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    first = await World().run(Journal(path))
    world = World()
    assert await world.run(Journal(path)) == first == await whole(tmp_path)
    assert world == World()
    assert first.text == "All is booked."


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("last", range(1, LINES + 1))
async def test_killed_at_any_line_it_goes_on_without_doing_anything_twice(
    last: int, moment: Moment, path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    before, after = World(), World()
    assert await before.die(DyingJournal(path, last, moment))
    answered, finished = keys(path, "end", "model"), keys(path, "end", "tool")
    unfinished = keys(path, "begin", "tool") - finished
    generation = await after.run(Journal(path))
    assert answered.isdisjoint(after.asked)
    assert answered | set(after.asked) == {1, 2, 3}
    assert len(before.done + after.done) == len({*before.done, *after.done})
    assert {*finished, *unfinished, *after.done} == {"a", "b", "c"}
    assert {result.call_id for result in results(generation) if result.is_error} == unfinished
    assert generation.text == "All is booked."
    if not unfinished:
        assert generation == await whole(tmp_path)


@pytest.mark.parametrize("moment", Moment)
async def test_tools_that_may_be_run_again_give_the_same_end(moment: Moment, tmp_path: pathlib.Path) -> None:
    expected = await whole(tmp_path)
    for last in range(1, LINES + 1):
        path = tmp_path / f"killed at {last}"
        assert await World().die(DyingJournal(path, last, moment))
        assert await World().run(Journal(path), at_least_once) == expected


async def test_it_comes_to_its_end_when_every_process_dies_after_one_line(
    path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    world, deaths = World(), 0
    while await world.die(DyingJournal(path, 1, Moment.AFTER), at_least_once):
        deaths += 1
        assert deaths <= LINES
    assert world.asked == [1, 2, 3]
    assert sorted({*world.asked}) == [1, 2, 3]
    assert await World().run(Journal(path)) == await whole(tmp_path)


async def test_the_users_policy_says_what_stands_for_a_call_that_had_begun(path: pathlib.Path) -> None:
    calls: list[ToolCall] = []

    def policy(call: ToolCall) -> ToolResult:
        calls.append(call)
        return ToolResult(call.id, "booked, says the hotel")

    assert await World().die(DyingJournal(path, TO_THE_FIRST_CALL, Moment.AFTER))
    generation = await World().run(Journal(path), policy)
    (call,) = calls
    assert call.id in ("a", "b")
    assert ToolResult(call.id, "booked, says the hotel") in results(generation)


async def test_the_result_that_stands_for_it_is_recorded_too(path: pathlib.Path) -> None:
    assert await World().die(DyingJournal(path, TO_THE_FIRST_CALL, Moment.AFTER))
    first = await World().run(Journal(path))
    assert sum(result.is_error for result in results(first)) == 1
    assert await World().run(Journal(path), at_least_once) == first


async def test_a_model_that_fails_is_asked_again_by_the_next_process(
    path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert await World().die(DyingJournal(path, LINES - 2, Moment.AFTER))
    with pytest.raises(TransportError, match="down") as raised:
        await World(down=TransportError("down")).run(Journal(path))
    progress = raised.value.progress
    assert progress is not None
    assert (progress.rounds, progress.tool_calls) == (2, 3)
    world = World()
    assert await world.run(Journal(path)) == await whole(tmp_path)
    assert (world.asked, world.done) == ([3], [])


async def test_nobody_is_there_to_approve(path: pathlib.Path) -> None:
    world = World()
    generation = await world.run(Journal(path), start=attrs.evolve(trip("m"), requires_approval=["write"]))
    assert sorted(world.done) == ["a", "b"]
    assert [result.is_error for result in results(generation)] == [False, False, True]


async def test_what_was_started_goes_on_whatever_is_started_now(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert await World().die(DyingJournal(path, 1, Moment.AFTER))
    generation = await World().run(Journal(path), start=ToolLoop(Request("other").user("Something else.")))
    assert generation == await whole(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"# a text\n",
        b"\n",
        b"no line at all",
        b'{"begin":["model",1]}\n',
        FIRST + b"\n",
        FIRST + b'"outcome":{"type":"nothing"}}\nmore',
    ],
)
def test_a_file_that_is_no_journal_is_left_as_it_is(data: bytes, path: pathlib.Path) -> None:
    path.write_bytes(data)
    with pytest.raises(NoJournalError):
        Journal(path)
    assert refused(engine.main, str(path)) == f"{path} is no journal of this program, and was left as it is"
    assert path.read_bytes() == data


@pytest.mark.parametrize("length", [0, 1, len(FIRST) - 1, len(FIRST), len(FIRST) + 5])
def test_a_journal_whose_first_line_was_cut_off_begins_anew(length: int, path: pathlib.Path) -> None:
    path.write_bytes((FIRST + b'"outcome":')[:length])
    Journal(path).close()
    assert path.read_bytes() == b""


def test_a_journal_begins_as_every_journal_does(path: pathlib.Path) -> None:
    journal = Journal(path)
    journal.end(engine.START, trip("m"))
    journal.close()
    assert path.read_bytes().startswith(FIRST)


def test_a_path_that_cannot_be_opened_is_one_line(tmp_path: pathlib.Path) -> None:
    assert refused(engine.main, str(tmp_path)).endswith("cannot be opened: Is a directory")


KILLED_BY_ITS_TOOL = """
import os, signal, sys
import anyio, attrs
from examples.engine import Engine, Journal, scripted, trip
from svir_client import FunctionModel, Tools
from svir_core import LoopLimits

tools = Tools()

@tools.tool
def book(what: str) -> str:
    if what == "hotel":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"booked: {what}"

async def main() -> None:
    start = attrs.evolve(trip("scripted"), limits=LoopLimits(parallel=1))
    async with FunctionModel(scripted) as client:
        await Engine(client, tools, Journal(sys.argv[1])).run(start)

anyio.run(main)
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=False, timeout=60, capture_output=True, text=True, cwd=ROOT)


def test_a_process_that_was_really_killed_is_gone_on_with(path: pathlib.Path) -> None:
    assert python("-c", KILLED_BY_ITS_TOOL, str(path)).returncode == -signal.SIGKILL
    assert keys(path, "end", "tool") == {"a"}
    assert keys(path, "begin", "tool") == {"a", "b"}
    done = python("-m", "examples.engine", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["  wrote: You fly on Monday.", "All is booked."]
    assert b"book was begun, and it is not known whether it was done" in path.read_bytes()


def test_the_example_runs() -> None:
    done = python("-m", "examples.engine")
    assert (done.returncode, done.stderr) == (0, "")
    *booked, wrote, last = done.stdout.splitlines()
    assert sorted(booked) == ["  booked: flight", "  booked: hotel"]
    assert (wrote, last) == ("  wrote: You fly on Monday.", "All is booked.")

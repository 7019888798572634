"""An engine that goes on after it was killed: it drives the loop itself, and writes down each effect before it happens.

python -m examples.engine              # a scripted model, and a journal that is thrown away
python -m examples.engine JOURNAL      # the same; kill it, start it again, and it goes on
python -m examples.engine JOURNAL --base-url http://127.0.0.1:1234 --model qwen3-27b    # --key-env NAME

The loop is pure: told the same, it asks for the same. So a journal of what it was told is all that there is to keep,
and a restart tells it again. One process at a time has a journal.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, Final

import anyio
import attrs
import orjson

from examples.provider import chat_client, chat_parsed, chat_parser, run
from svir_client import AsyncClient, FunctionModel, Toolbox, ToolContext, Tools, call_all
from svir_core import (
    AskApproval,
    CallModel,
    Completion,
    FinishReason,
    Generation,
    Request,
    RunTools,
    SvirError,
    Text,
    Tool,
    ToolCall,
    ToolLoop,
    ToolResult,
    serial,
)

START: Final = ("start",)
FIRST: Final = b'{"end":["start"],'
"""What every journal begins with."""


class NoJournalError(Exception):
    """The file is none, and was left as it is."""


class Journal:
    """What was about to be done, and what came of it: a line of JSON each, on the disk before anything else happens.

    ``NoJournalError`` for a file that holds something else, ``OSError`` for one that cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._begun: set[tuple[Any, ...]] = set()
        self._outcomes: dict[tuple[Any, ...], Any] = {}
        self._file = open(path, "a+b")  # noqa: SIM115 - closed by close()
        try:
            self._file.seek(0)
            self._read(self._file.read())
        except BaseException:
            self.close()
            raise

    def _read(self, data: bytes) -> None:
        if data[: len(FIRST)] != FIRST[: len(data)]:
            raise NoJournalError
        *lines, cut_off = data.split(b"\n")
        try:
            for line in lines:
                self._note(orjson.loads(line))
        except (ValueError, LookupError, TypeError):  # a ConfigError is a ValueError
            raise NoJournalError from None
        self._file.truncate(len(data) - len(cut_off))  # a line that was cut off was never written

    def begun(self, key: tuple[Any, ...]) -> bool:
        """Whether this was about to be done."""
        return key in self._begun

    def outcome(self, key: tuple[Any, ...]) -> Any:
        """What came of it; ``None`` when that is not known."""
        return self._outcomes.get(key)

    def begin(self, key: tuple[Any, ...]) -> None:
        """This is about to be done."""
        if key not in self._begun:
            self._append({"begin": key})

    def end(self, key: tuple[Any, ...], outcome: Any) -> None:
        """This came of it."""
        self._append({"end": key, "outcome": serial.to_json(outcome)})

    def close(self) -> None:
        self._file.close()

    def _append(self, record: dict[str, Any]) -> None:
        self.write(orjson.dumps(record) + b"\n")
        self._note(record)

    def write(self, line: bytes) -> None:
        """``line`` is on the disk when this returns."""
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())

    def _note(self, record: dict[str, Any]) -> None:
        if "begin" in record:
            self._begun.add(tuple(record["begin"]))
        else:
            self._outcomes[tuple(record["end"])] = serial.from_json(record["outcome"])


Policy = Callable[[ToolCall], ToolResult | None]
"""What stands for the result of a call that had begun when the process was killed; ``None``: it is run again."""


def at_most_once(call: ToolCall) -> ToolResult:
    """Nothing is done twice; the model is told that nobody knows whether it was done once."""
    return ToolResult(call.id, f"{call.name} was begun, and it is not known whether it was done", is_error=True)


def at_least_once(call: ToolCall) -> None:
    """For tools that may be run again."""


@attrs.frozen
class Journaled:
    """The tools of one round: a call whose result is recorded is not run again."""

    box: Toolbox
    journal: Journal
    round: int
    unfinished: Policy

    def tools(self) -> Iterable[Tool]:
        return self.box.tools()

    async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
        key = ("tool", self.round, call.id)
        result: ToolResult | None = self.journal.outcome(key)
        if result is not None:
            return result
        if self.journal.begun(key):
            result = self.unfinished(call)
        if result is None:
            self.journal.begin(key)
            result = await self.box.call(call, context)
        self.journal.end(key, result)
        return result


@attrs.frozen
class Engine:
    """One generation, with a journal."""

    client: AsyncClient
    tools: Toolbox
    journal: Journal
    unfinished: Policy = at_most_once

    async def run(self, start: ToolLoop) -> Generation:
        """Begin with ``start``; or go on, when the journal has another start already."""
        if self.journal.outcome(START) is None:
            self.journal.end(START, start)
        loop: ToolLoop = attrs.evolve(self.journal.outcome(START))
        while True:
            match loop.next():
                case CallModel(request, round):
                    try:
                        loop.model_answered(await self._answer(request, round))
                    except SvirError as error:
                        loop.failed(error)  # which next() raises with the progress
                case RunTools(calls, round):
                    box = Journaled(self.tools, self.journal, round, self.unfinished)
                    loop.tools_answered(await call_all(box, calls, limit=loop.limits.parallel))
                case AskApproval(calls):
                    loop.approved(dict.fromkeys((call.id for call in calls), False))  # nobody is here to ask
                case finished:
                    return finished.response

    async def _answer(self, request: Request, round: int) -> Completion:
        key = ("model", round)
        if self.journal.outcome(key) is None:
            self.journal.begin(key)
            self.journal.end(key, await self.client.complete(request))
        answer: Completion = self.journal.outcome(key)
        return answer


# --- a trip -----------------------------------------------------------------------------------------------

tools = Tools()


@tools.tool
async def book(what: str) -> str:
    """Book a flight or a hotel."""
    print(f"  booked: {what}")
    return f"booked: {what}"


@tools.tool
async def write(text: str) -> str:
    """Write to the traveller."""
    print(f"  wrote: {text}")
    return "sent"


ANSWERS = (
    Completion(
        FinishReason.TOOL_CALLS,
        (ToolCall("a", "book", '{"what": "flight"}'), ToolCall("b", "book", '{"what": "hotel"}')),
    ),
    Completion(FinishReason.TOOL_CALLS, (ToolCall("c", "write", '{"text": "You fly on Monday."}'),)),
    Completion(FinishReason.STOP, (Text("All is booked."),)),
)


def scripted(request: Request) -> Completion:
    """What a model would answer: by what was said, so that a restart gets the same."""
    return ANSWERS[sum(message.role == "assistant" for message in request.messages)]


def trip(model: str) -> ToolLoop:
    return ToolLoop(Request(model, system="Use the tools.", tools=tools).user("Book me a trip to Oslo."))


async def travel(client: AsyncClient, model: str, journal: Journal) -> str:
    async with client:
        return (await Engine(client, tools, journal).run(trip(model))).text


def opened(path: str) -> Journal:
    """The journal. ``SystemExit`` that says why there is none."""
    try:
        return Journal(path)
    except NoJournalError:
        problem = "is no journal of this program, and was left as it is"
    except OSError as error:
        problem = f"cannot be opened: {error.strerror}"
    raise SystemExit(f"{path} {problem}")


def main(given: list[str]) -> None:
    """See the module's text."""
    arguments = chat_parser("engine", "A generation that goes on after it was killed.")
    arguments.add_argument("journal", nargs="?", metavar="JOURNAL", help="a file of its own; without it, a new one")
    options = chat_parsed(arguments, given)
    client = FunctionModel(scripted) if options.base_url is None else chat_client(options)
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(opened(options.journal or str(pathlib.Path(folder) / "journal"))) as journal,
    ):
        print(anyio.run(travel, client, options.model or "scripted", journal))


if __name__ == "__main__":
    run(main)

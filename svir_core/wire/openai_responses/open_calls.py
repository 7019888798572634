"""The calls of a stream that is being written: each an item of its own, its pieces in any order (20 section 9).

A call is opened with its whole name and its id, in the order of the calls' indices: until its first arguments, the next
event of another kind, or the end, and until every call before it is open, it is held back. It is ended with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from svir_core.errors import ConfigError
from svir_core.event import ToolCallDelta
from svir_core.json_text import sanitize
from svir_core.message import ToolCall
from svir_core.wire.openai_responses.event_writer import EventWriter, call_of
from svir_core.wire.openai_responses.table import FUNCTION, Step
from svir_core.wire.transcript import CallRun


class OpenCalls:
    """The calls so far.

    Args:
        writer: of the stream.
        before: called before an item is opened.

    Attributes:
        runs: their pieces, by index.
    """

    __slots__ = ("_before", "_open", "_writer", "runs")

    def __init__(self, writer: EventWriter, before: Callable[[], None]) -> None:
        self._writer = writer
        self._before = before
        self._open: list[tuple[int, str]] = []  # of each call that is open: its place and its item's id
        self.runs: dict[int, CallRun] = {}

    def push(self, piece: ToolCallDelta) -> None:
        """Take a piece; ``ConfigError``, and nothing written, when it is of no call."""
        index = piece.index
        run = self.runs.get(index)
        if index < 0:
            raise ConfigError("the index of a tool call is negative")
        if run is not None and run.id and piece.id and piece.id != run.id:
            raise ConfigError(f"the id of tool call {index} changed")
        if piece.name and index < len(self._open):
            raise ConfigError(f"tool call {index} is named after its arguments")
        if run is None:
            run = self.runs[index] = CallRun(index)
        run.push(piece)
        if index < len(self._open):
            if piece.arguments:
                place, item_id = self._open[index]
                self._writer.arguments(place, item_id, FUNCTION, piece.arguments)
        else:
            self.release(but=None if run.arguments else index)

    def release(self, but: int | None = None) -> None:
        """Open what can be opened, ``but`` for one that may get more of its name."""
        while True:
            run = self.runs.get(len(self._open))
            if run is None or run.index == but or not run.id or not run.names:
                return
            self._begin(run, run.id)

    def close(self, calls: Sequence[ToolCall]) -> None:
        """The answer has ended, and these are its calls, which agree with what was pushed."""
        for number, call in enumerate(calls):
            if number == len(self._open):
                self._begin(self.runs[number], call.id)
            place, item_id = self._open[number]
            status = "completed" if call.complete else "incomplete"
            self._writer.arguments(place, item_id, FUNCTION, call.arguments, Step.CLOSES)
            item = call_of(FUNCTION, item_id, call.id, call.name, call.arguments, status)
            self._writer.close(place, item)

    def _begin(self, run: CallRun, call_id: str) -> None:
        self._before()
        item_id = self._writer.new_id(FUNCTION)
        place = self._writer.open(call_of(FUNCTION, item_id, call_id, run.name, "", "in_progress"))
        self._open.append((place, item_id))
        if run.arguments:
            self._writer.arguments(place, item_id, FUNCTION, "".join(run.arguments))

    def agree(self, calls: Sequence[ToolCall]) -> None:
        """``ConfigError`` when these are not the calls that were pushed."""
        if sorted(self.runs) != list(range(len(calls))):
            raise ConfigError("the calls of the completion are not those of the events before it, numbered from 0")
        for number, call in enumerate(calls):
            run = self.runs[number]
            said = (run.id or (call.id if call.synthetic_id else ""), run.name, "".join(run.arguments))
            if said != (call.id, call.name, call.arguments):
                raise ConfigError(f"tool call {number} of the completion is not that of the events before it")


def check_calls(calls: Sequence[ToolCall]) -> None:
    """``ConfigError`` for calls that no client could answer."""
    if not all(call.id and call.name for call in calls):
        raise ConfigError("a tool call has no id or no name")
    if len({sanitize(call.id) for call in calls}) != len(calls):
        raise ConfigError("two tool calls have the same id")

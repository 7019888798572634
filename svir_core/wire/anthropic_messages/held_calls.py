"""The calls of a stream that is being written: one block after the other, in the order of their indices.

A call is opened with its whole name and its id, so it is held back until its first arguments. While its arguments may
go on, the calls after it wait: another call may begin once they are a JSON object, or something else is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from svir_core.errors import ConfigError
from svir_core.event import ToolCallDelta
from svir_core.message import ToolCall
from svir_core.slow_json import read_any
from svir_core.wire.anthropic_messages.event_writer import EventWriter
from svir_core.wire.json_value import is_object
from svir_core.wire.transcript import CallRun


class HeldCalls:
    """The calls of one answer, as their pieces come."""

    __slots__ = ("_ended", "_opened", "_runs", "_sent", "_writer")

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer
        self._runs: dict[int, CallRun] = {}
        self._ended = 0  # how many have their whole block
        self._opened = False  # whether the next one has a block
        self._sent = 0  # how many pieces of its arguments went out

    @property
    def any(self) -> bool:
        """Whether a call was spoken of."""
        return bool(self._runs)

    def push(self, piece: ToolCallDelta, begin: Callable[[], None]) -> None:
        """A piece of a call; ``begin`` is called before anything is written. Raises ``ConfigError``, and changes
        nothing, for a negative index, an id that changes, and a call whose block has ended."""
        run = self._runs.get(piece.index)
        if piece.index < 0:
            raise ConfigError("the index of a tool call is negative")
        if piece.index < self._ended:
            raise ConfigError(f"tool call {piece.index} goes on after its block has ended")
        if run is not None and run.id and piece.id and piece.id != run.id:
            raise ConfigError(f"the id of tool call {piece.index} changed")
        if self._opened and piece.index == self._ended and piece.name:
            raise ConfigError(f"the name of tool call {piece.index} goes on after its arguments began")
        if run is None:
            run = self._runs[piece.index] = CallRun(piece.index)
        run.push(piece)
        while self._advance(begin):
            pass

    def _advance(self, begin: Callable[[], None]) -> bool:
        """Write what can be written of the next call; whether it has ended."""
        run = self._runs.get(self._ended)
        if run is None or not (run.id and run.names and run.arguments):
            return False
        begin()
        self._write(run)
        if len(self._runs) == self._ended + 1 or not is_object(read_any("".join(run.arguments))):
            return False
        self._end()
        return True

    def _write(self, run: CallRun) -> None:
        if not self._opened:
            self._writer.call(run.id, run.name, {})
            self._opened = True
        self._writer.arguments(run.arguments[self._sent :])
        self._sent = len(run.arguments)

    def _end(self) -> None:
        self._writer.stop()
        self._ended += 1
        self._opened = False
        self._sent = 0

    def check_whole(self) -> None:
        """Raise ``ConfigError`` unless every call can be written, since something else follows."""
        for index in range(self._ended, len(self._runs)):
            run = self._runs.get(index)
            if run is None or not run.id or not run.names:
                raise ConfigError(f"tool call {index} has no id or no name before something else is said")

    def flush(self) -> None:
        """Write what is held back: no call goes on."""
        while self._ended < len(self._runs):
            self._write(self._runs[self._ended])
            self._end()

    def agree(self, calls: Sequence[ToolCall]) -> None:
        """Raise ``ConfigError`` unless ``calls`` are those whose pieces came; ids that svir made are taken over."""
        if sorted(self._runs) != list(range(len(calls))):
            raise ConfigError("the calls of the completion are not those of the events before it, numbered from 0")
        for index, call in enumerate(calls):
            run = self._runs[index]
            said = (run.id or (call.id if call.synthetic_id else ""), run.name, "".join(run.arguments))
            if said != (call.id, call.name, call.arguments):
                raise ConfigError(f"tool call {index} of the completion is not that of the events before it")
            run.id = call.id

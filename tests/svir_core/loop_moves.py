"""One step of a loop as data, so that another process takes the same: ``python -m tests.svir_core.loop_moves`` does,
line by line, of loops that it gets stored and gives back stored."""

from __future__ import annotations

import sys
from typing import Any

import attrs
import orjson

from svir_core import serial
from svir_core.errors import SvirError
from svir_core.loop import ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import AskApproval, CallModel, Finished, LoopStep, RunTools
from svir_core.message import ToolResult
from svir_core.response import Completion


@attrs.frozen
class Move:
    """What is told at one step, whichever it is.

    Attributes:
        completion: the model's answer.
        yes: whether each call is approved, or has a good result.
        backwards: the results come in the other order.
        error: the step fails with it.
        limits: what a loop that failed is resumed with, and one that did not, too, when ``always``.
    """

    completion: Completion
    yes: tuple[bool, ...] = (True,)
    backwards: bool = False
    error: SvirError | None = None
    limits: LoopLimits | None = None
    always: bool = False

    def yes_to(self, number: int) -> bool:
        return self.yes[number % len(self.yes)]

    def dump(self) -> Any:
        return {
            "completion": serial.to_json(self.completion),
            "yes": self.yes,
            "backwards": self.backwards,
            "error": None if self.error is None else serial.to_json(self.error),
            "limits": None if self.limits is None else serial.to_json(self.limits),
            "always": self.always,
        }

    @classmethod
    def load(cls, document: Any) -> Move:
        return cls(
            serial.from_json(document["completion"], Completion),
            tuple(document["yes"]),
            document["backwards"],
            None if document["error"] is None else serial.from_json(document["error"], SvirError),
            None if document["limits"] is None else serial.from_json(document["limits"], LoopLimits),
            document["always"],
        )


def step_of(loop: ToolLoop) -> LoopStep | SvirError:
    """What the loop asks for, or the error that it failed with."""
    try:
        return loop.next()
    except SvirError as error:
        return error


def advance(loop: ToolLoop, move: Move) -> None:
    """Tell ``loop`` what ``move`` says of the step it is at."""
    if move.always and move.limits is not None:
        loop.resume(move.limits)
    step = step_of(loop)
    if isinstance(step, SvirError):
        loop.resume(move.limits)
    elif move.error is not None and not isinstance(step, Finished):
        loop.failed(move.error)
    elif isinstance(step, CallModel):
        loop.model_answered(move.completion)
    elif isinstance(step, AskApproval):
        loop.approved({call.id: move.yes_to(number) for number, call in enumerate(step.calls)})
    elif isinstance(step, RunTools):
        results = [
            ToolResult(call.id, f"result of {call.name}", is_error=not move.yes_to(number))
            for number, call in enumerate(step.calls)
        ]
        loop.tools_answered(reversed(results) if move.backwards else results)


def main() -> None:
    for line in sys.stdin.buffer:
        document = orjson.loads(line)
        loop = serial.from_json(document["loop"], ToolLoop)
        advance(loop, Move.load(document["move"]))
        sys.stdout.buffer.write(serial.dumps(loop) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

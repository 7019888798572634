"""What a loop asks for next (50, Loop)."""

from __future__ import annotations

import attrs

from svir_core.generation import Generation
from svir_core.message import ToolCall
from svir_core.request import Request


@attrs.frozen
class CallModel:
    """Ask the model, and tell its answer by ``model_answered``. ``round`` counts from 1."""

    request: Request
    round: int


@attrs.frozen
class RunTools:
    """Run these calls, and tell their results by ``tools_answered``. ``round`` is that of the answer with them."""

    calls: tuple[ToolCall, ...]
    round: int


@attrs.frozen
class AskApproval:
    """Ask somebody whether these calls may be run, and tell by ``approved``."""

    calls: tuple[ToolCall, ...]
    round: int


@attrs.frozen
class Finished:
    """The generation is over."""

    response: Generation


LoopStep = CallModel | RunTools | AskApproval | Finished

"""Results of calls that were not run, in words for the model."""

from __future__ import annotations

from typing import Final

from svir_core.message import ToolCall, ToolResult

NAME_SHOWN: Final = 64
"""Characters of a name that a model made up: no tool's that an API takes is longer."""


def denied(call: ToolCall) -> ToolResult:
    """The result of a call that somebody said no to."""
    return _result(call, "the call of {} was not approved: nothing was run")


def cut_off(call: ToolCall) -> ToolResult:
    """The result of a call whose arguments did not come to their end."""
    return _result(call, "the arguments of {} were cut off: nothing was run")


def _result(call: ToolCall, words: str) -> ToolResult:
    return ToolResult(call.id, words.format(call.name[:NAME_SHOWN]), is_error=True)

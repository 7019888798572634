"""What a model is told of a call that failed: words of ours, and of what it wrote at most a name."""

from __future__ import annotations

from svir_core.message import ToolCall, ToolResult
from svir_core.not_run import NAME_SHOWN


def failed(call: ToolCall, words: str | None = None) -> ToolResult:
    """The result of a call that failed; without ``words``, no more than that it did."""
    return ToolResult(call.id, f"tool '{call.name}' failed" if words is None else words, is_error=True)


def unknown(call: ToolCall) -> ToolResult:
    """The result of a call of a tool that is not there."""
    return failed(call, f"unknown tool: {call.name[:NAME_SHOWN]}")


def refused(call: ToolCall) -> ToolResult:
    """The result of a call whose arguments could not be read, for a reason that is not the model's to know."""
    return failed(call, f"the arguments of {call.name} were refused: nothing was run")


def late(call: ToolCall, seconds: float) -> ToolResult:
    """The result of a call that took too long."""
    return failed(call, f"tool '{call.name}' did not end within {seconds:g} s")

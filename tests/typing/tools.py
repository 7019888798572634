"""What a type checker says of tools: a decorated function stays what it is. Checked, and never run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, assert_type

from svir_client import SessionState, Toolbox, ToolContext, Tools, call_all
from svir_core import Request, Tool, ToolCall, ToolResult

tools = Tools()


@tools.tool
async def bare(value: int) -> str:
    return str(value)


@tools.tool(name="other", serial=True, timeout=5, requires_approval=True)
def with_options(value: int, context: ToolContext) -> float:
    return value / 2


async def uses(calls: list[ToolCall]) -> None:
    plain: Callable[[int], Coroutine[Any, Any, str]] = bare
    assert_type(await plain(1), str)
    assert_type(with_options(1, ToolContext()), float)
    assert_type(ToolContext().state, SessionState | None)
    assert_type(tools.add(with_options, name="third"), Tool)
    assert_type(await tools.call(calls[0]), ToolResult)
    assert_type(await tools.call_all(calls), tuple[ToolResult, ...])
    assert_type(tools.call_all_sync(calls), tuple[ToolResult, ...])
    box: Toolbox = tools
    assert_type(await call_all(box, calls, limit=2), tuple[ToolResult, ...])
    assert_type(Request("m", tools=tools).tool_results(await tools.call_all(calls)), Request)

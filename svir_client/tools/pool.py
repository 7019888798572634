"""Calls run at once, a bounded number of them, their results in the order asked (30 section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import anyio

from svir_client.tools.context import ToolContext
from svir_client.tools.toolbox import Toolbox
from svir_core.check import an, count
from svir_core.errors import ConfigError
from svir_core.message import ToolCall, ToolResult

LIMIT: Final = 4
"""So many calls run at once: what the loop has as its default too (50, Loop)."""


async def call_all(
    toolbox: Toolbox, calls: Iterable[ToolCall], *, context: ToolContext | None = None, limit: int = LIMIT
) -> tuple[ToolResult, ...]:
    """The results of ``calls``, one for each, in their order. At most ``limit`` run at once: when one has ended, the
    next begins.

    Cancelled, it cancels those that run and begins no other. What a call raises that is no failure of a tool
    (``KeyboardInterrupt``, say) does the same and is raised. ``ConfigError`` when an argument is wrong.
    """
    if not isinstance(calls, Iterable):
        raise ConfigError(f"calls is {an(type(calls))}, not a sequence of ToolCall")
    asked = tuple(calls)
    for number, call in enumerate(asked):
        if not isinstance(call, ToolCall):
            raise ConfigError(f"calls[{number}] is {an(type(call))}, not a ToolCall")
    return await _Pool(toolbox, asked, context).run(count(limit, 1, "limit"))


class _Pool:
    """One run of some calls."""

    def __init__(self, toolbox: Toolbox, calls: tuple[ToolCall, ...], context: ToolContext | None) -> None:
        self._toolbox = toolbox
        self._context = context
        self._calls = calls
        self._waiting: Iterator[tuple[int, ToolCall]] = iter(enumerate(calls))
        self._results: dict[int, ToolResult] = {}
        self._raised: list[BaseException] = []

    async def run(self, limit: int) -> tuple[ToolResult, ...]:
        async with anyio.create_task_group() as tasks:
            for _ in range(min(limit, len(self._calls))):
                tasks.start_soon(self._work, tasks.cancel_scope)
        if self._raised:
            try:
                raise self._raised[0]
            finally:
                self._raised.clear()  # else this frame and the error's traceback would hold each other
        return tuple(self._results[number] for number in range(len(self._calls)))

    async def _work(self, scope: anyio.CancelScope) -> None:
        for number, call in self._waiting:
            try:
                self._results[number] = await self._toolbox.call(call, self._context)
            except BaseException as error:
                self._raised.append(error)  # a cancellation too: one that nobody asked for leaves no result missing
                scope.cancel()
                if isinstance(error, anyio.get_cancelled_exc_class()):
                    raise
                return

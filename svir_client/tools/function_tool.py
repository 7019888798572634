"""A function as a tool: what is offered of it, how its arguments are read, and how it is run."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import anyio.lowlevel
import attrs

from svir_client.tools.arguments import Read, by_schema, by_types
from svir_client.tools.context import ToolContext
from svir_client.tools.serial import SerialLock, Turn
from svir_client.tools.signature import signature_of
from svir_client.tools.thread import in_thread, outcome
from svir_client.watch import expect_callable
from svir_core.check import expect, seconds
from svir_core.errors import ConfigError
from svir_core.request import Tool

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every API takes as the name of a tool (51 section 3.2)."""

_READ_HERE: Final = 64 * 1024
"""Arguments of more characters are read in a thread."""

_JUDGED_HERE: Final = 1024
"""The same where a schema of the caller's judges them: ``uniqueItems`` takes the square of the length."""


class LateTool(Exception):
    """The time of a tool ran out."""


class LostTool(Exception):
    """An async tool was cancelled, and nobody had cancelled its call."""


@attrs.frozen(eq=False)
class FunctionTool:
    """One tool of a registry."""

    tool: Tool
    timeout: float
    requires_approval: bool
    _function: Callable[..., Any] = attrs.field(repr=False)
    _contexts: tuple[str, ...]
    _read: Read = attrs.field(repr=False)
    _read_here: int
    _serial: SerialLock | None

    async def read(self, text: str) -> dict[str, Any]:
        """The arguments that a model wrote. Raises ``ProtocolError`` with words for it when they do not fit,
        ``LateTool`` when a thread took longer than the tool may, and what a class of the caller's raises."""
        if len(text) <= self._read_here:
            return self._read(text)
        with anyio.move_on_after(self.timeout):
            return await in_thread(functools.partial(self._read, text))
        raise LateTool

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """What the function returns or raises; ``LateTool`` when its time ran out, waiting for a turn not counted;
        ``LostTool`` when it was cancelled by itself."""
        given = {**arguments, **dict.fromkeys(self._contexts, context)}
        function = functools.partial(self._function, **given)
        async with self._serial.turn() if self._serial else contextlib.nullcontext() as turn:
            with anyio.move_on_after(self.timeout):
                return await _own_outcome(function, turn)
            raise LateTool


async def _own_outcome(function: Callable[[], Any], turn: Turn | None) -> Any:
    """What ``function`` gives or raises; ``LostTool`` for a cancellation that is not this task's."""
    before = _requests_to_cancel()
    try:
        return await outcome(function, turn)
    except anyio.get_cancelled_exc_class():
        await anyio.lowlevel.checkpoint_if_cancelled()
        if _requests_to_cancel() != before:
            raise
    raise LostTool("a task that the tool waited for was cancelled")


def _requests_to_cancel() -> int:
    """How often asyncio was asked to cancel this task; trio has only scopes."""
    if not issubclass(anyio.get_cancelled_exc_class(), asyncio.CancelledError):
        return 0
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def function_tool(
    function: Callable[..., Any],
    *,
    name: str | None,
    description: str | None,
    schema: Mapping[str, Any] | None,
    serial: bool,
    timeout: float | None,
    requires_approval: bool,
) -> FunctionTool:
    """``function`` as a tool; ``ConfigError`` when it cannot be one, or an option is wrong."""
    signature = signature_of(expect_callable(function, "the function of a tool"))
    called = signature.name if name is None else expect(name, str, "name")
    if called is None or _NAME.fullmatch(called) is None:
        raise ConfigError("a tool needs a name of 1 to 64 letters, digits, '_' and '-': name=")
    words = signature.words if description is None else expect(description, str, "description")
    if schema is None:
        if signature.open:
            raise ConfigError(f"{called} takes any argument by **: it needs a schema=")
        made, read = by_types(called, signature.fields)
    else:
        made, read = by_schema(called, schema, signature)
    return FunctionTool(
        Tool(called, words, made),
        math.inf if timeout is None else seconds(timeout, "timeout"),
        expect(requires_approval, bool, "requires_approval"),
        function,
        signature.contexts,
        read,
        _READ_HERE if schema is None else _JUDGED_HERE,
        SerialLock() if expect(serial, bool, "serial") else None,
    )

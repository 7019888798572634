"""What can list tools and run calls of them (30 section 4)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Protocol, cast, runtime_checkable

from svir_client.tools.context import ToolContext
from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.message import ToolCall, ToolResult
from svir_core.request import Tool


@runtime_checkable
class Toolbox(Protocol):
    """Tools to offer, as ``Request(tools=toolbox)`` takes them, and a way to run a call of one.

    One that has ``requires_approval`` too, the names of tools, has a generation ask about their calls.
    """

    def tools(self) -> Iterable[Tool]:
        """The tools, in a stable order, their names all different."""
        ...

    async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
        """The result of ``call``, under its id.

        A failure is a result flagged ``is_error``: a name that is unknown, arguments that do not fit, a tool that
        raised or was late. Cancellation, ``KeyboardInterrupt`` and the like are raised.
        """
        ...


def approval_of(toolbox: Toolbox | None) -> frozenset[str]:
    """The names that ``toolbox`` has as ``requires_approval``, where it has that: tools whose calls a generation asks
    about before it runs them, and which are run when ``context.approved`` has the call's id.

    ``ConfigError`` when it is no set of names: one name alone would be that of its letters. What a property raises is
    raised, an ``AttributeError`` too: no call may run unasked because of it.
    """
    try:
        given: object = getattr(toolbox, "requires_approval")  # noqa: B009 - a toolbox need not have it
    except AttributeError:
        if inspect.getattr_static(toolbox, "requires_approval", None) is not None:
            raise
        return frozenset()
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        names = tuple(cast("Iterable[object]", given))
        if all(isinstance(name, str) for name in names):
            return frozenset(cast("tuple[str, ...]", names))
    raise ConfigError(f"requires_approval of {an(type(toolbox))} is not several names of tools")

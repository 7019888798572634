"""The plain registry: functions as tools, and the calls that a model makes of them (30 section 4)."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

import attrs

from svir_client.async_function import expect_blocking, refuse_coroutine
from svir_client.sync.loop_thread import loop_thread, refuse_event_loop
from svir_client.tools.context import ToolContext
from svir_client.tools.error import ToolError
from svir_client.tools.failure import failed, late, refused, unknown
from svir_client.tools.function_tool import FunctionTool, LateTool, function_tool
from svir_client.tools.pool import LIMIT, call_all
from svir_client.tools.result import content_of
from svir_client.tools.thread import outcome
from svir_client.tools.toolbox import Toolbox, approval_of
from svir_client.unique import Unique
from svir_client.watch import expect_callable
from svir_core.check import an
from svir_core.errors import ConfigError, ProtocolError
from svir_core.json_text import sanitize
from svir_core.message import ToolCall, ToolResult
from svir_core.not_run import cut_off, denied
from svir_core.request import Tool

F = TypeVar("F", bound=Callable[..., Any])
Approve = Callable[[ToolCall, ToolContext], bool | Awaitable[bool]]


class Tools(Unique):
    """A registry of tools. Tasks, threads, event loops and clients share it.

    ``Request(tools=tools)`` offers them, in the order they were added. No method but those that register changes it.
    """

    def __init__(
        self, *, approve: Approve | None = None, on_error: Callable[[Exception], object] | None = None
    ) -> None:
        """``approve(call, context)``, async too, is asked before a tool that ``requires_approval`` runs; without one
        such a tool never runs. ``on_error``, which is not async, is told of each exception that the model is not told
        of. What either of them raises is raised by the call.
        """
        self._approve = None if approve is None else expect_callable(approve, "approve")
        self._on_error = None if on_error is None else expect_blocking(on_error, "on_error")
        self._own: dict[str, FunctionTool] = {}
        self._boxes: list[Toolbox] = []

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        serial: bool = False,
        timeout: float | None = None,
        requires_approval: bool = False,
    ) -> Callable[[F], F]: ...

    def tool(self, function: Any = None, **options: Any) -> Any:
        """Register the decorated function, which stays as it is: ``@tools.tool``, or ``@tools.tool(serial=True)`` with
        the options of :meth:`add`."""

        def register(function: F) -> F:
            self.add(function, **options)
            return function

        return register if function is None else register(function)

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        serial: bool = False,
        timeout: float | None = None,
        requires_approval: bool = False,
    ) -> Tool:
        """Register ``function``, and give what the model is told of it.

        | option | default | |
        | --- | --- | --- |
        | ``name`` | the function's | 1 to 64 letters, digits, ``_`` and ``-`` |
        | ``description`` | its docstring, without the sections | what it does, for the model |
        | ``schema`` | from its type hints | a JSON Schema (2020-12): arguments come as parsed JSON, by their names |
        | ``serial`` | ``False`` | it never overlaps itself, in any task, thread, event loop or client |
        | ``timeout`` | none | seconds, from when it begins |
        | ``requires_approval`` | ``False`` | it runs only when ``approve`` of the registry says so |

        Raises ``ConfigError`` for a name that is taken or that APIs refuse, a parameter that JSON cannot be read into
        or that cannot be given by its name, a schema that is none, and options that are wrong.
        """
        made = function_tool(
            function,
            name=name,
            description=description,
            schema=schema,
            serial=serial,
            timeout=timeout,
            requires_approval=requires_approval,
        )
        self._refuse_taken([made.tool.name])
        self._own[made.tool.name] = made
        return made.tool

    def include(self, toolbox: Toolbox) -> None:
        """Offer the tools of another toolbox too, a registry's or an MCP session's, as they are at any time.

        Its calls are run by it, with its own approval and turns. A name that it takes on later, and that is taken,
        stays hidden. Raises ``ConfigError`` when one is taken now, for what is no toolbox, and for one whose
        ``requires_approval`` is not several names.
        """
        if not isinstance(toolbox, Toolbox) or toolbox is self:
            raise ConfigError("include() takes another Toolbox: tools() and async call(call, context)")
        self._refuse_taken(tool.name for tool in toolbox.tools())
        approval_of(toolbox)
        self._boxes.append(toolbox)

    def _refuse_taken(self, names: Iterable[str]) -> None:
        taken = {tool.name for tool in self.tools()}
        for name in names:
            if name in taken:
                raise ConfigError(f"there is a tool named {name} already")

    def tools(self) -> tuple[Tool, ...]:
        """What the model is told of each tool, in the order they were added; those of included toolboxes last."""
        found: dict[str, Tool] = {}
        for tool in self._all():
            found.setdefault(tool.name, tool)
        return tuple(found.values())

    def _all(self) -> Iterator[Tool]:
        yield from [each.tool for each in self._own.values()]
        for box in self._boxes:
            yield from box.tools()

    @property
    def requires_approval(self) -> frozenset[str]:
        """The tools that somebody must approve whom this registry cannot ask: it has no ``approve``. A generation
        stops before a call of one, until it is told."""
        own = () if self._approve is not None else self._own.values()
        inner = [approval_of(box) for box in self._boxes]
        return frozenset(each.tool.name for each in own if each.requires_approval).union(*inner)

    async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
        """The result of ``call``, under its id; as :class:`svir_client.Toolbox` says."""
        if not isinstance(call, ToolCall):
            raise ConfigError(f"call() takes a ToolCall, not {an(type(call))}")
        given = context or ToolContext()
        tell = functools.partial(self._tell, given.on_error)
        here = attrs.evolve(given, call_id=call.id, on_error=tell)
        found = self._own.get(call.name)
        if found is None:
            for box in self._boxes:
                if any(tool.name == call.name for tool in box.tools()):
                    return await box.call(call, here)
            return unknown(call)
        if not call.complete:
            return cut_off(call)
        unread: Exception | None = None
        arguments: Mapping[str, Any] = {}
        try:
            arguments = await found.read(call.arguments)
        except ProtocolError as error:
            return failed(call, error.detail)
        except Exception as error:  # noqa: BLE001 - what a class of the caller's raises is a result too
            unread = error
        if unread is not None:
            return _failure(call, unread, found, tell, refused)
        if found.requires_approval and not await self._approved(call, here):
            return denied(call)
        try:
            return ToolResult(call.id, content_of(await found.run(arguments, here)))
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is a result; on_error has it
            raised = error
        return _failure(call, raised, found, tell, failed)

    async def _approved(self, call: ToolCall, context: ToolContext) -> bool:
        if call.id in context.approved:
            return True
        approve = self._approve
        if approve is None:
            return False
        return await outcome(functools.partial(approve, call, context)) is True

    def _tell(self, outer: Callable[[Exception], object] | None, error: Exception) -> None:
        for told in (self._on_error, outer):
            if told is not None:
                refuse_coroutine(told(error), "on_error")

    async def call_all(
        self, calls: Iterable[ToolCall], *, context: ToolContext | None = None, limit: int = LIMIT
    ) -> tuple[ToolResult, ...]:
        """The results of ``calls``, as :func:`svir_client.call_all` gives them."""
        return await call_all(self, calls, context=context, limit=limit)

    def call_all_sync(
        self, calls: Iterable[ToolCall], *, context: ToolContext | None = None, limit: int = LIMIT
    ) -> tuple[ToolResult, ...]:
        """As :meth:`call_all`, for a thread without an event loop; with one it raises ``ConfigError``.

        Async tools run on the thread of the blocking clients, under asyncio.
        """
        refuse_event_loop()
        return loop_thread().call(lambda: self.call_all(calls, context=context, limit=limit))

    def __repr__(self) -> str:
        return f"Tools({', '.join(tool.name for tool in self.tools())})"


def _failure(
    call: ToolCall,
    error: Exception,
    tool: FunctionTool,
    tell: Callable[[Exception], None],
    untold: Callable[[ToolCall], ToolResult],
) -> ToolResult:
    """The result of a call that raised ``error``: words where it has some for the model, else ``untold``."""
    if isinstance(error, LateTool):
        return late(call, tool.timeout)
    if isinstance(error, ToolError):
        try:
            return failed(call, sanitize(str(error)) or None)
        except Exception as raised:  # noqa: BLE001 - a __str__ of the caller's
            error = raised
    tell(error)
    return untold(call)

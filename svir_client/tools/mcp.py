"""The tools of an MCP session as a toolbox (30 section 4). Needs the extra: ``pip install 'svir-client[mcp]'``.

Names stay as the server has them. The server judges the arguments, and what it says of a failed call goes to the
model; what went wrong between it and us does not.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import orjson

from svir_client.tools.context import ToolContext
from svir_client.tools.failure import failed, late, unknown
from svir_client.unique import Unique
from svir_core.check import seconds
from svir_core.errors import ConfigError, ProtocolError
from svir_core.message import Image, Media, ResultPart, Text, TextFile, ToolCall, ToolResult
from svir_core.not_run import cut_off
from svir_core.request import Tool

try:
    from mcp import Client, ClientSession, types
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("McpTools needs the mcp package: pip install 'svir-client[mcp]'", name="mcp") from error

PAGES: Final = 1000
"""So many pages a listing may have: a server that always names one more would be asked forever."""


class McpTools(Unique):
    """A toolbox over a session of the ``mcp`` package: its ``Client``, or a ``ClientSession`` that is initialized.

    ``await McpTools.of(session)`` lists the tools. Where the server says that its list has changed, :meth:`refresh`
    lists them again; a session that was made with ``message_handler=box.on_message`` does so by itself.
    """

    def __init__(self, *, timeout: float | None = None) -> None:
        """Without a session yet, and so without tools: :meth:`use` gives it one. ``timeout``: seconds for a call."""
        self._timeout = math.inf if timeout is None else seconds(timeout, "timeout")
        self._session: Client | ClientSession | None = None
        self._tools: tuple[Tool, ...] = ()
        self._asked = 0
        self._listed = 0

    @classmethod
    async def of(cls, session: Client | ClientSession, *, timeout: float | None = None) -> McpTools:
        """The tools of ``session``, listed; raises what :meth:`refresh` raises."""
        box = cls(timeout=timeout)
        await box.use(session)
        return box

    async def use(self, session: Client | ClientSession) -> None:
        """Take the tools of ``session`` from now on; raises what :meth:`refresh` raises."""
        if not isinstance(session, Client | ClientSession):
            raise ConfigError("McpTools takes a Client or a ClientSession of the mcp package")
        self._session = session
        await self.refresh()

    async def refresh(self) -> None:
        """List the tools again. Until all pages are there, and when one cannot be had, the old list stays.

        Raises ``ProtocolError`` when the list does not end, ``ConfigError`` without a session, and what the session
        raises.
        """
        self._asked += 1
        number = self._asked
        found: dict[str, Tool] = {}
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self._page(cursor)
            for tool in page.tools:
                found.setdefault(tool.name, Tool(tool.name, tool.description or tool.title or "", tool.input_schema))
            cursor = page.next_cursor
            if cursor is None:
                break
        else:
            raise ProtocolError(f"the MCP server's list of tools has more than {PAGES} pages")
        if number > self._listed:  # else a later listing was faster
            self._listed = number
            self._tools = tuple(found.values())

    async def _page(self, cursor: str | None) -> types.ListToolsResult:
        session = self._session
        if session is None:
            raise ConfigError("McpTools has no session yet: await use(session)")
        if isinstance(session, Client):
            return await session.list_tools(cursor=cursor, cache_mode="refresh")
        return await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))

    async def on_message(self, message: object) -> None:
        """A ``message_handler`` for the session: lists the tools again when the server says that they changed."""
        if isinstance(message, types.ToolListChangedNotification) and self._session is not None:
            await self.refresh()

    def tools(self) -> tuple[Tool, ...]:
        """The tools as they were listed last, in the server's order; of a name that comes twice, the first."""
        return self._tools

    async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
        """What the server answers to ``call``; as :class:`svir_client.Toolbox` says."""
        session = self._session
        if session is None or all(tool.name != call.name for tool in self._tools):
            return unknown(call)
        if not call.complete:
            return cut_off(call)
        try:
            arguments = call.parse(dict[str, Any])
        except ProtocolError as error:
            return failed(call, error.detail)
        try:
            with anyio.move_on_after(self._timeout):
                return _result(call, await session.call_tool(call.name, arguments))
            return late(call, self._timeout)
        except Exception as error:  # noqa: BLE001 - a session raises what its server and its transport make of it
            raised = error
        if context is not None and context.on_error is not None:
            context.on_error(raised)
        return failed(call)

    def __repr__(self) -> str:
        return f"McpTools({', '.join(tool.name for tool in self._tools)})"


def _result(call: ToolCall, answer: types.CallToolResult) -> ToolResult:
    parts = [_PARTS[type(block)](block) for block in answer.content]
    if answer.structured_content is not None and not any(isinstance(part, Text) for part in parts):
        parts.append(Text(orjson.dumps(answer.structured_content).decode()))
    if all(isinstance(part, Text) for part in parts) and len(parts) < 2:
        return ToolResult(call.id, "".join(part.text for part in parts if isinstance(part, Text)), answer.is_error)
    return ToolResult(call.id, tuple(parts), answer.is_error)


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        problem = "a block of an MCP result is not base64"
    raise ProtocolError(problem)


def _link(block: types.ResourceLink) -> Text:
    words = block.title or block.name
    return Text(f"{words}: {block.uri}" + (f"\n{block.description}" if block.description else ""))


def _resource(block: types.EmbeddedResource) -> ResultPart:
    resource = block.resource
    name = resource.uri.rpartition("/")[2] or resource.uri
    if isinstance(resource, types.TextResourceContents):
        return TextFile.data(resource.text, name)
    media_type = resource.mime_type or "application/octet-stream"
    data = _bytes(resource.blob)
    return Image.data(data, media_type) if media_type.startswith("image/") else Media.data(data, media_type, name)


_PARTS: Final[Mapping[type, Callable[[Any], ResultPart]]] = {
    types.TextContent: lambda block: Text(block.text),
    types.ImageContent: lambda block: Image.data(_bytes(block.data), block.mime_type),
    types.AudioContent: lambda block: Media.data(_bytes(block.data), block.mime_type),
    types.ResourceLink: _link,
    types.EmbeddedResource: _resource,
}
"""The blocks of a result, and the part that each becomes."""

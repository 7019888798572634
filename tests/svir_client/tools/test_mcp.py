"""An MCP session's tools, from a real server of the ``mcp`` package in this process, over memory streams."""

from __future__ import annotations

import base64
import builtins
import importlib
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp
import pytest
from mcp import types
from mcp.server import MCPServer
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.subscriptions import ToolsListChanged

import svir_client.tools.mcp
from svir_client import Toolbox, ToolContext, Tools
from svir_client.tools.mcp import PAGES, McpTools
from svir_core import (
    ConfigError,
    Image,
    Media,
    ProtocolError,
    Request,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
)

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


def data(value: bytes) -> str:
    return base64.b64encode(value).decode()


class Peer:
    """A server whose tools a test changes, one to a page; ``answers`` is what each gives."""

    def __init__(self) -> None:
        self.answers: dict[str, types.CallToolResult | Exception] = {}
        self.called: list[tuple[str, dict[str, Any] | None]] = []
        self.endless = False
        self.hangs = anyio.Event()
        self.server = Server[Any]("peer", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, _: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        number = int(params.cursor) if params is not None and params.cursor is not None else 0
        names = list(self.answers)
        words = None if number else "The first."
        page = [
            types.Tool(name=name, title=f"Title of {name}", description=words, input_schema=SCHEMA)
            for name in names[number : number + 1]
        ]
        more = self.endless or number + 1 < len(names)
        return types.ListToolsResult(tools=page, next_cursor=str(number + 1) if more else None)

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.called.append((params.name, params.arguments))
        if params.name == "adds":
            self.answers["added"] = text("added")
            await context.session.send_tool_list_changed()
        if params.name == "hangs":
            try:
                await anyio.sleep_forever()
            finally:
                self.hangs.set()
        answer = self.answers[params.name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def session(self, handler: Any = None) -> AsyncGenerator[mcp.ClientSession, None]:
        async with create_client_server_memory_streams() as (client, server), anyio.create_task_group() as tasks:
            tasks.start_soon(self.server.run, *server, self.server.create_initialization_options())
            async with mcp.ClientSession(*client, message_handler=handler) as session:
                await session.initialize()
                yield session
            tasks.cancel_scope.cancel()


def text(words: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=is_error)


def call(name: str, arguments: str = "{}", **more: Any) -> ToolCall:
    return ToolCall("c", name, arguments, **more)


async def test_tools_of_every_page_are_offered_and_called() -> None:
    peer = Peer()
    peer.answers = {"a.b/c": text("one"), "two": text("no", is_error=True)}
    with anyio.fail_after(10):
        async with peer.session() as session:
            box = await McpTools.of(session)
            assert isinstance(box, Toolbox)
            offered = Request("m", tools=box).tools
            assert [(tool.name, tool.description) for tool in offered] == [
                ("a.b/c", "The first."),
                ("two", "Title of two"),
            ]
            assert offered[0].schema == SCHEMA
            assert repr(box) == "McpTools(a.b/c, two)"
            assert await box.call(call("a.b/c", '{"text": "x"}')) == ToolResult("c", "one")
            assert await box.call(call("two", "")) == ToolResult("c", "no", is_error=True)
            assert peer.called == [("a.b/c", {"text": "x"}), ("two", {})]


async def test_blocks_become_parts() -> None:
    peer = Peer()
    text_resource = types.TextResourceContents(uri="file:///notes/a.txt", text="notes")
    blob = types.BlobResourceContents(uri="file:///a.pdf", blob=data(b"pdf"), mime_type="application/pdf")
    picture = types.BlobResourceContents(uri="x:", blob=data(b"png"), mime_type="image/png")
    unknown = types.BlobResourceContents(uri="x:", blob=data(b"?"))
    link = types.ResourceLink(name="log", uri="file:///log", description="The log.")
    bare = types.ResourceLink(name="log", title="Log", uri="file:///log")
    peer.answers = {
        "all": types.CallToolResult(
            content=[
                types.TextContent(text="see"),
                types.ImageContent(data=data(b"png"), mime_type="image/png"),
                types.AudioContent(data=data(b"wav"), mime_type="audio/wav"),
                *(types.EmbeddedResource(resource=each) for each in (text_resource, blob, picture, unknown)),
                link,
                bare,
            ]
        ),
        "structured": types.CallToolResult(content=[], structured_content={"a": [1]}),
        "beside": types.CallToolResult(content=text("told").content, structured_content={"a": 1}),
        "pictured": types.CallToolResult(
            content=[types.ImageContent(data=data(b"png"), mime_type="image/png")], structured_content={"a": 1}
        ),
        "empty": types.CallToolResult(content=[]),
    }
    with anyio.fail_after(10):
        async with peer.session() as session:
            tools = Tools()
            tools.include(await McpTools.of(session))
            results = await tools.call_all([call(name) for name in peer.answers])
    assert [result.content for result in results] == [
        (
            Text("see"),
            Image.data(b"png", "image/png"),
            Media.data(b"wav", "audio/wav"),
            TextFile.data("notes", "a.txt"),
            Media.data(b"pdf", "application/pdf", "a.pdf"),
            Image.data(b"png", "image/png"),
            Media.data(b"?", "application/octet-stream", "x:"),
            Text("log: file:///log\nThe log."),
            Text("Log: file:///log"),
        ),
        '{"a":[1]}',
        "told",
        (Image.data(b"png", "image/png"), Text('{"a":1}')),
        "",
    ]
    assert not any(result.is_error for result in results)


async def test_failures_are_results() -> None:
    peer = Peer()
    bad = types.CallToolResult(content=[types.ImageContent(data="hunter2!", mime_type="image/png")])
    peer.answers = {"raises": ValueError("hunter2"), "bad": bad, "hangs": text("never")}
    heard: list[Exception] = []
    outer: list[Exception] = []
    with anyio.fail_after(10):
        async with peer.session() as session:
            box = await McpTools.of(session, timeout=0.05)
            tools = Tools(on_error=outer.append)
            tools.include(box)
            results = await tools.call_all(
                [
                    call("raises"),
                    call("bad"),
                    call("hangs"),
                    call("bad", "[1]"),
                    call("bad", '{"a', complete=False),
                    call("hunter2"),
                ],
                context=ToolContext(on_error=heard.append),
                limit=1,
            )
            await peer.hangs.wait()  # the server was told
            assert await box.call(call("raises")) == ToolResult("c", "tool 'raises' failed", is_error=True)
            assert await box.call(call("y" * 100)) == ToolResult("c", "unknown tool: " + "y" * 64, is_error=True)
    assert [result.content for result in results] == [
        "tool 'raises' failed",
        "tool 'bad' failed",
        "tool 'hangs' did not end within 0.05 s",
        "the arguments of a tool call: does not fit dict: $: expected an object, got an array",
        "the arguments of bad were cut off: nothing was run",
        "unknown tool: hunter2",
    ]
    assert all(result.is_error for result in results)
    assert [type(error) for error in heard] == [mcp.MCPError, ProtocolError]
    assert heard == outer


async def test_a_list_that_changed_is_listed_again() -> None:
    peer = Peer()
    listed = anyio.Event()

    class Watched(McpTools):
        async def refresh(self) -> None:
            await super().refresh()
            if len(self.tools()) == 2:
                listed.set()

    peer.answers = {"adds": text("a")}
    box = Watched()
    await box.on_message(types.ToolListChangedNotification())  # without a session there is nothing to list
    with anyio.fail_after(10):
        async with peer.session(box.on_message) as session:
            await box.use(session)
            assert [tool.name for tool in box.tools()] == ["adds"]
            await box.on_message(ValueError("what a transport said"))
            await box.call(call("adds"))
            await listed.wait()
            assert [tool.name for tool in box.tools()] == ["adds", "added"]
            assert (await box.call(call("added"))).content == "added"


async def test_an_older_listing_does_not_replace_a_newer_one() -> None:
    peer = Peer()
    peer.answers = {"old": text("")}
    first = anyio.Event()
    go_on = anyio.Event()

    class Slow(McpTools):
        async def _page(self, cursor: str | None) -> types.ListToolsResult:
            page = await super()._page(cursor)
            if not first.is_set():
                first.set()
                await go_on.wait()
            return page

    box = Slow()
    with anyio.fail_after(10):
        async with peer.session() as session, anyio.create_task_group() as tasks:
            tasks.start_soon(box.use, session)
            await first.wait()
            peer.answers = {"new": text("")}
            await box.refresh()
            go_on.set()
    assert [tool.name for tool in box.tools()] == ["new"]


async def test_a_list_without_an_end_and_a_box_without_a_session() -> None:
    peer = Peer()
    peer.answers = {"a": text("a")}
    with anyio.fail_after(60):
        async with peer.session() as session:
            box = await McpTools.of(session)
            peer.endless = True
            with pytest.raises(ProtocolError, match=f"more than {PAGES} pages"):
                await box.refresh()
            assert [tool.name for tool in box.tools()] == ["a"]  # the old list stays
    neither: Any = peer
    alone = McpTools()
    assert alone.tools() == ()
    assert (await alone.call(call("a"))).content == "unknown tool: a"
    with pytest.raises(ConfigError, match="no session yet"):
        await alone.refresh()
    with pytest.raises(ConfigError, match="takes a Client or a ClientSession"):
        await alone.use(neither)
    with pytest.raises(ConfigError, match="timeout"):
        McpTools(timeout=0)


async def test_a_client_of_the_package_serves_too() -> None:
    peer = Peer()
    peer.answers = {"a": text("a"), "b": text("b")}
    with anyio.fail_after(10):
        async with mcp.Client(peer.server) as client:
            box = await McpTools.of(client)
            assert [tool.name for tool in box.tools()] == ["a", "b"]
            assert await box.call(call("b")) == ToolResult("c", "b")


async def test_a_session_that_listens_for_changes() -> None:
    bus = InMemorySubscriptionBus()
    server = MCPServer("peer", subscriptions=bus)
    server.add_tool(lambda: "a", name="a")
    refreshed = anyio.Event()
    with anyio.fail_after(10):
        async with mcp.Client(server) as session, anyio.create_task_group() as tasks:
            box = await McpTools.of(session)

            async def follow() -> None:
                async with session.listen(tools_list_changed=True) as changes:
                    server.add_tool(lambda: "b", name="b")
                    await bus.publish(ToolsListChanged())
                    async for _ in changes:
                        await box.refresh()
                        refreshed.set()

            tasks.start_soon(follow)
            await refreshed.wait()
            assert [tool.name for tool in box.tools()] == ["a", "b"]
            assert (await box.call(call("b"))).content == "b"
            tasks.cancel_scope.cancel()


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "mcp":
            raise ModuleNotFoundError("No module named 'mcp'", name="mcp")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "svir_client.tools.mcp")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'svir-client\[mcp\]'"):
        importlib.import_module("svir_client.tools.mcp")
    assert svir_client.tools.mcp.McpTools is McpTools

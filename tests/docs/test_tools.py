"""docs/tools.md says what the docstrings say, and its snippets run, one after the other."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, FunctionModel, Session, ToolContext, ToolError, Tools, generate
from svir_client.testing import MockServer, Reply
from svir_core import Completion, ToolCall

pytestmark = pytest.mark.anyio

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def test_the_snippets_run() -> None:
    assert len(SNIPPETS) > 6
    names: dict[str, Any] = {"__name__": "page"}
    with anyio.fail_after(30):
        for number, snippet in enumerate(SNIPPETS):
            code = compile(snippet, f"snippet {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            waiting = eval(code, names)
            if inspect.iscoroutine(waiting):
                await waiting
    assert names["state"].contains("notes")


async def test_the_tool_of_the_page_that_remembers_does_so_in_a_session() -> None:
    names: dict[str, Any] = {"__name__": "page", "tools": Tools(), "ToolContext": ToolContext, "ToolError": ToolError}
    (remember,) = (snippet for snippet in SNIPPETS if "def remember" in snippet)
    exec(remember.partition("state = SessionState()")[0], names)
    asks = Completion("tool_calls", [ToolCall("a", "remember", '{"words": "buy milk"}')])
    answers = iter((asks, asks, "Noted."))
    session = Session()
    with anyio.fail_after(20):
        async with FunctionModel(lambda _: next(answers)) as client:
            await generate(client, session, "Remember it, twice.", model="m", tools=names["tools"])
    assert session.state.get("notes", list) == ["buy milk", "buy milk"]


@pytest.mark.parametrize("function", ["ask", "by_hand"])
async def test_the_loops_of_the_page(function: str) -> None:
    names: dict[str, Any] = {}
    exec(SNIPPETS[0], names)
    exec(next(snippet for snippet in SNIPPETS if "def by_hand" in snippet), names)
    asks = Reply.completion(
        Completion("tool_calls", [ToolCall("a", "lookup", '{"value": 7}'), ToolCall("b", "lookup", '{"value": "8"}')])
    )
    with anyio.fail_after(20):
        async with MockServer(asks, Reply.text("It is 14.")) as server, AsyncClient.openai(server.origin) as client:
            assert await names[function](client, "m", "What is 7?") == "It is 14."
            first, second = (request.json() for request in server.requests)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["lookup"]
    assert [message["content"] for message in second["messages"][-2:]] == [
        "14",
        "error: the arguments of lookup: does not fit the schema: $.value: expected an integer, got a string",
    ]


def test_the_options_are_those_of_the_docstring() -> None:
    def rows(text: str) -> list[str]:
        return [line.strip().replace("``", "`") for line in text.splitlines() if line.strip().startswith("| ")]

    listed = rows(inspect.getdoc(Tools.add) or "")
    assert len(listed) == 8
    assert listed == [row for row in rows(PAGE) if row in listed]
    options = [name for name in inspect.signature(Tools.add).parameters if name not in ("self", "function")]
    assert [re.findall(r"`(\w+)`", row)[0] for row in listed[2:]] == options

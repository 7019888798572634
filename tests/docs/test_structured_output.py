"""docs/structured-output.md says what is true: its snippets run, one after the other; its figures are the code's."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
from collections.abc import Coroutine
from types import CodeType, FunctionType
from typing import Any

import anyio
import anyio.to_thread
import pytest

from svir_client import AsyncClient, PartialStream
from svir_client.testing import MockServer, Reply
from svir_core.limits import DOCUMENT_BYTES, JSON_DEPTH
from svir_core.request import Schema

pytestmark = pytest.mark.anyio

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "structured-output.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TEXT = ('{"title": "Tea", "steps": [{"do": "boil", "min', 'utes": 3}, {"do": "steep", "minutes": 5}]}')


async def run(snippet: str, names: dict[str, Any]) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile(snippet, "structured-output.md", "exec", flags=flags, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        step: Coroutine[Any, Any, None] = FunctionType(code, names)()
        await step
    else:
        await anyio.to_thread.run_sync(exec, code, names)


async def test_the_snippets_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"Schema": Schema, "__name__": "snippets"}
    with anyio.fail_after(20):
        async with MockServer(*[Reply.text(*TEXT)] * 4) as server, AsyncClient.openai(server.origin) as client:
            for snippet in SNIPPETS:
                await run(snippet.replace("http://127.0.0.1:1234", server.origin), names)
                names["client"] = client
            assert (server.unscripted, len(server.requests)) == (0, 4)
    printed = capsys.readouterr().out
    for line in ("Tea 2 ", "- steep (5 min)\n", "\nboil\nsteep\n", "('title',) {'title': 'T'}\n"):
        assert line in printed


def test_every_member_of_a_partial_answer_is_named() -> None:
    for name in (name for base in PartialStream.__mro__ for name in vars(base) if not name.startswith("_")):
        assert f"`now.{name}" in PAGE or f"`partial.{name}" in PAGE, name


def test_the_bounds_are_those_of_the_code() -> None:
    assert f"up to {JSON_DEPTH} levels" in PAGE
    assert f"{DOCUMENT_BYTES >> 20} Mi characters" in PAGE

"""The README's code runs, against servers that say what it expects; and its examples are all there are."""

from __future__ import annotations

import inspect
import pathlib
import re
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient
from svir_client.testing import MockServer, Reply
from svir_core import Completion, Request, ToolCall

pytestmark = pytest.mark.anyio

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS: list[str] = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SECONDS = 20
HELLO = Reply.text("Hel", "lo")


def snippet(words: str) -> str:
    """The one that has these words."""
    (found,) = (text for text in SNIPPETS if words in text)
    return found


def defined(words: str) -> dict[str, Any]:
    """The names that a snippet makes, nothing of it called."""
    names: dict[str, Any] = {"__name__": "page"}
    exec(snippet(words), names)
    return names


async def test_one_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with anyio.fail_after(SECONDS):
        async with MockServer(HELLO, Reply.text("Yes.")) as server:
            code = snippet("Explain ownership in one paragraph.").replace("http://127.0.0.1:1234", server.origin)
            definitions, _, call = code.rpartition("\n\n\n")
            assert call == "asyncio.run(main())\n"
            names: dict[str, Any] = {}
            exec(definitions, names)
            await names["main"]()
            roles = [[message["role"] for message in request.json()["messages"]] for request in server.requests]
    assert roles == [["system", "user"], ["system", "user", "assistant", "user"]]
    assert capsys.readouterr().out == "Hello stop None\nYes.\n"


async def test_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    with anyio.fail_after(SECONDS):
        async with MockServer(HELLO) as server, AsyncClient.openai(server.origin) as client:
            await defined("async def show")["show"](client)
    assert capsys.readouterr().out.startswith("HelloNone ")


async def test_a_conversation_with_tools(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asks = Reply.completion(Completion("tool_calls", [ToolCall("a", "lookup", '{"value": 7}')]))
    with anyio.fail_after(SECONDS):
        replies = asks, Reply.text("It is 14."), Reply.text("Still 14.")
        async with MockServer(*replies) as server, AsyncClient.openai(server.origin) as client:
            talk = defined("async def talk")["talk"]
            await talk(client)
            await talk(client)
            said = [message["content"] for message in server.requests[-1].json()["messages"]]
    assert said == ["Be brief.", "What is 7 as a value?", "", "14", "It is 14.", "What is 7 as a value?"]
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("It is 14. Usage(")
    assert first.endswith(" 2 1")
    assert second.startswith("Still 14. Usage(")


async def test_attachments_and_layers(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before.png").write_bytes(b"\x89PNG")
    (tmp_path / "diff.patch").write_text("a patch of mine")
    with anyio.fail_after(SECONDS):
        async with MockServer(HELLO) as server:
            assert await defined("async def review")["review"](server.origin) == "Hello"
            (request,) = server.requests
    assert b"a patch of mine" in request.body
    assert b"iVBORw" in request.body
    told = capsys.readouterr().err
    assert "qwen3-27b" in told
    assert "a patch of mine" not in told


async def test_a_proxy(capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[bytes] = []

    async def send(data: bytes) -> None:
        sent.append(data)

    with anyio.fail_after(SECONDS):
        async with MockServer(HELLO) as server, AsyncClient.openai(server.origin) as client:
            await defined("async def relay")["relay"](client, Request("m").user("hi"), send)
    assert b"Hel" in b"".join(sent)
    assert capsys.readouterr().out.startswith("Completion(")


def test_another_http_stack(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"any_source_of_bytes": [piece for piece in HELLO.body or () if isinstance(piece, bytes)]}
    exec(snippet("any_source_of_bytes"), names)
    assert names["answer"].text == "Hello"
    assert capsys.readouterr().out == "HelloNone stop\n"


def test_each_snippet_is_run_here() -> None:
    functions = [text for name, text in globals().items() if name.startswith("test_") and inspect.isfunction(text)]
    assert len(SNIPPETS) == len(functions) - 2


def test_every_example_is_listed() -> None:
    page = (ROOT / "docs" / "generation.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\]\(\.\./examples/(\w+)\.py\)", page.partition("\n## Examples\n")[2]))
    files = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert files - listed == {"demo", "provider"}, "what `make demo` runs, and what several of them share"
    assert listed <= files

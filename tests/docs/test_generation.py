"""docs/generation.md says what the code does: its snippets run, one after the other, and its tables are the code's."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
from typing import Any

import anyio
import anyio.to_thread
import attrs
import pytest

import svir_client
import svir_client.sync
from svir_client import AsyncClient, Session, generate_stream
from svir_client.generation.options import RunOptions, TurnOptions
from svir_client.testing import MockServer, Reply
from svir_core import Completion, Generation, GenerationOutcome, LoopLimits, Request, Text, ToolCall

pytestmark = pytest.mark.anyio

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "generation.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:1234"


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[str]:
    return [line.strip().replace("``", "`") for line in text.splitlines() if line.strip().startswith("| ")]


def calls(name: str, arguments: str) -> Reply:
    return Reply.completion(Completion("tool_calls", [ToolCall("call_1", name, arguments)]))


def somebody(call: ToolCall) -> bool:
    return call.name == "delete"


async def run(snippet: str, names: dict[str, Any]) -> None:
    code = compile(snippet, "generation.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    waiting = eval(code, names)
    if inspect.iscoroutine(waiting):
        await waiting


async def test_the_snippets_run(capsys: pytest.CaptureFixture[str]) -> None:
    first, stream, fails, approval, streamed, blocking = SNIPPETS
    asks = calls("weather", '{"city": "Oslo"}')
    names: dict[str, Any] = {"__name__": "page", "ask_somebody": somebody}
    with anyio.fail_after(30):
        async with MockServer() as server, AsyncClient.openai(server.origin) as client:
            here = [snippet.replace(ADDRESS, server.origin) for snippet in (first, blocking)]
            server.add(asks, Reply.text("Yes."), Reply.text("No."))
            await run(here[0], names)
            await names["main"]()
            assert capsys.readouterr().out.startswith("Yes. Usage(")

            names |= {"client": client, "session": Session()}
            server.add(asks, Reply.text("Ra", "in."))
            await run(stream, names)
            assert capsys.readouterr().out.startswith("round 1: 1 results\nRain.Usage(")

            server.add(asks, Reply.document({"error": {"message": "no"}}, 503), Reply.text("The same."))
            await run(fails, names)
            assert " 1 (Message(" in capsys.readouterr().out
            assert (names["answer"].text, names["answer"].rounds) == ("The same.", 2)

            server.add(calls("delete", '{"path": "x"}'), Reply.text("Done."))
            await run(approval, names)
            assert (names["answer"].text, names["answer"].outcome) == ("Done.", GenerationOutcome.ANSWERED)

            again = Completion("tool_calls", [Text("Wait. "), ToolCall("call_2", "delete", '{"path": "y"}')])
            server.add(calls("delete", '{"path": "x"}'), Reply.completion(again), Reply.text("Clean."))
            await run(streamed, names)
            assert capsys.readouterr().out == "Wait. Clean."

            server.add(asks, Reply.text("Yes."))
            await anyio.to_thread.run_sync(exec, here[1], names)
            assert capsys.readouterr().out == "Yes.\n"
            assert server.unscripted == 0


def test_the_options_are_those_of_the_docstring_and_of_the_code() -> None:
    listed = rows(inspect.getdoc(generate_stream) or "")
    assert len(listed) == 8
    shown = rows(PAGE.replace(": `response_format=Schema.of(Answer)`", "").partition("\n## ")[0])
    begins = shown.index(listed[0])
    assert shown[begins : begins + 8] == [row.replace(":class:`svir_core.Request`", "`Request`") for row in listed]
    named = {name for row in listed[2:] for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    assert named - {"temperature", "effort", "extra"} == set(RunOptions.__annotations__)
    fields = {field.name for field in attrs.fields(Request)}
    own = set(TurnOptions.__annotations__) - set(RunOptions.__annotations__)
    assert fields - own == {"model", "system", "messages", "tools"}


def test_the_limits_are_those_of_the_code() -> None:
    shown = dict(re.findall(r"^\| `(\w+)` \| `?(\w+)`? \|", section("Limits"), re.MULTILINE))
    assert shown == {field.name: str(field.default) for field in attrs.fields(LoopLimits)}


def test_the_answer_has_what_the_page_says() -> None:
    shown = set(re.findall(r"\banswer\.(\w+)", PAGE))
    fields = {field.name for field in attrs.fields(Generation)}
    assert fields <= shown <= fields | {"text", "finish", "parse"}


def test_the_outcomes_are_all_named() -> None:
    for outcome in GenerationOutcome:
        assert f"`{outcome.name}`" in PAGE


def test_blocking_code_has_the_same_four_functions() -> None:
    assert "has the same four functions" in PAGE
    for name in ("generate", "generate_stream", "resume", "resume_stream"):
        assert callable(getattr(svir_client, name))
        assert callable(getattr(svir_client.sync, name))

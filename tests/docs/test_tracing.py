"""docs/tracing.md says what the code does: its tables are complete, and its snippets run."""

from __future__ import annotations

import inspect
import os
import pathlib
import re
import textwrap
from typing import Any

import anyio
import attrs
import orjson
import pytest

from svir_client import Trace, tracing
from svir_client.testing import MockServer
from svir_client.tracing import (
    EventType,
    GenerationEnd,
    GenerationFailure,
    GenerationStart,
    ProviderEnd,
    ProviderStart,
    ToolEnd,
    ToolStart,
    TraceEvent,
    genai,
)
from svir_client.tracing.record import CONTENT_NAMES
from tests.svir_client.chat import SECONDS, hello

pytestmark = pytest.mark.anyio

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "tracing.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def told(path: pathlib.Path) -> list[str]:
    return [orjson.loads(line)["type"] for line in path.read_bytes().splitlines()]


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("| ")]


def first_column(text: str) -> list[str]:
    return [name for row in rows(text) for name in re.findall(r"`([^`(]+)[^`]*`", row.split("|")[1])]


def names(cls: type[attrs.AttrsInstance]) -> list[str]:
    return [field.name for field in attrs.fields(cls)]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=[f"snippet {number}" for number in range(len(SNIPPETS))])
async def test_the_snippets_run(
    snippet: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with anyio.fail_after(SECONDS):
        async with MockServer(answer=lambda _: hello()) as server:
            source = snippet.replace("http://127.0.0.1:1234", server.origin)
            space: dict[str, Any] = {}
            exec(f"async def snippet():\n{textwrap.indent(source, '    ')}\n    return locals()", space)
            made = await space["snippet"]()
    assert made["answer"].text == "Hello"
    assert all(told(path) == ["provider_start", "provider_end"] for path in map(pathlib.Path, os.listdir()))
    assert ("console" in snippet) is ("provider_end" in capsys.readouterr().err)


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) == 5


def test_how_a_call_ends_is_as_the_docstring_says() -> None:
    assert rows(section("How a call ends")) == rows(inspect.getdoc(Trace) or "")


def test_every_field_is_named() -> None:
    fields, provider, generation, tool = section("What an event holds").split("| attribute of ")
    assert sorted(first_column(fields)) == sorted(names(TraceEvent))
    for table, start, *ends in (
        (provider, ProviderStart, ProviderEnd),
        (generation, GenerationStart, GenerationEnd, GenerationFailure),
        (tool, ToolStart, ToolEnd),
    ):
        rows_alone = table.partition("\n")[2]
        assert set(first_column(rows_alone)) == {name for end in ends for name in names(end)}
        assert all(f"`{name}`" in rows_alone for name in names(start))


def test_every_event_is_named() -> None:
    (row,) = [row for row in rows(section("What an event holds")) if row.startswith("| `type`")]
    assert re.findall(r"`(\w+)`", row)[1:] == [type.value for type in EventType]


def test_everything_that_was_said_is_named() -> None:
    content = section("Content")
    assert all(f"`{name}`" in content for name in CONTENT_NAMES)


def test_every_sink_and_its_arguments_are_named() -> None:
    listed = dict(re.findall(r"^\| `(\w+)\(([^)]*)\)`", section("Sinks"), re.MULTILINE))
    factories = {name: getattr(tracing, name) for name in tracing.__all__ if name.islower()}
    assert set(listed) == set(factories)
    for name, arguments in listed.items():
        own = [parameter for parameter in inspect.signature(factories[name]).parameters if parameter != "content"]
        assert [argument.partition("=")[0] for argument in arguments.split(", ")] == own


def test_every_name_of_the_conventions_is_in_the_table() -> None:
    ours = {value for name, value in vars(genai).items() if name.isupper() and isinstance(value, str)}
    assert set(first_column(section("OpenTelemetry"))) == ours - {genai.TOKEN_TYPE}
    assert f"`{genai.TOKEN_TYPE}`" in PAGE
    assert genai.READ_FROM[0] in PAGE
    assert genai.READ_FROM[1] in PAGE

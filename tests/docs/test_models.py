"""docs/models.md says what is true: its tables are compared with the code's, and what it shows works."""

from __future__ import annotations

import inspect
import pathlib
import re

import attrs
import orjson
import pytest

from svir_client import Capability, ModelDescriptor, models
from svir_client.models.capability import needed
from svir_client.models.descriptor import HABITS
from svir_core.message import Image, Media, Message, Part, Text, TextFile
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api, CodecOptions, Compat

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
APIS: list[Api] = [openai_chat.API, openai_responses.API, anthropic_messages.API, gemini.API]


def rows(title: str) -> list[list[str]]:
    """The rows of the table in a section, without its head."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_catalogue() -> None:
    assert rows("The catalogue") == [
        [
            f"`{row.id}`",
            row.display_name,
            f"`{row.api}`",
            f"{row.context_window:,}",
            ", ".join(kind for kind in ("image", "audio", "file") if f"{kind}_input" in row.capabilities),
            str(row.read_on),
        ]
        for row in models.CATALOGUE.values()
    ]
    for row in models.CATALOGUE.values():
        assert {"text_output", "tools", "parallel_tool_calls"} <= row.capabilities
        assert row.max_output_tokens is None
    body = bytes(
        anthropic_messages.API.encode(
            models.find("claude-sonnet-5").request(messages=[Message.user("hi")]), CodecOptions(), Compat()
        )
    )
    assert orjson.loads(body)["max_tokens"] == 4096


def test_every_field_of_a_descriptor_with_its_default() -> None:
    told = {words(name)[0]: default for name, default, _ in rows("What a descriptor says")}
    assert list(told) == [field.name for field in attrs.fields(ModelDescriptor)]
    plain = ModelDescriptor("m")
    for name, default in told.items():
        if default.startswith("`"):
            assert words(default)[0] == repr(getattr(plain, name))
    assert (plain.display_name, plain.capabilities) == ("m", models.TEXT)
    known = {api.name for api in APIS}
    named = next(text for name, _, text in rows("What a descriptor says") if name == "`api`")
    assert known <= set(words(named))
    habits = next(text for name, _, text in rows("What a descriptor says") if name == "`settings`")
    assert set(words(habits)) - {"Request"} <= set(HABITS)


PARTS: dict[str, list[Part]] = {
    "text_input": [Text("x"), TextFile.data("x", "a.txt")],
    "image_input": [Image.data(b"x", "image/png")],
    "audio_input": [Media.data(b"x", "audio/wav")],
    "file_input": [Media.data(b"x", "application/pdf"), Media.data(b"x", "video/mp4")],
}


def test_every_capability_and_what_needs_it() -> None:
    table = [(words(name), text) for name, text in rows("What a model can do")]
    assert {name for names, _ in table for name in names} == set(Capability)
    for (name, *others), text in table:
        for part in PARTS.get(name, []):
            assert not others
            assert type(part).__name__ in words(text)
            assert [capability for _, _, capability in needed(part, "x")] == [name]


def test_what_is_shown_of_a_request_is_what_there_is() -> None:
    parameters = inspect.signature(ModelDescriptor.request).parameters
    shown = re.search(r"`model\.request\((.*?)\)`", PAGE)
    assert shown is not None
    assert re.findall(r"\w+", shown[1]) == [name for name in parameters if name != "self"]


@pytest.mark.parametrize("number", range(4))
def test_snippets_run(number: int) -> None:
    snippet = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[number]
    made: dict[str, object] = {}
    exec(compile(snippet, "docs/models.md", "exec"), made)
    descriptors = [value for value in made.values() if isinstance(value, ModelDescriptor)]
    assert descriptors or "main" in made

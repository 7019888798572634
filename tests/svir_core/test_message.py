from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import attrs
import pytest

from svir_core.errors import ConfigError
from svir_core.message import (
    MEDIA_TYPES,
    BytesSource,
    Image,
    Media,
    Message,
    Opaque,
    PathSource,
    Reasoning,
    Role,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
    UrlSource,
)

VALUES: list[Any] = [
    PathSource("a/b.png"),
    BytesSource(b"data"),
    UrlSource("https://example.com/a.png"),
    Text("hello"),
    Image.path("a.png"),
    Image.data(b"x", "image/png"),
    Image.url("https://example.com/a.png"),
    TextFile.path("a/b.txt"),
    TextFile.data("text", "b.txt"),
    Media.path("a.pdf"),
    Media.data(b"x", "audio/wav", "a.wav"),
    Opaque("openai_chat", '{"a": 1.50}'),
    Reasoning("think", "hm", Opaque("x", "[]")),
    ToolCall("id", "f", "{}", opaque=Opaque("x", "1")),
    ToolResult("id", "5", True),
    ToolResult("id", [Text("a"), Image.data(b"x", "image/png")]),
    Message.user("a", Image.path("a.png")),
    Message.assistant(Reasoning("think", "hm"), Text("a"), ToolCall("id", "f", "{}")),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_value_compares_hashes_and_pickles(value: Any) -> None:
    again = pickle.loads(pickle.dumps(value))
    assert again == value
    assert hash(again) == hash(value)
    assert again != attrs.evolve(again, **CHANGED[type(value)])
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        value.anything = 1


CHANGED: dict[type, dict[str, Any]] = {
    PathSource: {"path": "other"},
    BytesSource: {"data": b"other"},
    UrlSource: {"url": "other"},
    Text: {"text": "other"},
    Image: {"media_type": "other"},
    TextFile: {"name": "other"},
    Media: {"name": "other"},
    Opaque: {"json": "{}"},
    Reasoning: {"text": "other"},
    ToolCall: {"complete": False},
    ToolResult: {"is_error": True, "content": ""},
    Message: {"role": "system"},
}


def test_a_plain_string_stands_for_text() -> None:
    assert Message.user("a", "b") == Message(Role.USER, (Text("a"), Text("b")))
    assert Message("user", "abc") == Message.user("abc")
    assert Message("user", ["a", Text("b")]).parts == (Text("a"), Text("b"))
    assert Message.system("x").role is Role.SYSTEM
    assert Message.assistant("x").role is Role.ASSISTANT
    assert Message.tool(ToolResult("id", "x")).role is Role.TOOL
    assert Message.user().parts == ()


def test_paths_become_text_and_tell_name_and_media_type() -> None:
    assert PathSource(Path("a")).path == "a"
    assert Image.path(PurePosixPath("x/A.JPEG")) == Image(PathSource("x/A.JPEG"), "image/jpeg")
    assert Image.path("a.png", "image/x").media_type == "image/x"
    assert Image.path("a").media_type is None
    assert TextFile.path("x/a.txt").name == "a.txt"
    assert TextFile.path("x/a.txt", "b").name == "b"
    assert TextFile.data("ä", "b").source == BytesSource("ä".encode())
    assert TextFile.data(b"\xff", "b").source == BytesSource(b"\xff")
    assert Media.path("x/a.pdf") == Media(PathSource("x/a.pdf"), "application/pdf", "a.pdf")
    assert Media.path("a.pdf", "x/y", "b") == Media(PathSource("a.pdf"), "x/y", "b")
    assert all(ending == ending.lower() for ending in MEDIA_TYPES)


def test_what_is_private_is_not_shown() -> None:
    private = [BytesSource(b"private"), UrlSource("https://private"), Opaque("x", '"private"')]
    assert "private" not in repr(private)


def test_opaque_data_is_parsed_anew() -> None:
    opaque = Opaque("x", '{"b": [1], "a": 2}')
    assert list(opaque.data) == ["b", "a"]
    assert opaque.data is not opaque.data


def test_a_result_of_parts_is_a_tuple() -> None:
    assert ToolResult("id", iter([Text("a")])).content == (Text("a"),)
    assert ToolResult("id", "ab").content == "ab"


WRONG: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("Message.role is one of 'system', 'user', 'assistant', 'tool'", Message, ("boss", ())),
    ("Message.role is one of", Message, (None, ())),
    ("Message part 1 is an int, not a part", Message.user, ("a", 5)),
    ("Message part 0 is a bytes", Message.user, (b"a",)),
    ("Message.parts is an int", Message, ("user", 5)),
    ("ToolResult.content\\[0\\] is a ToolCall", ToolResult, ("id", [ToolCall("a", "b", "{}")])),
    ("ToolResult.content is a NoneType", ToolResult, ("id", None)),
    ("ToolResult.call_id must be str", ToolResult, (5, "x")),
    ("ToolResult.is_error must be bool", ToolResult, ("id", "x", "yes")),
    ("Text.text must be str", Text, (5,)),
    ("Text.text must be str", Text, (None,)),
    ("PathSource.path", PathSource, (b"a",)),
    ("PathSource.path", PathSource, (5,)),
    ("PathSource.path", PathSource, ("",)),
    ("PathSource.path", PathSource, ("a\0b",)),
    ("PathSource.path", Image.path, (None,)),
    ("BytesSource.data must be bytes", Image.data, ("text", "image/png")),
    ("UrlSource.url must be str", Image.url, (b"https://h",)),
    ("Image.source must be PathSource or BytesSource or UrlSource, not str", Image, ("a.png",)),
    ("Image.media_type must be str or None", Image.data, (b"", 5)),
    ("TextFile.source", TextFile, ("a", "b")),
    ("TextFile.name must be str", TextFile.data, ("a", None)),
    ("TextFile.escaped_length must be int or None", TextFile, (BytesSource(b""), "a", "5")),
    ("Media.source", Media, (b"",)),
    ("Media.name must be str or None", Media.data, (b"", "x/y", 5)),
    ("Reasoning.text must be str", Reasoning, ("think", None)),
    ("Reasoning.source must be str", Reasoning, (None, "")),
    ("Reasoning.opaque must be Opaque or None", Reasoning, ("think", "", {})),
    ("ToolCall.arguments must be str", ToolCall, ("id", "f", {})),
    ("ToolCall.id must be str", ToolCall, (None, "f", "{}")),
    ("ToolCall.name must be str", ToolCall, ("id", None, "{}")),
    ("ToolCall.complete must be bool", ToolCall, ("id", "f", "{}", 1)),
]


@pytest.mark.parametrize(("says", "make", "arguments"), WRONG, ids=[f"{n}" for n in range(len(WRONG))])
def test_a_mistake_is_named(says: str, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError, match="^" + says):
        make(*arguments)


def test_arguments_are_parsed_by_the_structure_module() -> None:
    assert ToolCall("id", "f", '{"a": 1}').parse(dict[str, int]) == {"a": 1}
    assert ToolCall("id", "f", "").parse(dict[str, int]) == {}

"""What is sent is cleaner than what is read (11 section D): every string of a request is sanitised, and empty
arguments are an object, wherever they stand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.testing import assert_prefix_stable
from svir_core.message import Image, Message, Reasoning, Text, TextFile, ToolCall, ToolResult
from svir_core.request import Request, Schema, Tool, ToolChoice
from svir_core.wire.json_value import is_array, is_object
from svir_core.wire.openai_chat.encode import Encoder

WORDS = st.text(alphabet=["\ud83d", "\ude00", "\ud800", "\udfff", "a", '"', "\\", "\n", "\0", "\u00e9", "\U0001f600"])


def clean(text: str) -> str:
    """The rule, said in another way: halves that meet are joined, any other is U+FFFD."""
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in joined)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif is_array(value):
        for item in value:
            yield from strings(item)


def everywhere(word: str) -> Request:
    """A request with ``word`` in every string that a caller or a server may give."""
    history = (
        Message.system(word),
        Message.user(word, TextFile.data("content", word), Image.url("https:" + word)),
        Message.assistant(Reasoning("reasoning", word), word, ToolCall(word, word, word)),
        Message.tool(ToolResult(word, word, is_error=True), ToolResult(word, [Text(word)])),
    )
    return Request(
        word,
        system=word,
        messages=history,
        tools=[Tool(word, word, {"x" + word: word}, extra={"y" + word: [word]})],
        tool_choice=ToolChoice.tool(word),
        response_format=Schema(word, {word: word}),
        stop=[word],
        send_reasoning=True,
        extra={"z" + word: {word: word}},
    )


@given(WORDS)
def test_no_string_of_a_body_holds_half_a_character(word: str) -> None:
    body = bytes(Encoder().encode(everywhere(word)))
    document = json.loads(body.decode("utf-8"))
    assert not any("\ud800" <= character <= "\udfff" for text in strings(document) for character in text)
    said = clean(word)
    assert document["model"] == document["stop"][0] == document["tools"][0]["function"]["name"] == said
    assert document["z" + said] == {said: said}
    first, *_, called, failed, answered = document["messages"]
    assert first["content"] == called["content"] == called.get("reasoning", "") == answered["content"] == said
    assert failed["content"] == "error: " + said
    call = called["tool_calls"][0]
    assert call["id"] == failed["tool_call_id"] == answered["tool_call_id"] == said
    assert call["function"] == {"name": said, "arguments": said or "{}"}


@pytest.mark.parametrize("complete", [True, False])
def test_empty_arguments_go_back_as_an_object(complete: bool) -> None:
    request = Request("m").message(Message.assistant(ToolCall("a", "f", "", complete=complete)))
    document = json.loads(bytes(Encoder().encode(request)))
    assert document["messages"][0]["tool_calls"][0]["function"]["arguments"] == "{}"


@given(WORDS.filter(bool))
def test_arguments_that_are_not_empty_go_back_as_they_came(arguments: str) -> None:
    request = Request("m").message(Message.assistant(ToolCall("a", "f", arguments, complete=False)))
    document = json.loads(bytes(Encoder().encode(request)))
    assert document["messages"][0]["tool_calls"][0]["function"]["arguments"] == clean(arguments)


@given(WORDS, WORDS, st.integers(0, 4))
def test_a_further_turn_changes_no_byte_before_it(word: str, more: str, turns: int) -> None:
    request = everywhere(word)
    assert_prefix_stable(request, request.message(*everywhere(more).messages[:turns]))

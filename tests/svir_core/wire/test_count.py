"""Figures of a usage that no answer has are no report, in every API: an answer can always be stored, and added up."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from svir_core import serial
from svir_core.errors import ProtocolError
from svir_core.response import Usage
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.json_value import COUNTS, is_count


@pytest.mark.parametrize(("value", "is_one"), [(None, True), (0, True), (COUNTS - 1, True), (COUNTS, False)])
def test_a_count_is_one_that_every_reader_has(value: int | None, is_one: bool) -> None:
    assert is_count(value) is is_one


@pytest.mark.parametrize("value", [-1, True, 1.0, "1", [], {}])
def test_nothing_else_is_a_count(value: Any) -> None:
    assert not is_count(value)


def chat(figure: int) -> Any:
    usage = {"prompt_tokens": figure, "completion_tokens": 1, "total_tokens": figure}
    return {"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}


def responses(figure: int) -> Any:
    part: Any = {"type": "output_text", "text": "hi", "annotations": []}
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [part]}
    usage = {"input_tokens": figure, "output_tokens": 1, "total_tokens": figure}
    return {"object": "response", "id": "r", "status": "completed", "model": "m", "output": [item], "usage": usage}


def messages(figure: int) -> Any:
    usage = {"input_tokens": figure, "cache_read_input_tokens": figure, "output_tokens": 1}
    return {
        "type": "message",
        "id": "i",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "usage": usage,
    }


def generate_content(figure: int) -> Any:
    candidate = {"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": figure, "toolUsePromptTokenCount": figure, "candidatesTokenCount": 1}
    return {"candidates": [candidate], "usageMetadata": usage}


DOCUMENTS = [
    pytest.param(openai_chat.decode_document, chat, id="openai_chat"),
    pytest.param(openai_responses.decode_document, responses, id="openai_responses"),
    pytest.param(anthropic_messages.decode_document, messages, id="anthropic_messages"),
    pytest.param(gemini.decode_document, generate_content, id="gemini"),
]


@pytest.mark.parametrize(("decode", "document"), DOCUMENTS)
def test_the_largest_figures_can_be_stored_and_added_up(decode: Any, document: Any) -> None:
    answer = decode(orjson.dumps(document(COUNTS - 1)))
    assert answer.usage.input >= COUNTS - 1
    assert serial.loads(serial.dumps(answer)) == answer
    total = Usage(0, 0)
    for _ in range(64):
        total = total + answer.usage
    assert total.input == 64 * answer.usage.input


@pytest.mark.parametrize(("decode", "document"), DOCUMENTS)
def test_larger_figures_are_no_report(decode: Any, document: Any) -> None:
    data = orjson.dumps(document(COUNTS))
    with pytest.raises(ProtocolError, match="a usage report"):
        decode(data)
    answer = decode(data, mode="lenient")
    assert answer.text == "hi"
    assert (None if answer.usage is None else answer.usage.input) is None

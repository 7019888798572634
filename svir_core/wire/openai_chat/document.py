"""A whole ``chat.completion`` document, read as the one chunk it amounts to (11 section B)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svir_core.response import AnomalyCode
from svir_core.wire.json_value import Json, is_array, is_object


def is_document(value: Any) -> bool:
    """Whether ``value`` has a choice with a ``message``. ``object`` tells nothing: mlx-lm sends
    ``chat.completion`` on its usage chunk."""
    choices = value.get("choices") if is_object(value) else None
    return is_array(choices) and any(holds_message(choice) for choice in choices)


def holds_message(choice: Any) -> bool:
    """Whether ``choice`` is one of a document: a ``message``, and no ``delta``."""
    return is_object(choice) and is_object(choice.get("message")) and choice.get("delta") in (None, "")


def instead_of_delta(choice: Json, forgive: Callable[[AnomalyCode], None]) -> Json:
    """What a choice without a delta says: its ``message``, or nothing."""
    if holds_message(choice):
        forgive(AnomalyCode.WHOLE_DOCUMENT)
        return as_delta(choice["message"])
    if choice.get("delta") is not None and choice["delta"] != "":
        forgive(AnomalyCode.WRONG_TYPE)
    return {}


def as_chunk(document: Json) -> Json:
    """The document, each ``message`` made a ``delta``."""
    choices = document["choices"]
    return {
        **document,
        "choices": [
            {**choice, "delta": as_delta(choice["message"])} if holds_message(choice) else choice for choice in choices
        ],
    }


def as_delta(message: Json) -> Json:
    """The message as a delta; its calls, which have no index there, in their order."""
    calls = message.get("tool_calls")
    if not is_array(calls):
        return message
    return {
        **message,
        "tool_calls": [{"index": index, **call} if is_object(call) else call for index, call in enumerate(calls)],
    }

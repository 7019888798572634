"""What starts a generation: the turn of the user (51 section 1.5 A)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.message import Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult

Input = str | Part | Message | Iterable[Part | str]
"""A text, a part, several of them, or a message of the user."""


def user_message(given: Input) -> Message:
    """``given`` as a message of the user. ``ConfigError`` for one of another role, that says nothing, or with a part
    that only models and tools make: calls, results, reasoning, what is opaque."""
    message = given if isinstance(given, Message) else _of_parts(given)
    if message.role is not Role.USER:
        raise ConfigError(f"a generation starts with a message of the user, not of the {message.role.value} role")
    if not message.parts:
        raise ConfigError("a generation starts with a message that has parts, and this one has none")
    for number, part in enumerate(message.parts):
        if isinstance(part, Text) and not part.text:
            raise ConfigError(f"part {number} of the message that starts a generation is an empty text")
        if isinstance(part, ToolCall | ToolResult | Reasoning | Opaque):
            raise ConfigError(f"part {number} of the message that starts a generation is {an(type(part))}: no user's")
    return message


def _of_parts(given: str | Part | Iterable[Part | str]) -> Message:
    if isinstance(given, str | Part):
        return Message.user(given)
    kind = type(cast("object", given))
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise ConfigError(f"a generation starts with a text, a part or a Message, not {an(kind)}")
    return Message.user(*given)

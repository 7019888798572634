"""Tool ids in the alphabet that every API takes, for encoders of APIs that refuse others (11 section D).

Three rules hold for all of it. An id that is legal already stays as it is. Any other becomes ``PREFIX`` and the digest
of its text: a function of the id alone, so a call and its result agree, and an earlier turn keeps its bytes whatever
is appended. Legal ids in the namespace of ``PREFIX`` are digested too, so that no two ids ever become one.
The stored history keeps the originals: only what is sent is mapped.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from typing import Final

import attrs

from svir_core.message import Message, Part, ToolCall, ToolResult

LEGAL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The ids that Anthropic Messages takes, in full."""

PREFIX: Final = "svir_"
"""What every mapped id starts with. With it and a SHA-256 digest in base64 an id has 48 characters of 64."""


def portable_tool_id(call_id: str) -> str:
    """``call_id`` as ``[A-Za-z0-9_-]{1,64}``: itself when it is that already, else made from its digest."""
    if LEGAL.fullmatch(call_id) and not call_id.startswith(PREFIX):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest()
    return PREFIX + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _part(part: Part) -> Part:
    if isinstance(part, ToolCall):
        return attrs.evolve(part, id=portable_tool_id(part.id))
    if isinstance(part, ToolResult):
        return attrs.evolve(part, call_id=portable_tool_id(part.call_id))
    return part


def with_portable_tool_ids(messages: Iterable[Message]) -> tuple[Message, ...]:
    """``messages`` as they are sent to an API of that alphabet: ids of calls and results mapped, all else the same."""
    return tuple(Message(message.role, tuple(_part(part) for part in message.parts)) for message in messages)

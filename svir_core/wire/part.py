"""What every encoder asks of a message's parts: may this role carry it here, what is it called, what type has it.

Source: 00-architecture section 3, 10-chat-completions section 10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from svir_core.body import Attachment, Measurements, text
from svir_core.errors import AttachmentError, UnsupportedError
from svir_core.json_text import inside
from svir_core.message import (
    CachePoint,
    Image,
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
)

Piece = bytes | Attachment

NAMES: Final[Mapping[type[Part], str]] = {
    Text: "text",
    TextFile: "a text file",
    Image: "an image",
    Media: "a media file",
    Reasoning: "reasoning",
    ToolCall: "a tool call",
    ToolResult: "a tool result",
    Opaque: "opaque data",
    CachePoint: "a cache point",
}
"""What an error calls each part."""


def check_carried(message: Message, carries: Mapping[Role, tuple[type[Part], ...]], where: str, api: str) -> None:
    """Refuse, by name and place, the first part that its role cannot carry in ``api`` (as a person calls it)."""
    for number, part in enumerate(message.parts):
        if not isinstance(part, carries[message.role]):
            raise UnsupportedError(
                f"{where}.parts[{number}]: a message of the {message.role.value} role cannot carry "
                f"{NAMES[type(part)]} in {api}"
            )


def check_said(last: Role | None, unsaid: bool, api: str) -> None:
    """Refuse a conversation in which the API leaves out what says nothing, and too little is left.

    Args:
        last: who speaks last in what is left; ``None`` when nothing is.
        unsaid: whether what the caller said after the last answer was left out.
        api: as a person calls it.

    Raises ``UnsupportedError`` when nothing is left, and when an answer became the last turn: the API would go on with
    it instead of answering.
    """
    if last is None:
        raise UnsupportedError(f"messages: {api} takes no request without a message that says something")
    if unsaid and last is Role.ASSISTANT:
        raise UnsupportedError(f"messages: what follows the last answer says nothing, and {api} takes no empty message")


def media_type(part: Image | Media, where: str) -> str:
    """The media type, which the API wants to be told; ``AttachmentError`` without one."""
    if not part.media_type:
        raise AttachmentError(f"{where}: {NAMES[type(part)]} needs a media type")
    return part.media_type


def file_in_prompt(part: TextFile, where: str, measured: Measurements | None) -> list[Piece]:
    """A text file as it stands in the prompt, under its name, inside a JSON string."""
    name = part.name.replace('"', "&quot;")
    return [inside(f'<file name="{name}">\n'), text(part, where, measured), inside("\n</file>")]


def joined(items: Sequence[Sequence[Piece]], separator: bytes) -> list[Piece]:
    """The pieces of all items, with ``separator`` between item and item."""
    pieces: list[Piece] = []
    for item in items:
        if pieces:
            pieces.append(separator)
        pieces.extend(item)
    return pieces


@attrs.define
class ImageCount:
    """How many images a body has, and the bytes that those which are not URLs take in it; for admission."""

    images: int = 0
    image_bytes: int = 0

"""What a model can take in, give out and do, and what it takes to read each part of a message (50, Catalogue)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from svir_core.check import choice
from svir_core.errors import ConfigError
from svir_core.message import Image, Media, Part, Text, TextFile, ToolResult


class Capability(StrEnum):
    """One thing that a model can do. Those of input and ``TOOLS`` are checked; the others tell a reader."""

    TEXT_INPUT = "text_input"
    TEXT_OUTPUT = "text_output"
    IMAGE_INPUT = "image_input"
    IMAGE_OUTPUT = "image_output"
    AUDIO_INPUT = "audio_input"
    AUDIO_OUTPUT = "audio_output"
    FILE_INPUT = "file_input"
    FILE_OUTPUT = "file_output"
    TOOLS = "tools"
    PARALLEL_TOOL_CALLS = "parallel_tool_calls"


TEXT: Final = frozenset({Capability.TEXT_INPUT, Capability.TEXT_OUTPUT})
"""What every model of a conversation can do: text in, text out."""


def capabilities_of(value: Iterable[Capability | str]) -> frozenset[Capability]:
    """``value`` as a set of capabilities; ``ConfigError`` that lists them for a word that is none."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError("capabilities is a set of Capability")
    return frozenset(choice(Capability, each, "a capability") for each in value)


NAMES: Final = {Text: "text", TextFile: "a text file", Image: "an image"}
"""What a part is called in an error; a ``Media`` goes by its type."""

NEEDED: Final = {
    Text: Capability.TEXT_INPUT,
    TextFile: Capability.TEXT_INPUT,
    Image: Capability.IMAGE_INPUT,
}
"""What a model needs to read a part; a ``Media`` is audio or a file."""


def _of_media(part: Media) -> tuple[str, Capability]:
    kind = "" if part.media_type is None else part.media_type.lower()
    if kind.startswith("audio/"):
        return "audio", Capability.AUDIO_INPUT
    return "a video" if kind.startswith("video/") else "a file", Capability.FILE_INPUT


def needed(part: Part, where: str) -> Iterator[tuple[str, str, Capability]]:
    """What it takes to read ``part``: where each thing stands, what it is, and the capability.

    Nothing for what a model or svir made: calls, reasoning, opaque data, cache points, and a result that is a string.
    """
    if isinstance(part, ToolResult):
        if not isinstance(part.content, str):
            for number, inner in enumerate(part.content):
                yield from needed(inner, f"{where}.content[{number}]")
    elif isinstance(part, Media):
        yield where, *_of_media(part)
    elif isinstance(part, Text | TextFile | Image):
        yield where, NAMES[type(part)], NEEDED[type(part)]

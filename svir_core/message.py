"""Messages and their parts: what a conversation is made of, whatever the API (00 section 3).

Which part a role may carry, and which source an API takes, is checked when a request is encoded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import StrEnum
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import orjson

from svir_core.check import an, choice, instance_of
from svir_core.errors import ConfigError
from svir_core.slow_json import read_huge, read_without_huge

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")
Item = TypeVar("Item")


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


# --- sources -------------------------------------------------------------------------------------


def _path(value: str | os.PathLike[str]) -> str:
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigError("PathSource.path must be a path as str or os.PathLike[str], not empty, without NUL")
    return path


@attrs.frozen
class PathSource:
    """A file on disk. Core never opens it: ``svir_client.files`` measures and reads it."""

    path: str = attrs.field(converter=_path)


@attrs.frozen
class BytesSource:
    """Bytes in memory (withheld in ``repr``)."""

    data: bytes = attrs.field(repr=False, validator=instance_of(bytes))


@attrs.frozen
class UrlSource:
    """A URL that the server fetches itself, where the API takes one (withheld in ``repr``)."""

    url: str = attrs.field(repr=False, validator=instance_of(str))


Source = PathSource | BytesSource | UrlSource

MEDIA_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".heic": "image/heic",
    ".heif": "image/heif",
    ".avif": "image/avif",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".pdf": "application/pdf",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".flac": "audio/flac",
    ".ogg": "audio/ogg",
    ".m4a": "audio/mp4",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
}
"""Media types by file ending. A table of our own, since ``mimetypes`` reads the system's files."""


def _media_type_of(path: str) -> str | None:
    return MEDIA_TYPES.get(os.path.splitext(path)[1].lower())


def _items(values: Iterable[Item], where: str) -> tuple[Item, ...]:
    if not isinstance(values, Iterable):
        raise ConfigError(f"{where} is {an(type(values))}, which cannot be iterated")
    return tuple(values)


# --- parts ---------------------------------------------------------------------------------------


@attrs.frozen
class Opaque:
    """Continuation data of one API, kept as its JSON text and sent back only to that API.

    ``json`` is what the server sent: strings byte-exact, key order kept (00 section 2).
    """

    api: str
    json: str = attrs.field(repr=False)

    @property
    def data(self) -> Any:
        """The value that ``json`` holds, parsed anew on every call; a number that no float holds is its text."""
        try:
            return orjson.loads(self.json)
        except orjson.JSONDecodeError:
            if read_huge(self.json) is None:
                raise
        return read_without_huge(self.json)


@attrs.frozen
class Text:
    """Plain text; a lone surrogate in it becomes U+FFFD when it is sent (11 section D).

    ``opaque`` is what an API gave beside a text of its answer (a signature, citations, the phase of a
    message), and sends back; it no longer counts once the text was changed.
    """

    text: str = attrs.field(validator=instance_of(str))
    opaque: Opaque | None = attrs.field(default=None, validator=instance_of(Opaque, NoneType))


@attrs.frozen
class CachePoint:
    """The prompt up to here is worth caching: a mark after a part of a system or user message, for APIs that are told.

    ``ttl`` says for how long, in the API's own words ("5m", "1h"); ``None`` leaves it to the API. An API without
    such marks, or without that time, refuses it by name.
    """

    ttl: str | None = attrs.field(default=None, validator=instance_of(str, NoneType))


@attrs.frozen
class Image:
    """An image. Without a media type, encoding it raises ``AttachmentError`` (a URL needs none)."""

    source: Source = attrs.field(validator=instance_of(PathSource, BytesSource, UrlSource))
    media_type: str | None = attrs.field(default=None, validator=instance_of(str, NoneType))

    @classmethod
    def path(cls, path: str | os.PathLike[str], media_type: str | None = None) -> Self:
        """An image file; the media type comes from the file's ending unless it is given."""
        source = PathSource(path)
        return cls(source, media_type or _media_type_of(source.path))

    @classmethod
    def data(cls, data: bytes, media_type: str) -> Self:
        """Image bytes in memory."""
        return cls(BytesSource(data), media_type)

    @classmethod
    def url(cls, url: str) -> Self:
        """An image that the server fetches."""
        return cls(UrlSource(url))


@attrs.frozen
class TextFile:
    """A text file: UTF-8, sent inside the prompt under its name.

    ``escaped_length`` may declare how many bytes its content takes as the inside of a JSON string;
    it is then only verified while the body is produced, and a disagreement is ``AttachmentError``.
    """

    source: Source = attrs.field(validator=instance_of(PathSource, BytesSource, UrlSource))
    name: str = attrs.field(validator=instance_of(str))
    escaped_length: int | None = attrs.field(default=None, validator=instance_of(int, NoneType))

    @classmethod
    def path(cls, path: str | os.PathLike[str], name: str | None = None) -> Self:
        """A file on disk, named after the last part of its path unless a name is given."""
        source = PathSource(path)
        return cls(source, os.path.basename(source.path) if name is None else name)

    @classmethod
    def data(cls, data: bytes | str, name: str) -> Self:
        """A text in memory."""
        return cls(BytesSource(data.encode() if isinstance(data, str) else data), name)


@attrs.frozen
class Media:
    """Audio, a PDF, or another binary attachment, where the API takes one."""

    source: Source = attrs.field(validator=instance_of(PathSource, BytesSource, UrlSource))
    media_type: str | None = attrs.field(default=None, validator=instance_of(str, NoneType))
    name: str | None = attrs.field(default=None, validator=instance_of(str, NoneType))

    @classmethod
    def path(cls, path: str | os.PathLike[str], media_type: str | None = None, name: str | None = None) -> Self:
        """A file on disk; the media type comes from its ending unless it is given."""
        source = PathSource(path)
        return cls(source, media_type or _media_type_of(source.path), name or os.path.basename(source.path))

    @classmethod
    def data(cls, data: bytes, media_type: str, name: str | None = None) -> Self:
        """Bytes in memory."""
        return cls(BytesSource(data), media_type, name)


@attrs.frozen
class Reasoning:
    """What the model thought. ``source`` names where it came from: on Chat Completions ``reasoning_content``,
    ``reasoning`` or ``think`` (10 section 5), under a quirk ``thinking`` or ``reasoning_details`` (11 section C)."""

    source: str = attrs.field(validator=instance_of(str))
    text: str = attrs.field(validator=instance_of(str))
    opaque: Opaque | None = attrs.field(default=None, validator=instance_of(Opaque, NoneType))


@attrs.frozen
class ToolCall:
    """A call the model wants made.

    Attributes:
        id: the server's id, or one made by svir (``synthetic_id``).
        arguments: the JSON text as it came, never repaired.
        complete: false when ``arguments`` is not one JSON object (an output limit cut it); such
            a call must not be run.
    """

    id: str = attrs.field(validator=instance_of(str))
    name: str = attrs.field(validator=instance_of(str))
    arguments: str = attrs.field(validator=instance_of(str))
    complete: bool = attrs.field(default=True, validator=instance_of(bool))
    synthetic_id: bool = attrs.field(default=False, validator=instance_of(bool))
    opaque: Opaque | None = attrs.field(default=None, validator=instance_of(Opaque, NoneType))

    def parse(self, into: type[T]) -> T:
        """The arguments as a ``T`` (attrs, dataclass, TypedDict, NamedTuple, msgspec, pydantic, dict).

        Empty arguments are ``{}``. Raises ``ProtocolError`` when the call is not complete or the
        arguments do not fit ``T``, naming the path; ``ConfigError`` when ``T`` cannot be read into.
        """
        from svir_core.structure import parse_json  # imported late: most programs never parse

        # not by the call's name: a model made it up, and errors show only our own words
        return parse_json(self.arguments or "{}", into, what="the arguments of a tool call", complete=self.complete)


ResultPart = Text | Image | TextFile | Media


def _result(value: str | Iterable[ResultPart]) -> str | tuple[ResultPart, ...]:
    if isinstance(value, str):
        return value
    parts = _items(value, "ToolResult.content")
    for number, part in enumerate(parts):
        if not isinstance(part, ResultPart):
            raise ConfigError(f"ToolResult.content[{number}] is {an(type(part))}, not a part of a result")
    return parts


@attrs.frozen
class ToolResult:
    """What a call gave: a string, or parts where the API takes them."""

    call_id: str = attrs.field(validator=instance_of(str))
    content: str | tuple[ResultPart, ...] = attrs.field(converter=_result)
    is_error: bool = attrs.field(default=False, validator=instance_of(bool))


Part = Text | Image | TextFile | Media | Reasoning | ToolCall | ToolResult | Opaque | CachePoint


def _role(value: Role | str) -> Role:
    return choice(Role, value, "Message.role")


def _part(value: Part | str) -> Part:
    return Text(value) if isinstance(value, str) else value


def parts_of(values: Iterable[Part | str] | str, owner: str) -> tuple[Part, ...]:
    """``values`` as the parts of ``owner``, a text as one of them; ``ConfigError`` for what is none."""
    if isinstance(values, str):
        return (Text(values),)
    parts = tuple(_part(value) for value in _items(values, f"{owner}.parts"))
    for number, part in enumerate(parts):
        if not isinstance(part, Part):
            raise ConfigError(f"{owner} part {number} is {an(type(part))}, not a part")
    return parts


def _parts(values: Iterable[Part | str] | str) -> tuple[Part, ...]:
    return parts_of(values, "Message")


@attrs.frozen
class Message:
    """One turn: a role and its parts in order; a plain string stands for one ``Text``."""

    role: Role = attrs.field(converter=_role)
    parts: tuple[Part, ...] = attrs.field(converter=_parts)

    @classmethod
    def system(cls, *parts: Part | str) -> Self:
        """A system message inside the conversation (the request's ``system`` comes first)."""
        return cls(Role.SYSTEM, parts)

    @classmethod
    def user(cls, *parts: Part | str) -> Self:
        """A message of the user."""
        return cls(Role.USER, parts)

    @classmethod
    def assistant(cls, *parts: Part | str) -> Self:
        """A message of the model."""
        return cls(Role.ASSISTANT, parts)

    @classmethod
    def tool(cls, *results: ToolResult) -> Self:
        """The results of calls."""
        return cls(Role.TOOL, results)

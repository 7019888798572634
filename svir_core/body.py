"""A request body of exactly known length: literal JSON and attachments, produced block by block.

Three rules hold for all of it. The length is known before the first byte. Attachments are encoded
while they are produced, a block at a time, in memory or on disk alike, and verified as they go: a body
never disagrees with its length, it ends in ``AttachmentError`` first. A body can be produced again.
Source: 10-chat-completions section 10, 00-architecture section 2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from enum import StrEnum
from typing import Final, Protocol

import attrs

from svir_core.check import expect
from svir_core.errors import AttachmentError, ConfigError, UnsupportedError
from svir_core.json_text import Base64, TextEscaper, TextMeter, base64_length
from svir_core.limits import BLOCK_BYTES
from svir_core.message import BytesSource, Image, Media, PathSource, Source, TextFile, ToolResult, UrlSource
from svir_core.request import Request


class BinaryReader(Protocol):
    """What core reads a file with: at most ``size`` bytes, and none at its end."""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        ...


Read = Callable[[str], AbstractContextManager[BinaryReader]]
"""Opens the file at a path and closes it on exit. Core never opens one itself."""


class Form(StrEnum):
    """How an attachment stands inside a JSON string."""

    BASE64 = "base64"
    TEXT = "text"


_ENCODERS: Final[Mapping[Form, type[Base64] | type[TextEscaper]]] = {Form.BASE64: Base64, Form.TEXT: TextEscaper}


@attrs.frozen
class Measured:
    """What one pass over a file found.

    Attributes:
        size: its bytes.
        escaped_length: the bytes its text takes inside a JSON string; ``None`` where nobody needs it
            (an image) or where the caller declared it.
    """

    size: int
    escaped_length: int | None = None


Measurements = Mapping[str, Measured]
"""What is known of files on disk, by the path of their ``PathSource``."""


@attrs.frozen
class Attachment:
    """One attachment of a body.

    Attributes:
        where: the part it comes from, for errors: ``messages[2].parts[0]``.
        source: its bytes, in memory or on disk.
        form: how it is encoded.
        size: its bytes before encoding.
        length: its bytes in the body.
    """

    where: str
    source: PathSource | BytesSource
    form: Form
    size: int
    length: int

    def error(self, what: str) -> AttachmentError:
        """The error that says ``what`` of this attachment, by the last part of its path."""
        return attachment_error(self.where, self.source, what)


def attachment_error(where: str, source: PathSource | BytesSource, what: str) -> AttachmentError:
    """The error that says ``what`` of the attachment at ``where``; of its path only the last part is told."""
    name = f"{os.path.basename(source.path)!r} " if isinstance(source, PathSource) else "the attachment "
    return AttachmentError(f"{where}: {name}{what}")


# --- planning ------------------------------------------------------------------------------------


def attachments(request: Request) -> Iterator[tuple[str, Image | TextFile | Media]]:
    """Every attachment of ``request`` and where it stands, those inside tool results included."""
    for turn, message in enumerate(expect(request, Request, "request").messages):
        for number, part in enumerate(message.parts):
            where = f"messages[{turn}].parts[{number}]"
            if isinstance(part, Image | TextFile | Media):
                yield where, part
            elif isinstance(part, ToolResult) and not isinstance(part.content, str):
                for place, inner in enumerate(part.content):
                    if isinstance(inner, Image | TextFile | Media):
                        yield f"{where}.content[{place}]", inner


def _local(source: Source, where: str) -> PathSource | BytesSource:
    if isinstance(source, UrlSource):
        raise UnsupportedError(f"{where}: the API takes no URL for this part")
    return source


def _measured(source: PathSource, where: str, measured: Measurements | None) -> Measured:
    found = None if measured is None else measured.get(source.path)
    if found is None:
        raise attachment_error(where, source, "was not measured")
    return found


def binary(source: Source, where: str, measured: Measurements | None) -> Attachment:
    """The plan for an attachment in base64.

    Raises ``UnsupportedError`` for a URL and ``AttachmentError`` for a file that nobody measured.
    """
    local = _local(source, where)
    size = len(local.data) if isinstance(local, BytesSource) else _measured(local, where, measured).size
    return Attachment(where, local, Form.BASE64, size, base64_length(size))


def _slices(data: bytes, block_bytes: int) -> Generator[bytes, None, None]:
    """``data`` in blocks; whole, and not copied, when it is one block."""
    if len(data) <= block_bytes:
        yield data
        return
    for start in range(0, len(data), block_bytes):
        yield data[start : start + block_bytes]


def _text_length(source: BytesSource, where: str) -> int:
    """The escaped length of a text in memory, found in blocks so that it is never copied whole."""
    meter = TextMeter()
    try:
        for block in _slices(source.data, BLOCK_BYTES):
            meter.push(block)
        return meter.finish()
    except UnicodeDecodeError:
        error = attachment_error(where, source, "is not UTF-8")
    raise error


def text(part: TextFile, where: str, measured: Measurements | None) -> Attachment:
    """The plan for the content of a text file.

    A text in memory is read here: it must be UTF-8. On disk a declared ``escaped_length`` is believed
    until the body is produced, unless the file's size makes it impossible.

    Raises ``UnsupportedError`` for a URL, and ``AttachmentError`` for a file that nobody measured, a
    text that is not UTF-8, and a declared length that is wrong.
    """
    source, declared = _local(part.source, where), part.escaped_length
    if isinstance(source, BytesSource):
        found = Measured(len(source.data), _text_length(source, where))
    else:
        found = _measured(source, where, measured)
    length = declared if found.escaped_length is None else found.escaped_length
    if length is None:
        raise attachment_error(where, source, "was measured without its length as text")
    size = found.size
    if not size <= length <= 6 * size or (declared is not None and declared != length):
        raise attachment_error(where, source, "encodes to another length than declared")
    return Attachment(where, source, Form.TEXT, size, length)


# --- producing -----------------------------------------------------------------------------------


def _file_blocks(attachment: Attachment, path: str, block_bytes: int, read: Read) -> Generator[bytes, None, None]:
    """The file's bytes, of exactly the size it was measured with."""
    left = attachment.size
    grown = False
    try:
        with read(path) as file:
            while left and (block := file.read(min(block_bytes, left))):
                left -= len(block)
                yield block
            grown = not left and bool(file.read(1))
    except (OSError, ValueError) as error:
        failure = attachment.error(f"cannot be read ({type(error).__name__})")
    else:
        if not left and not grown:
            return
        failure = attachment.error(f"{'grew' if grown else 'shrank'} since it was measured")
    raise failure


def _encoded(attachment: Attachment, blocks: Generator[bytes, None, None]) -> Generator[bytes, None, None]:
    """``blocks`` as they stand in the body: never a byte more than planned, and an error for one fewer."""
    encoder = _ENCODERS[attachment.form]()
    left = attachment.length
    try:
        with closing(blocks):
            for block in blocks:
                piece = encoder.push(block)
                left -= len(piece)
                if left < 0:
                    break
                if piece:
                    yield piece
            else:
                piece = encoder.finish()
                left -= len(piece)
                if piece and not left:
                    yield piece
    except UnicodeDecodeError:
        failure = attachment.error("is not UTF-8")
    else:
        if not left:
            return
        failure = attachment.error("encodes to another length than declared")
    raise failure


def _raw(attachment: Attachment, block_bytes: int, read: Read | None) -> Generator[bytes, None, None]:
    """The bytes of ``attachment`` before encoding; nothing is opened before the first of them is asked for."""
    if isinstance(attachment.source, BytesSource):
        return _slices(attachment.source.data, block_bytes)
    if read is None:
        raise attachment.error("lies on disk, and nothing was given to read it with")
    return _file_blocks(attachment, attachment.source.path, block_bytes, read)


def _produced(segment: bytes | Attachment, block_bytes: int, read: Read | None) -> Generator[bytes, None, None]:
    if isinstance(segment, bytes):
        return _slices(segment, block_bytes)
    return _encoded(segment, _raw(segment, max(3, block_bytes // 3 * 3), read))


def _in_turn(parts: Sequence[Generator[bytes, None, None]]) -> Generator[bytes, None, None]:
    for part in parts:
        yield from part


def _length(body: Body) -> int:
    return sum(len(segment) if isinstance(segment, bytes) else segment.length for segment in body.segments)


@attrs.frozen
class Body:
    """A request body: its exact length, and its bytes in blocks, as often as they are needed.

    Attributes:
        segments: literal JSON, and the attachments between it (withheld in ``repr``).
        length: bytes of the whole body; its ``content-length``.
    """

    segments: tuple[bytes | Attachment, ...] = attrs.field(repr=False)
    length: int = attrs.field(init=False, default=attrs.Factory(_length, takes_self=True))

    @property
    def on_disk(self) -> bool:
        """Whether producing the body reads a file."""
        sources = (segment.source for segment in self.segments if isinstance(segment, Attachment))
        return any(isinstance(source, PathSource) for source in sources)

    def blocks(self, block_bytes: int = BLOCK_BYTES, read: Read | None = None) -> Generator[bytes, None, None]:
        """The body's bytes, none of the blocks empty; the same on every call.

        An attachment is read ``block_bytes`` at a time, rounded down to a multiple of 3 (at least 3).
        Only one block is held at once; an open file is closed at the end, on an error, and by
        ``close()``.

        Raises ``ConfigError`` at once when ``block_bytes`` is not a positive integer, ``AttachmentError``
        at once when a file is to be read without ``read``, and ``AttachmentError`` while iterating when
        a file cannot be read, is not of the size it was measured with (one more read follows its
        recorded end), is not UTF-8 where it is text, or encodes to another length than planned. No byte
        beyond the planned length of an attachment is ever given.
        """
        if isinstance(block_bytes, bool) or not isinstance(block_bytes, int) or block_bytes <= 0:
            raise ConfigError("block_bytes must be a positive integer")
        return _in_turn([_produced(segment, block_bytes, read) for segment in self.segments])

    def __bytes__(self) -> bytes:
        """The whole body; ``AttachmentError`` when a part of it lies on disk."""
        return b"".join(self.blocks())


class BodyWriter:
    """Collects a body in the order it is written; literals that touch become one segment."""

    __slots__ = ("_literal", "_segments")

    def __init__(self) -> None:
        self._literal: list[bytes] = []
        self._segments: list[bytes | Attachment] = []

    def write(self, *pieces: bytes | Attachment) -> None:
        """Append literals and attachments."""
        for piece in pieces:
            if isinstance(piece, bytes):
                self._literal.append(piece)
            else:
                self._flush()
                self._segments.append(piece)

    def _flush(self) -> None:
        self._segments.append(b"".join(self._literal))
        self._literal.clear()

    def body(self) -> Body:
        """What was written so far."""
        self._flush()
        return Body(tuple(segment for segment in self._segments if segment))

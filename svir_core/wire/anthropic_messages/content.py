"""The content of a message of Anthropic Messages: one block for each part that is no block of the server's own.

Three rules hold for all of it. A part that cannot be carried is refused by name and place. A text that is blank is
left out: the API refuses it, and it says nothing. A cache point marks the block before it in its message.
Source: 21 sections 3 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from svir_core.body import Measurements, binary
from svir_core.errors import UnsupportedError
from svir_core.json_text import inside, string
from svir_core.message import CachePoint, Image, Media, Message, Part, Text, TextFile, ToolResult, UrlSource
from svir_core.tool_id import portable_tool_id
from svir_core.wire.call_ids import CallIds
from svir_core.wire.part import NAMES, ImageCount, Piece, file_in_prompt, joined, media_type

IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
PDF: Final = "application/pdf"

URL_SCHEMES: Final = ("https:", "http:")
"""The URLs that the server fetches."""

TTLS: Final[Mapping[str | None, bytes]] = {
    None: b',"cache_control":{"type":"ephemeral"}',
    "5m": b',"cache_control":{"type":"ephemeral","ttl":"5m"}',
    "1h": b',"cache_control":{"type":"ephemeral","ttl":"1h"}',
}
"""How long a cache point may ask for, and the member that marks a block."""


@attrs.define
class Block:
    """A block that is being written.

    Attributes:
        members: its members, without the braces.
        text: what stands inside the string, when it is a text and nothing else.
        marked: whether a cache point marks it.
    """

    members: list[Piece]
    text: list[Piece] | None = None
    marked: bool = False

    def mark(self, ttl: bytes) -> None:
        """Put a cache point on it."""
        self.members.append(ttl)
        self.marked = True


def text_block(text: list[Piece]) -> Block:
    """A block of plain text: what stands inside its string."""
    return Block([b'"type":"text","text":"', *text, b'"'], text)


def plain_block(text: str) -> Block | None:
    """A block of ``text``; ``None`` when it is blank."""
    return text_block([inside(text)]) if text.strip() else None


def listed(blocks: Sequence[Block]) -> list[Piece]:
    """The blocks as an array."""
    return [b"[{", *joined([block.members for block in blocks], b"},{"), b"}]"]


def written(blocks: Sequence[Block]) -> list[Piece]:
    """The blocks as ``content``: a string where there is one text alone, else an array."""
    only = blocks[0]
    if len(blocks) == 1 and only.text is not None and not only.marked:
        return [b'"', *only.text, b'"']
    return listed(blocks)


class Content:
    """Makes the blocks of messages.

    Args:
        measured: the files on disk.

    Attributes:
        counted: the images so far, for admission.
        ids: those of the calls so far.
        marks: the cache points so far.
    """

    def __init__(self, measured: Measurements | None) -> None:
        self._measured = measured
        self.counted = ImageCount()
        self.ids = CallIds(portable_tool_id)
        self.marks = 0

    def blocks(self, message: Message, where: str) -> Iterator[Block]:
        """The blocks of a message of the system, the user or a tool."""
        before: Block | None = None
        for number, part in enumerate(message.parts):
            place = f"{where}.parts[{number}]"
            if isinstance(part, CachePoint):
                self._mark(before, part, place)
            elif (block := self.block(part, place)) is not None:
                if before is not None:
                    yield before
                before = block
        if before is not None:
            yield before

    def _mark(self, before: Block | None, point: CachePoint, where: str) -> None:
        if before is None or before.marked:
            raise UnsupportedError(f"{where}: a cache point needs a part before it in its message")
        if point.ttl not in TTLS:
            raise UnsupportedError(f"{where}: Anthropic Messages caches for '5m' or '1h'")
        before.mark(TTLS[point.ttl])
        self.marks += 1

    def block(self, part: Part, where: str) -> Block | None:
        """The block of one part; ``None`` for a text that is blank."""
        if isinstance(part, Text):
            return plain_block(part.text)
        if isinstance(part, TextFile):
            return text_block(file_in_prompt(part, where, self._measured))
        if isinstance(part, Image):
            return self._image(part, where)
        if isinstance(part, Media):
            return self._document(part, where)
        if isinstance(part, ToolResult):
            return self._result(part, where)
        raise UnsupportedError(f"{where}: Anthropic Messages has no block for {NAMES[type(part)]} here")

    def _image(self, part: Image, where: str) -> Block:
        self.counted.images += 1
        if isinstance(part.source, UrlSource):
            return Block([b'"type":"image","source":', _url(part.source, where)])
        kind = media_type(part, where).lower()
        if kind not in IMAGE_TYPES:
            raise UnsupportedError(f"{where}: Anthropic Messages takes JPEG, PNG, GIF and WebP, not {kind!r}")
        attachment = binary(part.source, where, self._measured)
        self.counted.image_bytes += attachment.length
        head = b'"type":"image","source":{"type":"base64","media_type":' + string(kind) + b',"data":"'
        return Block([head, attachment, b'"}'])

    def _document(self, part: Media, where: str) -> Block:
        title = b"" if part.name is None else b',"title":' + string(part.name)
        url = isinstance(part.source, UrlSource)
        kind = PDF if url and part.media_type is None else media_type(part, where).lower()
        if kind != PDF:
            raise UnsupportedError(f"{where}: Anthropic Messages takes PDF, not {kind!r}")
        if isinstance(part.source, UrlSource):
            return Block([b'"type":"document","source":', _url(part.source, where), title])
        head = b'"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"'
        return Block([head, binary(part.source, where, self._measured), b'"}' + title])

    def _result(self, result: ToolResult, where: str) -> Block:
        members: list[Piece] = [b'"type":"tool_result","tool_use_id":' + string(self.ids.result(result.call_id))]
        if isinstance(result.content, str):
            if result.content.strip():
                members.append(b',"content":' + string(result.content))
        else:
            parts = [self.block(part, f"{where}.content[{number}]") for number, part in enumerate(result.content)]
            blocks = [block for block in parts if block is not None]
            if blocks:
                members += [b',"content":', *listed(blocks)]
        if result.is_error:
            members.append(b',"is_error":true')
        return Block(members)


def _url(source: UrlSource, where: str) -> bytes:
    if not source.url.lower().startswith(URL_SCHEMES):
        raise UnsupportedError(f"{where}: a URL must be https or http in Anthropic Messages")
    return b'{"type":"url","url":' + string(source.url) + b"}"

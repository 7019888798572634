"""What a response body is, judged from its first bytes: a stream, or something else that a server
sent in its place (11 section A).

The judgement comes before any line rule and does not depend on the cut: a byte-order mark and blank
bytes are looked past, and what is shown of a foreign body is its first 200 bytes, however they came.
"""

from __future__ import annotations

import codecs
from enum import Enum, auto
from typing import Final

import attrs

from svir_core.errors import ResponseLimitError
from svir_core.limits import DOCUMENT_BYTES, FOREIGN_BODY_BYTES
from svir_core.slow_json import Nesting

BOM: Final = codecs.BOM_UTF8
BLANK: Final = b" \t\r\n"
GZIP: Final = b"\x1f\x8b"


class Shape(Enum):
    """What a body is."""

    STREAM = auto()
    """Lines: everything that is none of the others."""
    PAGE = auto()
    """It begins with ``<``: HTML or XML, of a gateway."""
    COMPRESSED = auto()
    """It begins with gzip's magic bytes, though nobody asked for a content-encoding."""
    DOCUMENT = auto()
    """It begins with ``{`` or ``[``: JSON."""


@attrs.frozen
class Judged:
    """A body's shape; the offset where ``data`` begins; of a stream all that came so far, of a document its text to
    where it closes, of anything else its first 200 bytes."""

    shape: Shape
    offset: int
    data: bytes


class Opening:
    """The start of one body. Push until it is judged, then never again.

    Raises ``ResponseLimitError`` at more than ``blank_limit`` blank bytes on end that are not line ends, and at a
    document above 16 MiB.
    """

    __slots__ = ("_blank_limit", "_bom_passed", "_held", "_held_size", "_nesting", "_offset", "_shape")

    def __init__(self, blank_limit: int) -> None:
        self._blank_limit = blank_limit
        self._offset = 0  # of the first byte held
        self._held: list[bytes] = []
        self._held_size = 0
        self._bom_passed = False
        self._shape: Shape | None = None
        self._nesting = Nesting()

    def push(self, data: bytes) -> Judged | None:
        """What the body is, when ``data`` decides it."""
        if self._shape is not None:
            return self._collect(data)
        if not self._bom_passed:
            data = self._take(data)
            if len(data) < len(BOM) and BOM.startswith(data):
                self._hold(data)
                return None
            self._bom_passed = True
            if data.startswith(BOM):
                self._offset += len(BOM)
                data = data[len(BOM) :]
        return self._look(data)

    def _look(self, data: bytes) -> Judged | None:
        if not self._held:  # blank lines need not be held: they end no event
            lines = data.lstrip(b"\r\n")
            self._offset += len(data) - len(lines)
            data = lines
        if self._held and self._held[-1].endswith(GZIP[:1]):
            data = self._take(data)  # half of gzip's magic bytes: what follows decides, be it blank
        start = data.lstrip(BLANK)
        if not start or start == GZIP[:1]:
            self._hold(data)
            self._check_blank(self._held_size - len(start))
            return None
        data = self._take(data)
        start = data.lstrip(BLANK)
        self._check_blank(len(data) - len(start))
        shape = _shape(start)
        if shape is Shape.STREAM:
            return Judged(shape, self._offset, data)
        self._shape = shape
        self._offset += len(data) - len(start)
        return self._collect(start)

    def _check_blank(self, size: int) -> None:
        if size > self._blank_limit:
            raise ResponseLimitError(
                f"the body begins with more than {self._blank_limit} blank bytes", offset=self._offset
            )

    def _hold(self, data: bytes) -> None:
        if data:
            self._held.append(data)
            self._held_size += len(data)

    def _take(self, data: bytes) -> bytes:
        """All that was held, and ``data``."""
        if not self._held:
            return data
        self._held.append(data)
        data = b"".join(self._held)
        self._held.clear()
        self._held_size = 0
        return data

    def _collect(self, data: bytes) -> Judged | None:
        """Hold ``data`` of a body that is no stream, until there is enough of it."""
        self._held.append(data)
        before = self._held_size
        self._held_size += len(data)
        if self._shape is Shape.DOCUMENT:
            end = self._nesting.push(data)
            if (self._held_size if end is None else before + end) > DOCUMENT_BYTES:
                raise ResponseLimitError(f"a document is larger than {DOCUMENT_BYTES} bytes", offset=self._offset)
            return None if end is None else self._judged(before + end)
        return self._judged(FOREIGN_BODY_BYTES) if self._held_size >= FOREIGN_BODY_BYTES else None

    def _judged(self, size: int) -> Judged:
        return Judged(self._shape or Shape.STREAM, self._offset, b"".join(self._held)[:size])

    def finish(self) -> Judged:
        """What the body is, now that no more of it comes: a stream, perhaps an empty one, when nothing decided."""
        return self._judged(self._held_size)


def _shape(start: bytes) -> Shape:
    if start[:1] == b"<":
        return Shape.PAGE
    if start[:2] == GZIP:
        return Shape.COMPRESSED
    return Shape.DOCUMENT if start[:1] in (b"{", b"[") else Shape.STREAM

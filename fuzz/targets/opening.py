"""Any bytes at any cut are judged the same, by the first byte that is not blank, and nothing of a stream is lost."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.check import Target, require, same
from fuzz.mutate import json_body
from fuzz.plan import read
from svir_core.errors import ResponseLimitError
from svir_core.limits import FOREIGN_BODY_BYTES
from svir_core.opening import BLANK, BOM, GZIP, Opening, Shape

LIMITS = (1, 8, 1 << 20, 1 << 20)
Seen = tuple[Shape | None, int | None, bytes]
"""The shape, or ``None`` for an error; the offset; the data, of a stream with all that came after it."""


def judged(pieces: Sequence[bytes], limit: int) -> Seen:
    """What an opening makes of ``pieces`` and the end of input."""
    opening = Opening(limit)
    try:
        for number, piece in enumerate(pieces):
            found = opening.push(piece)
            if found is not None:
                rest = b"".join(pieces[number + 1 :]) if found.shape is Shape.STREAM else b""
                return found.shape, found.offset, found.data + rest
        found = opening.finish()
    except ResponseLimitError as error:
        return None, error.offset, b""
    return found.shape, found.offset, found.data


def expected_shape(data: bytes) -> Shape:
    """The shape that the first bytes of ``data`` say."""
    start = data.removeprefix(BOM).lstrip(BLANK)
    if start.startswith(GZIP):
        return Shape.COMPRESSED
    return {b"<": Shape.PAGE, b"{": Shape.DOCUMENT, b"[": Shape.DOCUMENT}.get(start[:1], Shape.STREAM)


def check(raw: bytes) -> None:
    plan = read(raw)
    data = plan.data
    limit = LIMITS[plan.option & 3]
    whole = judged([data], limit)
    same("the cut matters", judged(plan.pieces(), limit), whole)
    shape, offset, kept = whole
    if shape is None:
        require(limit < len(data), "a limit that was not passed", limit)
        return
    same("not the shape of the first bytes", shape, expected_shape(data))
    require(offset is not None and data[offset : offset + len(kept)] == kept, "not the bytes at the offset", whole)
    if shape is Shape.STREAM:
        lost = data[:offset].removeprefix(BOM).strip(BLANK)
        require(not lost and data.endswith(kept), "a part of the stream was lost", lost)
    elif shape is not Shape.DOCUMENT:
        require(len(kept) <= FOREIGN_BODY_BYTES, "more of a foreign body is kept than is shown", len(kept))


TARGET = Target(check, "bodies", json_body, max_size=192)

"""Any bytes at any cut are the same frames and the same error, bounded, and a line-by-line reference's events."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from fuzz.check import Target, require, same
from fuzz.mutate import events
from fuzz.plan import read
from svir_core.sse import Frame, Framer, Kind, split_field

TYPES = frozenset({"message", "error"})
TERMINATOR = b"[DONE]"
LIMITS = (48, 400, 1 << 20, 1 << 20)
"""Small ones, to be passed; and one that no input passes."""


@attrs.frozen
class Framed:
    """All that a framer said."""

    frames: list[Frame]
    error: tuple[str, int | None] | None
    ended: bool
    count: int | None


def framed(pieces: Iterable[bytes], limit: int, any_type: bool) -> Framed:
    """What a framer makes of ``pieces`` and the end of input."""
    framer = Framer(types=None if any_type else TYPES, terminator=TERMINATOR, limit=limit)
    frames: list[Frame] = []
    for piece in pieces:
        payload = framer.single(piece)
        if payload is None:
            frames += framer.push(piece)
        else:
            frames.append((Kind.EVENT, framer._base - len(piece), None, payload))
            framer.ended = payload == TERMINATOR
        if framer.ended or framer.error is not None:
            break
        held = len(framer._tail) + framer._parts_size + framer._size
        require(held <= 2 * limit + len(piece), "more is held than the limit allows", held)
    else:
        frames += framer.finish()
    error = framer.error
    shown = None if error is None else (error.detail, error.offset)
    return Framed(frames, shown, framer.ended, framer.count if error is None else None)


def reference(data: bytes) -> list[bytes]:
    """The data of the events of ``data`` that have some, up to the terminator."""
    found: list[bytes] = []
    lines: list[bytes] = []
    typed = False
    ends = list(re.finditer(rb"\r\n|\n|\r", data))
    starts = [0, *(end.end() for end in ends)]
    for start, end in zip(starts, ends, strict=False):
        line = data[start : end.start()]
        if not line:
            if b"\n".join(lines):
                found.append(b"\n".join(lines))
            lines, typed = [], False
            continue
        name, value = split_field(line)
        typed = (value not in (b"", b"message")) if name == b"event" else typed
        if name == b"data":
            lines.append(value)
            if lines == [TERMINATOR] and not typed:
                return [*found, TERMINATOR]
    return found


def check(raw: bytes) -> None:
    plan = read(raw)
    limit = LIMITS[plan.option & 3]
    any_type = plan.flag(2)
    whole = framed([plan.data], limit, any_type)
    same("the cut matters", whole, framed(plan.pieces(), limit, any_type))
    offsets = [frame[1] for frame in whole.frames]
    require(all(0 <= offset <= len(plan.data) for offset in offsets), "an offset lies outside", offsets)
    if whole.error is None and limit > len(plan.data) and not re.search(rb"(?:^|[\r\n])\{", plan.data):
        kinds = (Kind.EVENT, Kind.DROPPED)
        told = [frame[3] for frame in whole.frames if frame[0] in kinds and frame[3]]
        expected = reference(plan.data)
        same("not the events of the reference", told[: len(expected)], expected)


TARGET = Target(check, "streams", events, max_size=256)

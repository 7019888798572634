"""An input: two bytes that say how it is run, then the bytes it is run with.

The cut and the options are part of the input, so that a found input is one file and runs the same again.
"""

from __future__ import annotations

import attrs

MOST_PIECES = 64
"""Inputs are cut into about so many pieces at most: a push costs more than a byte."""


@attrs.frozen
class Plan:
    """What an input says.

    Attributes:
        cut: how ``data`` is cut, 0 to 255 (see :func:`cut`).
        option: which options the target runs with, 0 to 255.
        data: the bytes.
    """

    cut: int
    option: int
    data: bytes

    def pieces(self) -> list[bytes]:
        """The data, cut as the plan says."""
        return [self.data[start:end] for start, end in cut(len(self.data), self.cut)]

    def flag(self, number: int) -> bool:
        """Bit ``number`` of the options."""
        return bool(self.option >> number & 1)


def read(raw: bytes) -> Plan:
    """The plan that ``raw`` is; what is missing is 0."""
    head = raw[:2].ljust(2, b"\0")
    return Plan(head[0], head[1], raw[2:])


def written(data: bytes, cut: int = 0, option: int = 0) -> bytes:
    """The input that runs ``data`` so."""
    return bytes((cut, option)) + data


def cut(size: int, how: int) -> list[tuple[int, int]]:
    """Start and end of each piece: below 16 they are ``how + 1`` long each, but for an input that would make too many
    of them; from there on a small generator throws a few, some of them empty."""
    pieces: list[tuple[int, int]] = []
    position = 0
    state = how
    while position < size:
        if how < 16:
            step = max(how + 1, size // MOST_PIECES)
        else:
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            step = (state >> 16) % (size // 2 + 2)
        pieces.append((position, min(position + step, size)))
        position += step
    return pieces

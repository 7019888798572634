"""Make a found input small: what is not needed to break the invariant is taken out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_RUNS: Final = 4000
"""A minimised input need not be the smallest one."""


def fault(check: Callable[[bytes], None], data: bytes) -> str | None:
    """What goes wrong with ``data``, by the kind of the exception and the first words; ``None`` when nothing does."""
    try:
        check(data)
    except Exception as error:  # noqa: BLE001 - whatever escapes is what is looked for
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0].partition(':')[0]}"
    return None


def minimised(check: Callable[[bytes], None], data: bytes) -> bytes:
    """The smallest input found that goes wrong as ``data`` does: pieces are taken out, from halves to single bytes."""
    wrong = fault(check, data)
    runs = 0
    size = len(data) // 2
    while size and runs < MOST_RUNS:
        position = 0
        while position < len(data) and runs < MOST_RUNS:
            shorter = data[:position] + data[position + size :]
            runs += 1
            if fault(check, shorter) == wrong:
                data = shorter
            else:
                position += size
        size //= 2
    return data

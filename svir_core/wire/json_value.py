"""What a parsed JSON value is, for the type checker too."""

from __future__ import annotations

from typing import Any, Final, TypeGuard

Json = dict[str, Any]

COUNTS: Final = 2**53
"""Below this every JSON reader has an integer as it was written (RFC 8259 section 6), and sums of figures fit 64 bits.
No answer has as many tokens."""


def is_object(value: Any) -> TypeGuard[Json]:
    """Whether ``value`` is a JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Whether ``value`` is a JSON array."""
    return isinstance(value, list)


def is_count(value: Any) -> bool:
    """Whether ``value`` is a figure of a report: a whole number from 0 to ``COUNTS``, that excluded, or ``null``."""
    return value is None or (type(value) is int and 0 <= value < COUNTS)


def text_of(value: Any) -> str | None:
    """``value`` when it is a string that is not empty, else ``None``."""
    return value if isinstance(value, str) and value else None

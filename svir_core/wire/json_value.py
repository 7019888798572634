"""What a parsed JSON value is, for the type checker too."""

from __future__ import annotations

from typing import Any, TypeGuard

Json = dict[str, Any]


def is_object(value: Any) -> TypeGuard[Json]:
    """Whether ``value`` is a JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Whether ``value`` is a JSON array."""
    return isinstance(value, list)


def is_count(value: Any) -> bool:
    """Whether ``value`` is a figure of a report: a whole number that is not negative, or ``null``."""
    return value is None or (type(value) is int and value >= 0)


def text_of(value: Any) -> str | None:
    """``value`` when it is a string that is not empty, else ``None``."""
    return value if isinstance(value, str) and value else None

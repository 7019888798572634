"""A JSON number that comes in pieces, by a table of what may follow what (RFC 8259 section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson


def _to(state: str, characters: str) -> dict[str, str]:
    return dict.fromkeys(characters, state)


_DIGITS: Final = "0123456789"
_FIRST: Final = {**_to("zero", "0"), **_to("integer", "123456789")}
_EXPONENT: Final = _to("exponent", "eE")
_NEXT: Final[Mapping[str, Mapping[str, str]]] = {
    "start": {**_to("minus", "-"), **_FIRST},
    "minus": _FIRST,
    "zero": {**_to("point", "."), **_EXPONENT},
    "integer": {**_to("integer", _DIGITS), **_to("point", "."), **_EXPONENT},
    "point": _to("fraction", _DIGITS),
    "fraction": {**_to("fraction", _DIGITS), **_EXPONENT},
    "exponent": {**_to("sign", "+-"), **_to("power", _DIGITS)},
    "sign": _to("power", _DIGITS),
    "power": _to("power", _DIGITS),
}
"""Where each character leads; any other is the number's end, or an error."""

_WHOLE: Final = frozenset({"zero", "integer", "fraction", "power"})
"""Where a number may end."""

BEGINS: Final = frozenset(_NEXT["start"])
"""What a number begins with."""


class NumberReader:
    """One number: ``push`` until a character is no part of it; then, if it is ``whole``, its ``value``."""

    __slots__ = ("_parts", "_state")

    def __init__(self) -> None:
        self._state = "start"
        self._parts: list[str] = []

    def push(self, text: str, position: int) -> int:
        """The position in ``text``, from ``position`` on, of the first character that is no part of the number."""
        start, state = position, self._state
        while position < len(text) and (following := _NEXT[state].get(text[position])) is not None:
            state = following
            position += 1
        self._state = state
        self._parts.append(text[start:position])
        return position

    @property
    def whole(self) -> bool:
        """Whether the number may end here."""
        return self._state in _WHOLE

    def value(self) -> int | float | None:
        """A whole number, as ``orjson.loads`` gives it; ``None`` when no float holds it."""
        try:
            number: int | float = orjson.loads("".join(self._parts))
        except orjson.JSONDecodeError:  # the table holds its form: it is out of range
            return None
        return number

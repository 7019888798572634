"""What the JSON library refuses or forgets, read a second time: lone surrogates, numbers that no float
holds, and how a number was spelled (11 section B).

Only a payload that needs it comes here. Each function walks the text by regular expressions or holds
``JSON_DEPTH``, so that no payload is a ``RecursionError``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NoReturn

import attrs
import orjson

from svir_core.errors import ProtocolError
from svir_core.limits import JSON_DEPTH

_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""Any escape of a JSON string; the group is a surrogate that has no other half. Pairs come first."""

_STRUCTURE: Final = re.compile(rb'[{}\[\]"]')
_INSIDE_STRING: Final = re.compile(rb'["\\]')
_SIGNIFICANT: Final = re.compile(r"[-0.]*[1-9]")
"""The start of a JSON number that is not zero."""


class NumberText(str):
    """A JSON number, as it was spelled."""

    __slots__ = ()


@attrs.frozen
class HugeNumber:
    """A JSON number that no float holds, as it was spelled: it is neither a number nor a text of Python's."""

    text: str


class Nesting:
    """Follows the nesting of JSON text that comes in pieces, in linear time, and says where it closes.

    Attributes:
        depth: how many objects and arrays are open.
        deepest: the greatest depth so far.
    """

    __slots__ = ("_escaped", "_in_string", "deepest", "depth")

    def __init__(self) -> None:
        self.depth = 0
        self.deepest = 0
        self._in_string = False
        self._escaped = False

    def push(self, data: bytes) -> int | None:
        """The position after the byte of ``data`` that closes the outermost value, or ``None``."""
        position = 0
        while True:
            if self._escaped:
                if position >= len(data):
                    return None
                position += 1
                self._escaped = False
            found = (_INSIDE_STRING if self._in_string else _STRUCTURE).search(data, position)
            if found is None:
                return None
            position = found.end()
            byte = data[position - 1]
            if byte == 0x22:
                self._in_string = not self._in_string
            elif byte == 0x5C:
                self._escaped = True
            elif byte in b"{[":
                self.depth += 1
                self.deepest = max(self.deepest, self.depth)
            else:
                self.depth -= 1
                if self.depth <= 0:
                    return position


def _small_integer(digits: str) -> int | None:
    """The integer, when it fits 64 bits (and Python refuses 4,300 digits)."""
    return value if len(digits) <= 20 and -(2**63) <= (value := int(digits)) < 2**64 else None


def _float(digits: str) -> float | HugeNumber:
    value = float(digits)
    return value if math.isfinite(value) else HugeNumber(digits)


def _integer(digits: str) -> int | float | HugeNumber:
    """As the fast reader: what does not fit 64 bits is a float."""
    value = _small_integer(digits)
    return _float(digits) if value is None else value


def _exact_integer(digits: str) -> int | HugeNumber:
    value = _small_integer(digits)
    return HugeNumber(digits) if value is None else value


def _exact_float(digits: str) -> float | HugeNumber:
    value = _float(digits)
    if isinstance(value, HugeNumber):
        return value
    # of a zero the digits tell: no Decimal holds an exponent of twenty digits
    same = Decimal(digits) == Decimal(repr(value)) if value else not _SIGNIFICANT.match(digits)
    return value if same else HugeNumber(digits)


def _number_or_text(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def number(digits: str) -> Any:
        value = read(digits)
        return value.text if isinstance(value, HugeNumber) else value

    return number


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def too_deep(text: str) -> bool:
    """Whether ``text`` nests deeper than ``JSON_DEPTH``."""
    nesting = Nesting()
    nesting.push(text.encode("utf-8", "replace"))
    return nesting.deepest > JSON_DEPTH


def without_lone_surrogates(text: str) -> str:
    """JSON ``text`` with U+FFFD, escaped, for every escaped surrogate that has no other half."""
    return _ESCAPE.sub(lambda match: r"\ufffd" if match[1] else match[0], text)


def read_huge(text: str) -> Any:
    """The value of JSON ``text`` that the fast reader refuses for a number that no float holds: each is a
    :class:`HugeNumber`. ``None`` when it is no JSON for another reason, or nests deeper than ``JSON_DEPTH``."""
    if too_deep(text):
        return None
    try:
        return json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=_no_number)
    except (ValueError, RecursionError):  # RecursionError: the caller's own stack was nearly full
        return None


def read_any(text: str) -> Any:
    """The value of JSON ``text``, by the fast reader or else by :func:`read_huge`. ``None`` when it is no JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return read_huge(text)


def loosely(data: bytes) -> Any:
    """The value of JSON ``data`` for which only a failure counts: bad UTF-8 and lone surrogates become U+FFFD.
    ``None`` when it is no JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return read_any(without_lone_surrogates(data.decode("utf-8", "replace")))


def read_surrogates(text: str) -> Any:
    """The value of JSON ``text``, lone surrogates kept as they are.

    Raises ``ProtocolError`` when it nests deeper than ``JSON_DEPTH``. ``text`` must be JSON.
    """
    return _read(text, {"parse_int": _integer, "parse_float": _float})


def read_numbers(text: str) -> Any:
    """The value of JSON ``text``, every number a :class:`NumberText`.

    Raises ``ProtocolError`` when it nests deeper than ``JSON_DEPTH``. ``text`` must be JSON.
    """
    return _read(text, {"parse_int": NumberText, "parse_float": NumberText})


def read_exact(text: str) -> Any:
    """The value of JSON ``text``; a number that neither 64 bits nor a float hold exactly, so that it would be written
    as another one, is a :class:`HugeNumber`.

    Raises ``ProtocolError`` when it nests deeper than ``JSON_DEPTH``. ``text`` must be JSON.
    """
    return _read(text, {"parse_int": _exact_integer, "parse_float": _exact_float})


def read_without_huge(text: str) -> Any:
    """The value of JSON ``text``; a number that no float holds is its text.

    Raises ``ProtocolError`` when it nests deeper than ``JSON_DEPTH``. ``text`` must be JSON.
    """
    return _read(text, {"parse_int": _number_or_text(_integer), "parse_float": _number_or_text(_float)})


def exact_text(value: Any) -> str:
    """The JSON text of what :func:`read_exact` read: key order kept, strings as they were, numbers equal in value.

    Raises ``ProtocolError`` when it nests deeper than the 254 levels that orjson writes.
    """
    try:
        return orjson.dumps(value, default=_as_spelled).decode()
    except orjson.JSONEncodeError:  # the depth: all else was JSON when it was read
        pass
    raise ProtocolError("a payload is nested deeper than can be kept")


def _as_spelled(number: HugeNumber) -> orjson.Fragment:
    return orjson.Fragment(number.text)


def _read(text: str, options: dict[str, Any]) -> Any:
    if not too_deep(text):
        try:
            return json.loads(text, **options)
        except RecursionError:  # the caller's own stack was nearly full
            pass
    raise ProtocolError(f"a payload is nested deeper than {JSON_DEPTH} levels")

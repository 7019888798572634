"""JSON text as it is sent: every string clean, every value one that JSON can carry, and the two forms
in which attachments stand inside a JSON string, produced block by block.

Three rules hold for all of it. What is written is valid UTF-8: a lone surrogate becomes U+FFFD. What
JSON cannot carry is refused, never turned into something near it (orjson alone would write NaN as
null). A length is known before the first byte is written.
Source: 11-quirks section D, 10-chat-completions section 10.
"""

from __future__ import annotations

import binascii
import codecs
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import orjson

from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.slow_json import HugeNumber

NESTING: Final = 128
"""How deep a value may nest: orjson writes 254 levels, and Python's own stack holds about 1,000 calls."""

_UTF8: Final = codecs.getincrementaldecoder("utf-8")

_TWO: Final = b'"\\\n\r\t\b\f'
"""The bytes that take two inside a JSON string."""

_PLAIN: Final = bytes(byte for byte in range(256) if byte >= 0x20 and byte not in b'"\\')
"""The bytes that stand for themselves inside a JSON string; those in neither take six (``\\u00xx``)."""


def sanitize(text: str) -> str:
    """``text`` as an exact ``str``: a lone surrogate becomes U+FFFD, two halves of one character are joined."""
    if text.isascii():
        return str.__str__(text)  # of a subclass too: orjson takes no other type as a key
    return str.encode(text, "utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def string(text: str) -> bytes:
    """``text`` as a JSON string, quotes included, sanitised."""
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:  # a lone surrogate: the only thing in a string that orjson refuses
        return orjson.dumps(sanitize(text))


def inside(text: str) -> bytes:
    """``text`` as it stands inside a JSON string: sanitised, without the quotes."""
    return string(text)[1:-1]


_Place = tuple[Any, str | int]
"""Where in a value the reading stands: the place above it and a key. Spelled out only for an error."""


def _spelled(place: _Place) -> str:
    steps: list[str] = []
    while place[0] is not None:
        place, key = place
        steps.append(f"[{key}]" if isinstance(key, int) else f".{key}")
    return "".join([str(place[1]), *reversed(steps)])


def _integer(value: int, place: _Place) -> int | orjson.Fragment:
    """An integer as orjson can write it: beyond 64 bits it must be spelled out."""
    if -(2**63) <= value < 2**64:
        return value
    try:
        return orjson.Fragment(int.__repr__(value))  # a subclass may spell itself otherwise
    except ValueError:  # more digits than Python converts
        error = ConfigError(f"{_spelled(place)} is an integer of too many digits")
    raise error


def _mapping(value: Mapping[object, Any], place: _Place, depth: int) -> dict[str, Any]:
    clean: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise ConfigError(f"{_spelled(place)} has a key of type {type(key).__name__}; JSON keys are strings")
        clean[sanitize(key)] = _plain(item, (place, key), depth)
    if len(clean) != len(value):
        raise ConfigError(f"{_spelled(place)} has keys that differ only in lone surrogates")
    return clean


def _plain(value: Any, place: _Place, depth: int) -> Any:
    """``value`` as types that orjson writes without a choice of its own."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, int):
        return _integer(value, place)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(f"{_spelled(place)} is a number that is not finite")
        return float(value)  # of a subclass (numpy's double) too: orjson takes no other type
    if isinstance(value, HugeNumber):
        return orjson.Fragment(value.text)
    if depth == 0:
        raise ConfigError(f"{_spelled(place)} nests deeper than {NESTING} levels")
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[object, Any]", value), place, depth - 1)
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return [_plain(item, (place, number), depth - 1) for number, item in enumerate(items)]
    raise ConfigError(f"{_spelled(place)} is {an(type(cast('object', value)))}, which JSON cannot carry")


def plain(value: Any, where: str) -> Any:
    """``value`` made ready for ``orjson.dumps``: strings and keys sanitised, key order kept, numbers
    equal in value.

    Raises ``ConfigError`` that names the place, below ``where``, of what JSON cannot carry: a type that
    is not JSON's, a number that is not finite, a key that is no string, keys that sanitising makes
    equal, and more than ``NESTING`` levels (so a cycle too).
    """
    return _plain(value, (None, where), NESTING)


def copied(value: Any, where: str) -> Any:
    """``value`` as it is, numbers of any size too, in objects and lists that nobody else has.

    Raises ``ConfigError`` for what JSON cannot carry, as :func:`plain`.
    """
    plain(value, where)
    return _copied(value)


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_copied(item) for item in cast("Sequence[Any]", value)]
    return value


class TextMeter:
    """Measures a text file in one pass, in blocks of any size, and checks that it is UTF-8.

    ``push`` and ``finish`` raise ``UnicodeDecodeError``, which holds the content: never let it out.
    """

    __slots__ = ("_decoder", "_length")

    def __init__(self) -> None:
        self._decoder = _UTF8()
        self._length = 0

    def push(self, block: bytes) -> None:
        """The next bytes of the file."""
        self._decoder.decode(block)
        special = block.translate(None, _PLAIN)
        two = len(special) - len(special.translate(None, _TWO))
        self._length += len(block) + two + 5 * (len(special) - two)

    def finish(self) -> int:
        """The bytes that the whole text takes inside a JSON string."""
        self._decoder.decode(b"", final=True)
        return self._length


class TextEscaper:
    """A text file as it stands inside a JSON string, in blocks of any size.

    ``push`` and ``finish`` raise ``UnicodeDecodeError``, which holds the content: never let it out.
    """

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = _UTF8()

    def push(self, block: bytes) -> bytes:
        """What ``block`` completes; a character that it cuts waits for the next one."""
        return orjson.dumps(self._decoder.decode(block))[1:-1]

    def finish(self) -> bytes:
        """Nothing more: a text that is UTF-8 leaves nothing behind."""
        return self._decoder.decode(b"", final=True).encode()


class Base64:
    """Base64 in blocks of any size: what does not fill a group of three waits for the next block."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def push(self, block: bytes) -> bytes:
        """The whole groups that ``block`` completes."""
        if self._rest:
            block = self._rest + block
        left = len(block) % 3
        whole = len(block) - left
        self._rest = bytes(block[whole:])
        return binascii.b2a_base64(block[:whole] if left else block, newline=False)

    def finish(self) -> bytes:
        """The last group, padded, or nothing."""
        return binascii.b2a_base64(self._rest, newline=False)


def base64_length(size: int) -> int:
    """How many bytes the base64 of ``size`` bytes takes."""
    return 4 * ((size + 2) // 3)

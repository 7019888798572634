"""JSON text that is still being written, as the value it is so far, without I/O (30 section 2).

Three rules hold for it. What is shown is never taken back: objects gain members, arrays items, strings
characters, until the whole equals what ``orjson.loads`` gives. Any cut of the same text gives the same. A piece
costs what its own length costs, however much came before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from svir_core.errors import ProtocolError, ResponseLimitError, SvirError
from svir_core.json_number import BEGINS, NumberReader
from svir_core.limits import DOCUMENT_BYTES, JSON_DEPTH
from svir_core.wire.json_value import is_array, is_object

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
"""What stands for itself inside a string."""

_ESCAPES: Final[Mapping[str, str]] = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_LITERALS: Final[Mapping[str, tuple[str, bool | None]]] = {
    "t": ("true", True),
    "f": ("false", False),
    "n": ("null", None),
}
_HEX: Final = frozenset("0123456789abcdefABCDEF")


_Step = Callable[["PartialJson", str, int], int]
"""Reads on in a piece of text from a position, and says up to where."""


class PartialJson:
    """A reader of one JSON value that comes in pieces: ``push`` each, then ``finish``.

    A string is shown as far as it came. A key is shown once its value is; a number, ``true``, ``false`` and ``null``
    when they are whole. Of two members of one name the later one replaces the other, as in ``orjson.loads``.

    ``push`` and ``finish`` raise ``ProtocolError`` that names the character, counted from 0, at which the text is no
    JSON, and when it nests deeper than 256 levels; ``ResponseLimitError`` when it is longer than 16 Mi characters.
    What was shown stays, and every later call raises the same error.

    Attributes:
        news: whether the last ``push`` or ``finish`` had more to show, before it failed if it did.
    """

    __slots__ = (
        "_digits", "_error", "_expected", "_high", "_is_key", "_key", "_literal", "_number", "_offset", "_open",
        "_parts", "_path", "_stack", "_step", "_top", "news",
    )  # fmt: skip

    def __init__(self) -> None:
        self._top: list[Any] = []  # an array around the value, so that a value always stands in something
        self._stack: list[Any] = [self._top]
        self._path: list[str | int] = []  # the last member of each container of the stack, where there is one
        self._step: _Step = PartialJson._value
        self._error: SvirError | None = None
        self._offset = 0
        self.news = False
        self._key = ""
        self._is_key = False
        self._open = False
        self._parts: list[str] = []
        self._digits = ""
        self._high = 0
        self._number = NumberReader()
        self._literal = ""
        self._expected: bool | None = None

    @property
    def data(self) -> Any:
        """The value so far; ``None`` before anything of it can be shown.

        The same objects and arrays each time: they grow in place. Asking joins the string that is still open: it
        costs that string's length, and only what is asked after a piece has all of it.
        """
        if self._open:
            self._place("".join(self._parts))
            self._parts = [self._stack[-1][self._path[-1]]]
        return self._top[0] if self._top else None

    @property
    def path(self) -> tuple[str | int, ...]:
        """Where the value changed last: the keys and positions that lead there, none for the value itself."""
        return tuple(self._path[1:])

    @property
    def done(self) -> bool:
        """Whether the value is whole, so that only blanks may follow. Of a number, only the end tells."""
        return self._step is PartialJson._nothing

    def push(self, text: str) -> None:
        """Read the next piece."""
        if self._error is not None:
            raise self._error
        self.news = False
        room = DOCUMENT_BYTES - self._offset
        piece = text[:room]
        position = 0
        while position < len(piece):
            position = self._step(self, piece, position)
        if len(text) > room:
            self._fail(ResponseLimitError(f"the answer is JSON of more than {DOCUMENT_BYTES} characters"))
        self._offset += len(piece)

    def finish(self) -> None:
        """The text has ended: only now is a number whole that stands alone."""
        if self._error is not None:
            raise self._error
        self.news = False
        if self._step is PartialJson._in_number and len(self._stack) == 1:
            self._end_number(0)
        if not self.done:
            self._refuse(0, "the rest of the value")

    def complete_items(self, path: tuple[str | int, ...], start: int = 0) -> list[Any]:
        """The items of the array at ``path`` from number ``start`` on that are complete; none when there is no array.

        Raises ``ProtocolError`` when something else than an array or ``null`` stands there.
        """
        place: Any = self._top
        for step in (0, *path):
            if not _has(place, step):
                return []
            place = place[step]
        if place is None:
            return []
        if not is_array(place):
            raise ProtocolError(f"the answer has no array at {spelled(path)}")
        return place[start : len(place) - self._last_is_open(place)]

    def _last_is_open(self, items: list[Any]) -> bool:
        for number, container in enumerate(self._stack):
            if container is items:
                return self._open or number < len(self._stack) - 1
        return False

    # --- what may come next ----------------------------------------------------------------------------

    def _value(self, text: str, position: int) -> int:
        return self._begin(text, position, "a value")

    def _first_item(self, text: str, position: int) -> int:
        return self._begin(text, position, "a value or ']'", "]")

    def _begin(self, text: str, position: int, expected: str, end: str = "") -> int:
        position = _skipped(text, position)
        if position == len(text):
            return position
        character = text[position]
        if character == '"':
            self._is_key = False
            self._show("")
            self._open = True
            self._step = PartialJson._in_string
        elif character == "{":
            self._enter({}, PartialJson._first_key, position)
        elif character == "[":
            self._enter([], PartialJson._first_item, position)
        elif character in BEGINS:
            self._number = NumberReader()
            self._step = PartialJson._in_number
            return position
        elif character in _LITERALS:
            self._literal, self._expected = _LITERALS[character]
            self._step = PartialJson._in_literal
            return position
        elif character == end:
            self._leave()
        else:
            self._refuse(position, expected)
        return position + 1

    def _first_key(self, text: str, position: int) -> int:
        return self._begin_key(text, position, "a key or '}'", "}")

    def _next_key(self, text: str, position: int) -> int:
        return self._begin_key(text, position, "a key")

    def _begin_key(self, text: str, position: int, expected: str, end: str = "") -> int:
        position = _skipped(text, position)
        if position == len(text):
            return position
        if text[position] == '"':
            self._is_key = True
            self._step = PartialJson._in_string
        elif text[position] == end:
            self._leave()
        else:
            self._refuse(position, expected)
        return position + 1

    def _colon(self, text: str, position: int) -> int:
        position = _skipped(text, position)
        if position == len(text):
            return position
        if text[position] != ":":
            self._refuse(position, "':'")
        self._step = PartialJson._value
        return position + 1

    def _after_item(self, text: str, position: int) -> int:
        position = _skipped(text, position)
        if position == len(text):
            return position
        in_object = is_object(self._stack[-1])
        if text[position] == ",":
            self._step = PartialJson._next_key if in_object else PartialJson._value
        elif text[position] == ("}" if in_object else "]"):
            self._leave()
        else:
            self._refuse(position, "',' or '}'" if in_object else "',' or ']'")
        return position + 1

    def _nothing(self, text: str, position: int) -> int:
        position = _skipped(text, position)
        if position < len(text):
            self._refuse(position, "nothing after the value")
        return position

    # --- inside of a value -----------------------------------------------------------------------------

    def _in_string(self, text: str, position: int) -> int:
        found = _PLAIN.match(text, position)
        end = position if found is None else found.end()
        if end > position:
            self._add(text[position:end])
        if end == len(text):
            return end
        if text[end] == '"':
            self._end_string()
        elif text[end] == "\\":
            self._step = PartialJson._in_escape
        else:
            self._refuse(end, "a character that a string may hold")
        return end + 1

    def _in_escape(self, text: str, position: int) -> int:
        character = text[position]
        if character == "u":
            self._digits = ""
            self._step = PartialJson._in_digits
        elif character in _ESCAPES and not self._high:
            self._add(_ESCAPES[character])
            self._step = PartialJson._in_string
        else:
            self._refuse(position, "the second half of a character" if self._high else "an escape")
        return position + 1

    def _in_digits(self, text: str, position: int) -> int:
        if text[position] not in _HEX:
            self._refuse(position, "a hexadecimal digit")
        self._digits += text[position]
        if len(self._digits) == 4:
            self._unit(int(self._digits, 16), position)
        return position + 1

    def _unit(self, unit: int, position: int) -> None:
        """One unit of UTF-16 that was escaped."""
        is_low = 0xDC00 <= unit < 0xE000
        if is_low is not bool(self._high):
            self._refuse(position, "the second half of a character" if self._high else "its first half before this")
        if 0xD800 <= unit < 0xDC00:
            self._high = unit
            self._step = PartialJson._second_half
            return
        self._add(chr(0x10000 + ((self._high - 0xD800) << 10) + unit - 0xDC00 if is_low else unit))
        self._high = 0
        self._step = PartialJson._in_string

    def _second_half(self, text: str, position: int) -> int:
        if text[position] != "\\":
            self._refuse(position, "the second half of a character")
        self._step = PartialJson._in_escape
        return position + 1

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self.news = self.news or self._open

    def _end_string(self) -> None:
        whole = "".join(self._parts)
        self._parts = []
        if self._is_key:
            self._key = whole
            self._step = PartialJson._colon
            return
        self._place(whole)
        self._open = False
        self.news = True
        self._step = self._after()

    def _in_number(self, text: str, position: int) -> int:
        position = self._number.push(text, position)
        if position < len(text):
            self._end_number(position)
        return position

    def _end_number(self, position: int) -> None:
        if not self._number.whole:
            self._refuse(position, "the rest of a number")
        value = self._number.value()
        if value is None:
            self._refuse(position, "a number that a float can hold before this")
        self._show(value)
        self._step = self._after()

    def _in_literal(self, text: str, position: int) -> int:
        if text[position] != self._literal[0]:
            self._refuse(position, "the rest of a literal")
        self._literal = self._literal[1:]
        if not self._literal:
            self._show(self._expected)
            self._step = self._after()
        return position + 1

    # --- the value ---------------------------------------------------------------------------------------

    def _show(self, value: Any) -> None:
        """``value`` is the next of the innermost container."""
        container = self._stack[-1]
        del self._path[len(self._stack) - 1 :]
        if is_array(container):
            self._path.append(len(container))
            container.append(value)
        else:
            self._path.append(self._key)
            container[self._key] = value
        self.news = True

    def _place(self, text: str) -> None:
        """The string that is open is ``text`` by now."""
        self._stack[-1][self._path[-1]] = text

    def _enter(self, container: dict[str, Any] | list[Any], step: _Step, position: int) -> None:
        if len(self._stack) > JSON_DEPTH:
            where = self._offset + position
            self._fail(ProtocolError(f"the answer nests deeper than {JSON_DEPTH} levels at character {where}"))
        self._show(container)
        self._stack.append(container)
        self._step = step

    def _leave(self) -> None:
        del self._path[len(self._stack) - 1 :]
        self._stack.pop()
        self.news = True
        self._step = self._after()

    def _after(self) -> _Step:
        return PartialJson._nothing if len(self._stack) == 1 else PartialJson._after_item

    def _refuse(self, position: int, expected: str) -> NoReturn:
        self._fail(ProtocolError(f"the answer is not JSON: expected {expected} at character {self._offset + position}"))

    def _fail(self, error: SvirError) -> NoReturn:
        self._error = error
        raise error


def spelled(path: tuple[str | int, ...]) -> str:
    """``path`` as errors name a place of the caller's: ``$.steps[3]``."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def _skipped(text: str, position: int) -> int:
    """The position of the first character that is no blank."""
    found = _BLANK.match(text, position)
    return position if found is None else found.end()


def _has(place: Any, step: str | int) -> bool:
    if is_object(place):
        return step in place
    return is_array(place) and isinstance(step, int) and 0 <= step < len(place)

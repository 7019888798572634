"""The arguments of a call that come in pieces, each with the path of its place (22 section 8, Vertex).

Three rules hold for all of it. Pieces of a string at one path are joined, up to the one that ends it; any other value
comes once. Arrays grow at their end, one place at a time. A value is never replaced: what contradicts an earlier piece
is ``ProtocolError``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from svir_core.errors import ProtocolError
from svir_core.json_text import sanitize
from svir_core.wire.gemini.path import Step, steps
from svir_core.wire.gemini.said import Said
from svir_core.wire.json_value import Json, is_array, is_object

PATH: Final = "jsonPath"
STRING: Final = "stringValue"
NUMBER: Final = "numberValue"
BOOL: Final = "boolValue"
NULL: Final = "nullValue"
GOES_ON: Final = "willContinue"
VALUES: Final = (STRING, NUMBER, BOOL, NULL)


class _Text:
    """A string in pieces; ``open`` while more of it is to come."""

    __slots__ = ("open", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.open = True


class Arguments:
    """The arguments of one call, so far."""

    __slots__ = ("_root", "_texts")

    def __init__(self) -> None:
        self._root: Json = {}
        self._texts: list[_Text] = []

    @property
    def whole(self) -> bool:
        """Whether every string that began has ended."""
        return not any(text.open for text in self._texts)

    def push(self, piece: Said) -> None:
        """Another piece. One without a value says nothing."""
        kinds = [key for key in VALUES if key in piece.fields and (key == NULL or piece.fields[key] is not None)]
        if len(kinds) > 1:
            raise ProtocolError("a piece of an argument has two values")
        place = steps(piece.fields.get(PATH))
        if not kinds:
            return
        container, key = self._container(place)
        if kinds[0] == STRING:
            self._string(container, key, piece)
        elif _has(container, key):
            raise ProtocolError("an argument of a tool call comes twice")
        else:
            _put(container, key, _scalar(kinds[0], piece))

    def _container(self, place: tuple[Step, ...]) -> tuple[Any, Step]:
        """The object or array that the last step leads into, made where it is not there yet."""
        container: Any = self._root
        for key, inner in pairwise(place):
            if not _has(container, key):
                _put(container, key, {} if isinstance(inner, str) else [])
            container = container[key]
        return container, place[-1]

    def _string(self, container: Any, key: Step, piece: Said) -> None:
        text = piece.raw[STRING]
        if not isinstance(text, str):
            raise ProtocolError("a piece of an argument is of another type than it says")
        goes_on = piece.fields.get(GOES_ON)
        if goes_on is not None and not isinstance(goes_on, bool):
            raise ProtocolError("the mark that an argument goes on is of the wrong type")
        if not _has(container, key):
            self._texts.append(_Text())
            _put(container, key, self._texts[-1])
        known = container[key]
        if not isinstance(known, _Text):
            raise ProtocolError("an argument of a tool call is of two types")
        if not known.open:
            raise ProtocolError("an argument of a tool call goes on after its end")
        known.pieces.append(text)
        known.open = bool(goes_on)

    def value(self) -> Json:
        """The arguments, as an object."""
        whole: Json = _joined(self._root)
        return whole


def _scalar(kind: str, piece: Said) -> Any:
    value = piece.exact()[kind]
    if kind == NULL:
        fits = value in (None, "NULL_VALUE")
        value = None
    elif kind == BOOL:
        fits = isinstance(value, bool)
    else:
        fits = not isinstance(value, bool | str | dict | list)
    if not fits:
        raise ProtocolError("a piece of an argument is of another type than it says")
    return value


def _fits(container: Any, key: Step) -> bool:
    return is_object(container) if isinstance(key, str) else is_array(container)


def _has(container: Any, key: Step) -> bool:
    if not _fits(container, key):
        raise ProtocolError("an argument of a tool call is of two types")
    return key in container if isinstance(key, str) else key < len(container)


def _put(container: Any, key: Step, value: Any) -> None:
    if isinstance(key, str):
        container[key] = value
    elif key == len(container):
        container.append(value)
    else:
        raise ProtocolError("an array in the arguments of a tool call has a gap")


def _joined(node: Any) -> Any:
    """``node`` with its strings whole; as deep as a path may be long."""
    if isinstance(node, _Text):
        return sanitize("".join(node.pieces))
    if is_object(node):
        return {key: _joined(value) for key, value in node.items()}
    if is_array(node):
        return [_joined(value) for value in node]
    return node

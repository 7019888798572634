"""One call of a tool: whole in one part, or its arguments in pieces (22 sections 4 and 8).

The arguments are JSON text. What the API gave beside a call, a signature above all, is kept with it: the part as it
came, or as it would have come in one piece.
"""

from __future__ import annotations

from typing import Any, Final

from svir_core.errors import ProtocolError
from svir_core.message import Opaque, ToolCall
from svir_core.slow_json import exact_text
from svir_core.wire.gemini.arguments import Arguments
from svir_core.wire.gemini.said import Said
from svir_core.wire.gemini.table import API_NAME, CALL, CALL_KEYS
from svir_core.wire.json_value import Json, is_object

STREAMED: Final = frozenset({"args", "partialArgs", "willContinue"})
"""What a call that came in pieces has in place of its arguments."""


class Fragment:
    """What one part says of a call.

    Attributes:
        said: the part.
        call: its ``functionCall``.
        name, id: as given, or ``None``.
        pieces: pieces of arguments.
        goes_on: whether more of the call follows.

    Raises ``ProtocolError`` for a value of the wrong type: nothing of a call is ignored.
    """

    __slots__ = ("call", "goes_on", "id", "name", "pieces", "said")

    def __init__(self, said: Said) -> None:
        if not is_object(said.fields[CALL]):
            raise ProtocolError("a tool call is not an object")
        self.said = said
        self.call = said.at(CALL)
        fields = self.call.fields
        self.name = _text(fields, "name")
        self.id = _text(fields, "id")
        self.goes_on: bool = _given(fields, "willContinue", bool, False)
        self.pieces: list[Any] = _given(fields, "partialArgs", list, [])
        _given(fields, "args", dict, {})
        if not all(map(is_object, self.pieces)):
            raise ProtocolError("a piece of an argument is not an object")

    @property
    def whole(self) -> bool:
        """Whether it is a call in one part."""
        return self.name is not None and not self.goes_on and not self.pieces

    def arguments(self) -> Json:
        """The arguments in one piece, every number exact; none are ``{}``."""
        return self.call.exact().get("args") or {} if self.call.fields.get("args") else {}


def _given(fields: Json, key: str, kind: type[Any], default: Any) -> Any:
    value = fields.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise ProtocolError(f"the {key} of a tool call is of the wrong type")
    return value


def _text(fields: Json, key: str) -> str | None:
    value = fields.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ProtocolError(f"the {key} of a tool call is not a string")
    return value


class Call:
    """One call of an answer.

    Attributes:
        id: the API's, or ``None`` when it gave none.
        name: the function.
        closed: whether its end came; its arguments are whole only when each of them came to its own.
        arguments: JSON text, once it is closed.
    """

    __slots__ = ("_beside", "_built", "arguments", "closed", "id", "name")

    def __init__(self, first: Fragment, name: str) -> None:
        self.name = name
        self.id: str | None = None
        self.closed = False
        self.arguments = ""
        self._built = Arguments()
        self._beside: Json | None = None
        if first.whole:
            self.id = first.id
            self.closed = True
            self.arguments = exact_text(first.arguments())
            if _has_more(first):
                self._beside = _without(first.said.exact(), STREAMED - {"args"})
        else:
            self.push(first)

    def push(self, piece: Fragment) -> None:
        """Another piece of a call that is not closed."""
        if piece.id is not None and self.id is not None and piece.id != self.id:
            raise ProtocolError("the id of a tool call changed")
        if piece.call.fields.get("args"):
            raise ProtocolError("the arguments of a tool call come both whole and in pieces")
        self.id = self.id or piece.id
        for number in range(len(piece.pieces)):
            self._built.push(piece.call.at("partialArgs", number))
        if _has_more(piece):
            said = _without(piece.said.exact(), STREAMED)
            before = self._beside or {CALL: {}}
            self._beside = {**before, **said, CALL: {**before[CALL], **said[CALL]}}

    def close(self, *, cut: bool = False) -> None:
        """No more of it comes; ``cut`` when it was not whole."""
        self.closed = not cut
        value = self._built.value()
        self.arguments = exact_text(value)
        if self._beside is not None:
            inner = {"id": self.id, "name": self.name, **self._beside[CALL], "args": value}
            self._beside[CALL] = {key: each for key, each in inner.items() if each is not None}

    def part(self, made: str | None, *, certain: bool) -> ToolCall:
        """The call, by the id that was ``made`` for it where it has none; empty arguments are whole only when it is
        ``certain`` that they were to stay so."""
        opaque = None if self._beside is None else Opaque(API_NAME, exact_text(self._beside))
        return ToolCall(
            self.id or made or "",
            self.name,
            self.arguments,
            complete=self.closed and self._built.whole and (certain or self.arguments != "{}"),
            synthetic_id=self.id is None,
            opaque=opaque,
        )


def _has_more(piece: Fragment) -> bool:
    """Whether there is something to send back beside what is read."""
    beside = (value for key, value in piece.said.fields.items() if key != CALL)
    inside = (value for key, value in piece.call.fields.items() if key not in CALL_KEYS)
    return any(value is not None for value in (*beside, *inside))


def _without(part: Json, keys: frozenset[str]) -> Json:
    """The part without these keys of its call."""
    return {**part, CALL: {key: value for key, value in part[CALL].items() if key not in keys}}

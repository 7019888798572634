"""What servers say twice: names and arguments of calls, and texts that grow from delta to delta (11 section C).

Each piece is compared with what was said before only when it is as long, or as whole, as that: linear
time, without parsing what has been assembled again and again.
"""

from __future__ import annotations

from typing import Final

import attrs
import orjson

from svir_core.errors import ProtocolError
from svir_core.event import ToolCallDelta
from svir_core.quirk import Quirk
from svir_core.slow_json import Nesting, read_any, read_exact
from svir_core.wire.json_value import is_object
from svir_core.wire.openai_chat.calls import says_something

DEEP: Final = "[deep]"
"""The spelling of objects that are too deep a nest to be told apart."""


class _Text:
    """A text that comes in pieces."""

    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def add(self, piece: str) -> str:
        self._pieces.append(piece)
        self._length += len(piece)
        return piece

    def whole(self) -> str:
        return "".join(self._pieces)

    def says(self, piece: str) -> bool:
        """Whether ``piece`` is all that was said."""
        return len(piece) == self._length and piece == self.whole()


class _Name(_Text):
    __slots__ = ()

    def new(self, piece: str) -> str | None:
        """``piece``, or ``None`` when it is the name that is known."""
        return None if self.says(piece) else self.add(piece)


class _Arguments(_Text):
    """Arguments, and whether they are a whole JSON object by now."""

    __slots__ = ("_nesting", "_spelled")

    def __init__(self) -> None:
        super().__init__()
        self._nesting: Nesting | None = Nesting()  # until the outermost value closes
        self._spelled: str | None = None  # what closed, in the one spelling that is compared

    def new(self, piece: str) -> str | None:
        """``piece``, or ``None`` when it is the whole object once more.

        Raises ``ProtocolError`` for anything else after a whole object, but blanks.
        """
        if self._nesting is not None:
            if self._nesting.push(piece.encode("utf-8", "replace")) is not None:
                self._nesting = None
            return self.add(piece)
        if not piece.strip():
            return self.add(piece)
        if self._spelled is None:
            self._spelled = _spelled_alike(self.whole())
        if self._spelled == "":
            return self.add(piece)
        if self.says(piece):
            return None
        again = _spelled_alike(piece)
        if again == "" and self._spelled == DEEP:  # no object once more, so nothing to compare it with
            return self.add(piece)
        if again != self._spelled or again == DEEP:
            raise ProtocolError("a tool call's arguments were sent again, and differ")
        return None


def _spelled_alike(text: str) -> str:
    """The JSON object in ``text``, spelled as any equal one; ``""`` when it is none, ``DEEP`` when it is too deep a
    nest to be spelled."""
    if not is_object(read_any(text)):
        return ""
    try:
        return orjson.dumps(read_exact(text), default=attrs.asdict, option=orjson.OPT_SORT_KEYS).decode()
    except (ProtocolError, orjson.JSONEncodeError):
        return DEEP


class CallRepetition:
    """Takes repeated names (``TOOL_NAME_REPEATED``) and arguments (``TOOL_ARGUMENTS_RESENT``) out of calls."""

    __slots__ = ("_arguments", "_arguments_resent", "_names", "_names_repeated")

    def __init__(self, quirks: Quirk) -> None:
        self._names_repeated = Quirk.TOOL_NAME_REPEATED in quirks
        self._arguments_resent = Quirk.TOOL_ARGUMENTS_RESENT in quirks
        self._names: dict[int, _Name] = {}
        self._arguments: dict[int, _Arguments] = {}

    def new(self, pieces: list[ToolCallDelta]) -> list[ToolCallDelta]:
        """What of ``pieces`` was not said before. Raises ``ProtocolError`` for other arguments than before."""
        return [piece for piece in map(self._new, pieces) if says_something(piece)]

    def _new(self, piece: ToolCallDelta) -> ToolCallDelta:
        name, arguments = piece.name, piece.arguments
        if name is not None and self._names_repeated:
            name = self._names.setdefault(piece.index, _Name()).new(name)
        if arguments is not None and self._arguments_resent:
            arguments = self._arguments.setdefault(piece.index, _Arguments()).new(arguments)
        return ToolCallDelta(piece.index, piece.id, name, arguments)


class GrowingTexts:
    """Texts that each delta repeats from their start (``CONTENT_CUMULATIVE``)."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: dict[object, str] = {}

    def new(self, key: object, text: str) -> str:
        """What ``text`` adds to the text known by ``key``. Raises ``ProtocolError`` when it does not repeat that."""
        before = self._said.get(key, "")
        if not text.startswith(before):
            raise ProtocolError("a delta does not repeat the text so far")
        self._said[key] = text
        return text[len(before) :]

"""``reasoning_details``: continuation data that comes in pieces, for the way back (11 section C).

An entry continues the entry of its index and type, unless both have an id and the ids differ. Its ``text``,
``summary`` and ``data`` are joined; of any other key the last value that is not null is kept, so that a
signature may come by itself. Strings are byte-exact, keys keep their order, numbers their value.
Seen on OpenRouter and MiniMax, which want them back on the assistant's message.
"""

from __future__ import annotations

from typing import Any, Final

from svir_core.message import Opaque
from svir_core.slow_json import exact_text
from svir_core.wire.json_value import Json
from svir_core.wire.openai_chat.repetition import GrowingTexts
from svir_core.wire.openai_chat.table import API_NAME

DETAILS: Final = "reasoning_details"
"""The key of a delta and of a message, and the source of the text that is shown."""

JOINED: Final = ("text", "summary", "data")
SHOWN: Final = ("text", "summary")


class _Entry:
    """One entry: its keys, and the pieces of those that are joined."""

    __slots__ = ("_fields", "_pieces")

    def __init__(self) -> None:
        self._fields: Json = {}
        self._pieces: dict[str, list[str]] = {}

    @property
    def id(self) -> Any:
        return self._fields.get("id")

    def add(self, key: str, value: Any) -> None:
        self._fields.setdefault(key, value)
        if key in JOINED and isinstance(value, str):
            self._pieces.setdefault(key, []).append(value)
        elif value is not None:
            self._fields[key] = value

    def whole(self) -> Json:
        return self._fields | {key: "".join(pieces) for key, pieces in self._pieces.items()}


class _Namesakes:
    """The entries of one index and type. Only the first may have no id: it takes whatever has none either, and the
    first id that comes."""

    __slots__ = ("_by_id", "_first")

    def __init__(self) -> None:
        self._first: _Entry | None = None
        self._by_id: dict[str, _Entry] = {}

    def of(self, entry_id: Any) -> _Entry | None:
        """The entry that a piece with this id belongs to."""
        first = self._first
        if first is None or entry_id is None or first.id is None or first.id == entry_id:
            return first
        return self._by_id.get(repr(entry_id))

    def open(self, entry_id: Any) -> _Entry:
        """A further entry."""
        entry = _Entry()
        self._first = self._first or entry
        self._by_id[repr(entry_id)] = entry
        return entry


class Details:
    """The details of one answer.

    Args:
        growing: texts repeat what they said before, when it is given.
    """

    __slots__ = ("_by_name", "_entries", "_growing")

    def __init__(self, growing: GrowingTexts | None) -> None:
        self._growing = growing
        self._entries: list[_Entry] = []
        self._by_name: dict[tuple[str, str], _Namesakes] = {}

    def add(self, piece: Json) -> str:
        """Merge one entry of a delta; the text in it that can be shown."""
        namesakes = self._by_name.setdefault((repr(piece.get("index")), repr(piece.get("type"))), _Namesakes())
        entry = namesakes.of(piece.get("id"))
        if entry is None:
            entry = namesakes.open(piece.get("id"))
            self._entries.append(entry)
        shown = ""
        for key, value in piece.items():
            if key in SHOWN and isinstance(value, str):
                if self._growing is not None:
                    value = self._growing.new((entry, key), value)
                shown += value
            entry.add(key, value)
        return shown

    def opaque(self) -> tuple[Opaque, ...]:
        """The details as a part, if there are any."""
        if not self._entries:
            return ()
        return (Opaque(API_NAME, exact_text({DETAILS: [entry.whole() for entry in self._entries]})),)

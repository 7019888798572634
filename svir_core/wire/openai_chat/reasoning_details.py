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

    def takes(self, piece: Json) -> bool:
        known, other = self._fields.get("id"), piece.get("id")
        return known is None or other is None or known == other

    def add(self, key: str, value: Any) -> None:
        self._fields.setdefault(key, value)
        if key in JOINED and isinstance(value, str):
            self._pieces.setdefault(key, []).append(value)
        elif value is not None:
            self._fields[key] = value

    def whole(self) -> Json:
        return self._fields | {key: "".join(pieces) for key, pieces in self._pieces.items()}


class Details:
    """The details of one answer.

    Args:
        growing: texts repeat what they said before, when it is given.
    """

    __slots__ = ("_by_name", "_entries", "_growing")

    def __init__(self, growing: GrowingTexts | None) -> None:
        self._growing = growing
        self._entries: list[_Entry] = []
        self._by_name: dict[tuple[str, str], list[_Entry]] = {}

    def add(self, piece: Json) -> str:
        """Merge one entry of a delta; the text in it that can be shown."""
        entries = self._by_name.setdefault((repr(piece.get("index")), repr(piece.get("type"))), [])
        entry = next((entry for entry in entries if entry.takes(piece)), None)
        if entry is None:
            entry = _Entry()
            entries.append(entry)
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

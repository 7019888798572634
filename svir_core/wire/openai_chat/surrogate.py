"""Lone surrogates inside deltas, in lenient mode (11 section B): a character whose halves came in two
deltas is joined, any other half becomes U+FFFD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from svir_core.event import ToolCallDelta
from svir_core.json_text import sanitize
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.openai_chat.calls import says_something


class Mender:
    """The first halves that wait for their second.

    Attributes:
        halves: by where they stand: a delta key, or a call's index.
    """

    __slots__ = ("halves",)

    def __init__(self) -> None:
        self.halves: dict[str | int, str] = {}

    def mend(
        self, said: list[tuple[str, str]], pieces: list[ToolCallDelta], raw: Json
    ) -> tuple[list[tuple[str, str]], list[ToolCallDelta]]:
        """What a delta says, its texts by key and its pieces of calls, with the text taken from ``raw``, where lone
        surrogates still stand, and mended."""
        texts = [(key, self._join(key, _string(raw, key) or text)) for key, text in said]
        arguments = _arguments(raw["tool_calls"] if pieces else [])
        mended = [self._piece(piece, arguments) for piece in pieces]
        return [(key, text) for key, text in texts if text], [piece for piece in mended if says_something(piece)]

    def _piece(self, piece: ToolCallDelta, arguments: Iterator[str | None]) -> ToolCallDelta:
        if piece.arguments is None:
            return piece
        text = self._join(piece.index, next(arguments) or piece.arguments)
        return ToolCallDelta(piece.index, piece.id, piece.name, text or None)

    def _join(self, place: str | int, text: str) -> str:
        text = self.halves.pop(place, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self.halves[place] = text[-1]
            text = text[:-1]
        return sanitize(text)


def _string(fields: Json, key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) else None


def _arguments(calls: list[Json]) -> Iterator[str | None]:
    """The arguments of calls that were read already: of each piece that has some, ``None`` for those that are no
    string."""
    values = [_argument(call.get("function")) for call in calls]
    return iter([value if isinstance(value, str) else None for value in values if value is not None and value != ""])


def _argument(function: Any) -> Any:
    return function.get("arguments") if is_object(function) else None

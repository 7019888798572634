"""The event at hand, and the objects in it, in the readings that a block may need (00 section 2, 11 section B)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from svir_core.response import AnomalyCode
from svir_core.slow_json import read_exact, read_without_huge, without_lone_surrogates
from svir_core.wire.json_value import Json
from svir_core.wire.policy import Forgive

Path = tuple[str | int, ...]
"""The keys that lead to an object of the event at hand."""


Reader = Callable[[str], Any]


@attrs.frozen
class Said:
    """A block or a delta, as it came.

    Attributes:
        fields: the object as the fast reader has it.
        raw: the same, lone surrogates still in it; ``fields`` itself when there are none.
        exact: the same once more, every number exact. The block it belongs to may change it: no other asks for it.
        forgive: refuses, or puts on record, what deviates.
    """

    fields: Json
    raw: Json
    exact: Callable[[], Json]
    forgive: Forgive

    def text(self, key: str) -> str:
        """The string at ``key``, lone surrogates still in it; ``null`` and a missing key are ``""``."""
        value = self.raw.get(key)
        if isinstance(value, str):
            return value
        if value is not None:
            self.forgive(AnomalyCode.WRONG_TYPE)
        return ""


class Reading:
    """The event at hand: what was sent, and what the fast reader made of it. Each slow reader reads it once at most,
    however many objects in it need that."""

    __slots__ = ("_again", "_forgive", "_huge", "_payload", "_raw")

    def __init__(self, forgive: Forgive) -> None:
        self._forgive = forgive
        self.take(b"")

    def take(self, payload: bytes, raw: Json | None = None, *, huge: bool = False) -> None:
        """The next event: ``raw`` is the object with its lone surrogates, when it has some; ``huge`` whether it has
        numbers that no float holds."""
        self._payload = payload
        self._raw = raw
        self._huge = huge
        self._again: dict[Reader, Any] = {}

    def said(self, fields: Json, path: Path) -> Said:
        """``fields``, which stand at ``path``."""
        raw = fields if self._raw is None else _at(self._raw, path)
        return Said(fields, raw, partial(self._read, path, read_exact), self._forgive)

    def plain(self, fields: Json, path: Path) -> Json:
        """``fields``, which stand at ``path``, each number that no float holds as its text."""
        return self._read(path, read_without_huge) if self._huge and fields else fields

    def _read(self, path: Path, read: Reader) -> Json:
        if read not in self._again:
            self._again[read] = read(without_lone_surrogates(self._payload.decode("utf-8", "replace")))
        return _at(self._again[read], path)


def _at(value: Any, path: Path) -> Json:
    """What stands at ``path``, where an object is known to stand."""
    for key in path:
        value = value[key]
    found: Json = value
    return found

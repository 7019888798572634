"""One object of a chunk, in the readings that it may need (00 section 2, 11 section B).

The fast reader joins nothing and forgets how large numbers were; a payload is read again, once, only for what needs
it: calls and parts that are kept.
"""

from __future__ import annotations

from typing import Any

from svir_core.response import AnomalyCode
from svir_core.slow_json import read_exact, read_without_huge, without_lone_surrogates
from svir_core.wire.json_value import Json
from svir_core.wire.policy import Forgive

Path = tuple[str | int, ...]


class Reading:
    """A payload.

    Args:
        payload: as it came.
        huge: whether it holds numbers that no float holds.
        forgive: refuses, or puts on record, what deviates.
    """

    __slots__ = ("_exact", "_payload", "forgive", "huge")

    def __init__(self, payload: bytes, *, huge: bool, forgive: Forgive) -> None:
        self._payload = payload
        self._exact: Any = None
        self.huge = huge
        self.forgive = forgive

    def _text(self) -> str:
        return without_lone_surrogates(self._payload.decode("utf-8", "replace"))

    def exact(self) -> Any:
        """Its value, every number exact."""
        if self._exact is None:
            self._exact = read_exact(self._text())
        return self._exact

    def kept(self) -> Any:
        """Its value, a number that no float holds as its text."""
        return read_without_huge(self._text())


class Said:
    """An object of a payload.

    Attributes:
        fields: the object as the fast reader has it.
        raw: the same, lone surrogates still in it; ``fields`` itself when there are none.
        forgive: refuses, or puts on record, what deviates.
    """

    __slots__ = ("_path", "_reading", "fields", "forgive", "raw")

    def __init__(self, fields: Json, raw: Json, reading: Reading, path: Path = ()) -> None:
        self.fields = fields
        self.raw = raw
        self.forgive = reading.forgive
        self._reading = reading
        self._path = path

    def at(self, *path: str | int) -> Said:
        """The object at ``path``, which must be one."""
        fields: Any = self.fields
        raw: Any = self.raw
        for key in path:
            fields, raw = fields[key], raw[key]
        return Said(fields, raw, self._reading, self._path + path)

    def exact(self) -> Json:
        """The object, every number exact. Not to be changed."""
        return self._walk(self._reading.exact())

    def kept(self) -> Json:
        """The object, a number that no float holds as its text."""
        return self._walk(self._reading.kept()) if self._reading.huge else self.fields

    def _walk(self, value: Any) -> Json:
        for key in self._path:
            value = value[key]
        found: Json = value
        return found

    def text(self, key: str) -> str:
        """The string at ``key``, which must be there, lone surrogates still in it; another value is none."""
        value = self.raw[key]
        if isinstance(value, str):
            return value
        self.forgive(AnomalyCode.WRONG_TYPE)
        return ""

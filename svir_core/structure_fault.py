"""What can go wrong when JSON is read into a type, as data: paths and our words, never a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Reader = Callable[[Any], Any]
"""Parsed JSON in, a value of the type out; raises :class:`Misfit`."""


class Unreadable(Exception):
    """The type is nothing that JSON can be read into; ``reason`` follows that in an error, where there is one."""

    def __init__(self, reason: str = "") -> None:
        super().__init__()
        self.reason = f": {reason}" if reason else ""


class Misfit(Exception):
    """The JSON does not fit the type: each fault as the steps that lead to it, and what was expected."""

    def __init__(self, words: str = "", faults: list[tuple[str, str]] | None = None) -> None:
        super().__init__()
        self.faults = [("", words)] if faults is None else faults

    def below(self, step: str) -> list[tuple[str, str]]:
        """The faults as seen from one level higher, ``step`` being the way down (``.name``, ``[3]``)."""
        return [(step + path, words) for path, words in self.faults]

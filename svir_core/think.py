"""Reasoning between markers inside the text (10 section 5).

Outside, only the opening marker is looked for; inside, only the closing one. A marker may be cut
anywhere: what could be the start of one at the end of what has arrived is held back, never more than
one character less than the marker, so that splitting takes linear time and constant memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import attrs

from svir_core.errors import ConfigError

THINK_SOURCE: Final = "think"
"""The ``source`` of reasoning found between markers: it is never sent back (10 section 5)."""

STARTS: Final = ("outside", "inside")


def _start(_instance: object, _attribute: attrs.Attribute[str], value: str) -> None:
    if value not in STARTS:
        raise ConfigError("Think.start must be 'outside' or 'inside'")


def _markers(value: Any) -> tuple[str, str]:
    if isinstance(value, list | tuple):
        markers = tuple(cast(Iterable[Any], value))
        if len(markers) == 2 and all(isinstance(marker, str) and marker for marker in markers):
            return markers
    raise ConfigError("Think.markers must be two strings that are not empty")


@attrs.frozen
class Think:
    """Where reasoning stands inside the text: how the text starts, and the two markers.

    Raises ``ConfigError`` when ``start`` is neither "outside" nor "inside", or a marker is empty.

    Attributes:
        start: "outside", or "inside" for models whose chat template opens the tag in the prompt.
        markers: the opening and the closing marker.
    """

    start: str = attrs.field(default="outside", validator=_start)
    markers: tuple[str, str] = attrs.field(default=("<think>", "</think>"), converter=_markers)


NAMED: Final[Mapping[str, Think | None]] = {"split": Think(), "inside": Think(start="inside"), "keep": None}
"""The values of ``think=`` by name; ``None`` leaves the markers in the text."""


def resolve(value: Think | str) -> Think | None:
    """What ``think=`` means: a ``Think``, or ``None`` for "keep". Any other string is a ``ConfigError``."""
    if isinstance(value, Think):
        return value
    if not isinstance(value, str) or value not in NAMED:
        raise ConfigError("think must be 'split', 'keep', 'inside' or a Think")
    return NAMED[value]


class ThinkSplitter:
    """Splits text that comes in pieces into text and reasoning, the same at any cut.

    Attributes:
        idle: true when outside reasoning with nothing held back: a piece that does not contain
            ``trigger`` is then text as it is, and need not be pushed.
        trigger: the first character of the opening marker.
    """

    __slots__ = ("_close", "_held", "_inside", "_open", "idle", "trigger")

    def __init__(self, think: Think) -> None:
        self._open, self._close = think.markers
        self._inside = think.start == "inside"
        self._held = ""
        self.trigger = self._open[0]
        self.idle = not self._inside

    def push(self, text: str) -> list[tuple[bool, str]]:
        """The pieces that ``text`` completes, in order: (is reasoning, a text that is not empty)."""
        pieces: list[tuple[bool, str]] = []
        buffer = self._held + text
        position = 0
        inside = self._inside
        while True:
            marker = self._close if inside else self._open
            found = buffer.find(marker, position)
            if found < 0:
                break
            if found > position:
                pieces.append((inside, buffer[position:found]))
            position = found + len(marker)
            inside = not inside
        end = len(buffer) - _overlap(buffer, position, marker)
        if end > position:
            pieces.append((inside, buffer[position:end]))
        self._held = buffer[end:]
        self._inside = inside
        self.idle = not inside and not self._held
        return pieces

    def finish(self) -> list[tuple[bool, str]]:
        """What was held back: the text has ended, so it is no marker."""
        held, self._held = self._held, ""
        return [(self._inside, held)] if held else []


def _overlap(buffer: str, position: int, marker: str) -> int:
    """How many characters at the end of ``buffer[position:]``, which has no ``marker``, could be the start of one."""
    for length in range(min(len(marker), len(buffer) - position), 0, -1):
        if buffer.endswith(marker[:length]):
            return length
    return 0

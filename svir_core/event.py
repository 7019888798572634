"""What a decoder says: the events of one answer, and the sequence that carries them (00 sections 2, 3).

Per-token events are slotted but not frozen: a frozen attrs object costs twice as much to make
(60, findings). Treat them as immutable. The union may grow: end a ``match`` with ``case _: pass``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import attrs

from svir_core.errors import SvirError
from svir_core.response import Completion


@attrs.define(unsafe_hash=True)
class TextDelta:
    """A piece of the visible text."""

    text: str


@attrs.define(unsafe_hash=True)
class ReasoningDelta:
    """A piece of reasoning, and where it came from."""

    source: str
    text: str


@attrs.define(unsafe_hash=True)
class ToolCallDelta:
    """A piece of a call, for display: ``None`` where this piece says nothing. Never executable."""

    index: int
    id: str | None
    name: str | None
    arguments: str | None


@attrs.frozen
class Completed:
    """The answer is whole. The only event that carries executable calls; always the last one."""

    completion: Completion


Event = TextDelta | ReasoningDelta | ToolCallDelta | Completed


class Events(Sequence[Event]):
    """The events of one push, then its error: a finished sequence.

    Iterating yields each event in wire order and then raises ``error``, when there is one.
    ``len``, indexing and ``items`` never raise. An error that nobody iterated to is raised by the
    next call on the decoder (``error_seen`` tells it), so it cannot be missed.
    """

    __slots__ = ("_items", "_seen", "error")

    def __init__(self, items: Sequence[Event] = (), error: SvirError | None = None) -> None:
        self._items = items
        self.error = error
        self._seen = error is None

    @property
    def items(self) -> Sequence[Event]:
        """The events alone."""
        return self._items

    @property
    def error_seen(self) -> bool:
        """Whether the error, if there is one, was raised to somebody."""
        return self._seen

    def __iter__(self) -> Iterator[Event]:
        return iter(self._items) if self.error is None else self._then_error()

    def _then_error(self) -> Iterator[Event]:
        yield from self._items
        self.throw()

    def throw(self) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            self._seen = True
            raise self.error.with_traceback(None)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Events):
            return NotImplemented
        return list(self._items) == list(other._items) and self.error == other.error

    def __hash__(self) -> int:
        return hash((tuple(self._items), self.error))

    def __repr__(self) -> str:
        error = "" if self.error is None else f", error={self.error!r}"
        return f"Events({list(self._items)!r}{error})"

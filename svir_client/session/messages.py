"""The messages of a session: added in constant time each, however many there are, and looked at without a lock."""

from __future__ import annotations

from collections.abc import Iterable

from svir_core.message import Message


class Messages:
    """Messages that one thread changes at a time, and any thread may look at meanwhile."""

    __slots__ = ("_changes", "_list", "_seen")

    def __init__(self, messages: tuple[Message, ...]) -> None:
        self._list = list(messages)
        self._changes = 0  # counted after each change: what was seen during one is not taken for what came of it
        self._seen = (0, messages)

    def __len__(self) -> int:
        return len(self._list)

    def seen(self) -> tuple[Message, ...]:
        """All of them, as they are now; the same tuple until they change."""
        changes, seen = self._changes, self._seen
        if seen[0] != changes:
            seen = self._seen = (changes, tuple(self._list))
        return seen[1]

    def add(self, messages: Iterable[Message]) -> None:
        """More of them, at the end."""
        self._list.extend(messages)
        self._changes += 1

    def cut(self, count: int) -> None:
        """Keep the first ``count``."""
        del self._list[count:]
        self._changes += 1

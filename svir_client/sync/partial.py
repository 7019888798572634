"""A typed answer while it is written, for ``for``: what :mod:`svir_client.partial` gives, with its rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from svir_client.partial import ItemsOfAnswer, PartialAnswer
from svir_core.errors import SvirError

if TYPE_CHECKING:
    from typing import Self

    from svir_client.sync.stream import SyncStream

T = TypeVar("T")
Item = TypeVar("Item")


class SyncPartialStream(PartialAnswer[T]):
    """The answer of a :class:`SyncStream` as a ``T`` that is being written: ``for now in stream.partial(T)``.

    The blocking twin of :class:`svir_client.PartialStream`, with its rules.
    """

    __slots__ = ("_stream",)

    def __init__(self, stream: SyncStream, into: type[T]) -> None:
        super().__init__(into)
        self._stream = stream

    def items(self, into: type[Item], *path: str | int) -> SyncPartialItems[Item]:
        """The items of the array at ``path``, each when it is complete: :meth:`svir_client.PartialStream.items`."""
        return SyncPartialItems(self, into, path)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Self:
        try:
            if self._advance():
                return self
        except SvirError:
            raise
        except BaseException:  # as in the stream's own: an event may have been taken
            self._stream._abandon()
            raise
        raise StopIteration

    def _advance(self) -> bool:
        """Read on until there is news; false at the end."""
        while self._error is None:
            events = self._stream._next_read()
            if not events:
                return False
            if self._take(events):
                return True
        raise self._error


class SyncPartialItems(ItemsOfAnswer[Item]):
    """The items of one array of a :class:`SyncPartialStream`, each once, when it is complete."""

    __slots__ = ("_partial",)

    def __init__(self, partial: SyncPartialStream[Any], into: type[Item], path: tuple[str | int, ...]) -> None:
        super().__init__(partial, into, path)
        self._partial = partial

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        while True:
            for item in self._next():
                return item
            next(self._partial)

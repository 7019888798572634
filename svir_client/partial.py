"""A typed answer while it is written: the JSON so far, the items that are complete, and at the end the value
(30 section 2).

Three rules hold for all of it. What was read is never read again: a step costs what its text costs. What an
answer shows while it is written is plain JSON, which no type describes; a ``T`` there is only when the whole was
read strictly. What came before an error is handed over before the error is raised.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

from svir_client.iteration import no_end
from svir_client.parsed import Parsed, parsed, readable
from svir_client.unique import Unique
from svir_core.errors import ConfigError, ProtocolError, SvirError
from svir_core.event import Completed, Event, TextDelta
from svir_core.message import Text
from svir_core.partial_json import PartialJson, spelled
from svir_core.response import Completion, FinishReason, Partial

if TYPE_CHECKING:
    from typing import Self

    from svir_client.stream import Stream

T = TypeVar("T")
Item = TypeVar("Item")


class PartialAnswer(Unique, Generic[T]):
    """What a partial answer has, however its stream is read."""

    __slots__ = ("_error", "_into", "_json", "_parsed", "_pieces")

    def __init__(self, into: type[T]) -> None:
        self._into = readable(into)
        self._json = PartialJson()
        self._pieces: list[str] = []
        self._parsed: Parsed[T] | None = None
        self._error: Exception | None = None

    @property
    def data(self) -> Any:
        """The JSON so far, ``None`` before any: a string as far as it came, a number when it is whole.

        It grows in place: the same objects and arrays each time, and the caller's to read, not to change. Asking joins
        the one string that is still open; ask again after each step.
        """
        return self._json.data

    @property
    def path(self) -> tuple[str | int, ...]:
        """Where ``data`` changed last: the keys and positions that lead there."""
        return self._json.path

    @property
    def text(self) -> str:
        """The answer's text so far, as the model wrote it; asking joins it."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    @property
    def value(self) -> T:
        """The whole answer as a ``T``, read strictly, once; raises the error that iterating raised, or ``ConfigError``
        when the stream was not read to its end."""
        if self._parsed is not None:
            return self._parsed.value
        raise self._error or ConfigError("the stream was not read to its end, so there is no value")

    def _take(self, events: Sequence[Event]) -> bool:
        """Read on with the events of one read; whether there is news. An error waits until that was handed over."""
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        last = events[-1]
        try:
            if text:
                self._pieces.append(text)
                self._json.push(text)
            if isinstance(last, Completed):
                self._end(last.completion)
        except Exception as error:  # noqa: BLE001 - a class of the caller's may raise anything: it is kept and raised
            self._error = self._told(error)
        return self._json.news and bool(text or self._parsed)

    def _told(self, error: Exception) -> Exception:
        """``error`` as it is raised: with what came, when it is ours."""
        if isinstance(error, StopIteration | StopAsyncIteration):
            return no_end(error)
        if isinstance(error, SvirError) and error.partial is None:
            error.partial = Partial((Text(self.text),))
        return error

    def _end(self, completion: Completion) -> None:
        if completion.finish is FinishReason.STOP:
            self._json.finish()
        self._parsed = parsed(completion, self._into)


class ItemsOfAnswer(Unique, Generic[Item]):
    """The items of one array of a partial answer, each once, when it is complete."""

    __slots__ = ("_answer", "_count", "_error", "_into", "_path", "_waiting")

    def __init__(self, answer: PartialAnswer[Any], into: type[Item], path: tuple[str | int, ...]) -> None:
        self._answer = answer
        self._into = readable(into)
        self._path = path
        self._count = 0
        self._waiting: Iterator[Any] = iter(())
        self._error: Exception | None = None

    def _next(self) -> list[Item]:
        """The next item, when it is complete: one or none."""
        if self._error is not None:
            raise self._error
        try:
            for item in self._waiting:
                return [self._read(item)]
            self._waiting = iter(self._answer._json.complete_items(self._path, self._count))
            return [self._read(item) for item in itertools.islice(self._waiting, 1)]
        except Exception as error:  # noqa: BLE001 - as above
            self._error = self._answer._told(error)
        raise self._error

    def _read(self, item: Any) -> Item:
        from svir_core.structure import parse_json  # imported late: most programs never parse

        where = spelled((*self._path, self._count))
        self._count += 1
        try:
            text = orjson.dumps(item).decode()
        except orjson.JSONEncodeError:  # the depth: all else was JSON when it was read
            deep = ProtocolError(f"the answer at {where}: nested too deep")
        else:
            return parse_json(text, self._into, what=f"the answer at {where}")
        raise deep


class PartialStream(PartialAnswer[T]):
    """The answer of a :class:`Stream` as a ``T`` that is being written: ``async for now in stream.partial(T)``.

    Iterating reads the stream on, and gives this object once for every read that had something to show. Text that
    is not JSON, a code fence around it too, raises ``ProtocolError`` that names the character, as soon as it came; so
    does an answer at its end that finished otherwise than with ``stop``, or does not fit ``T``. What came is on
    ``.partial`` of the error. Errors of the stream are raised as it raises them, and what a class raises
    that is no ``ValueError``, ``TypeError`` or ``AssertionError`` (a fault of that class) as it is; iterating on, and
    ``value``, raise the same error again.
    """

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream, into: type[T]) -> None:
        super().__init__(into)
        self._stream = stream

    def items(self, into: type[Item], *path: str | int) -> PartialItems[Item]:
        """The items of the array at ``path``, each as an ``Item`` as soon as it is complete.

        It reads this answer on. It ends with the stream: no array, or ``null``, at ``path`` has no items. Raises
        ``ConfigError`` for a type that JSON cannot be read into; iterating raises ``ProtocolError`` when something else
        stands at ``path``, or an item does not fit.
        """
        return PartialItems(self, into, path)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Self:
        while self._error is None:
            events = await self._stream._next_read()
            if not events:
                raise StopAsyncIteration
            if self._take(events):
                return self
        raise self._error


class PartialItems(ItemsOfAnswer[Item]):
    """The items of one array of a :class:`PartialStream`, each once, when it is complete."""

    __slots__ = ("_partial",)

    def __init__(self, partial: PartialStream[Any], into: type[Item], path: tuple[str | int, ...]) -> None:
        super().__init__(partial, into, path)
        self._partial = partial

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while True:
            for item in self._next():
                return item
            await anext(self._partial)

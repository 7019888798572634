"""What a model's function gives, as events that are asked for one by one.

Two rules hold for all of them. One step at a time: the next is asked for when somebody reads, so a function is never
ahead of its reader. What was given is closed when nobody reads any more, also in the middle of a step.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, cast

import anyio.lowlevel

from svir_client.deltas import deltas
from svir_client.tools.thread import in_thread, outcome
from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.event import Completed, Event
from svir_core.message import Text
from svir_core.request import Request
from svir_core.response import Completion, FinishReason

ModelAnswer = Completion | str | Iterable[Event] | AsyncIterable[Event]
"""The whole answer, its text alone, or its events: ready, or made as they are read."""

ModelFunction = Callable[[Request], ModelAnswer | Awaitable[ModelAnswer]]
"""From a request to its answer; async or not, a generator of events too."""

END: Final = object()
"""There are no more events. No event of a function can be this."""


class EventSource(Protocol):
    """Events that are asked for one by one."""

    async def next(self) -> object:
        """The next one, unchecked; ``END`` after the last. Raises what the function's own code does."""
        ...

    async def aclose(self) -> None:
        """Close what the function gave; once, and not during :meth:`next` in this task."""
        ...


async def events_of(function: ModelFunction, request: Request) -> EventSource:
    """The events of what ``function`` gives for ``request``; raises what it raises, and ``ConfigError`` when that is
    no answer."""
    answer: Any
    if inspect.isasyncgenfunction(function):
        answer = function(request)
    else:
        answer = await outcome(functools.partial(function, request))
    if isinstance(answer, str):
        answer = Completion(FinishReason.STOP, [Text(answer)] if answer else [])
    if isinstance(answer, Completion):
        answer = (*deltas(answer.parts), Completed(answer))
    for kind, source in SOURCES:
        if isinstance(answer, kind):
            return source(answer)
    raise ConfigError(
        f"a model's function gives a Completion, a text or events, not {an(type(cast('object', answer)))}"
    )


class _Ready:
    """Events that are all there: nothing is waited for, and nothing has to be closed."""

    def __init__(self, events: Iterable[Any]) -> None:
        self._events: Iterator[Any] = iter(events)

    async def next(self) -> object:
        await anyio.lowlevel.checkpoint()
        return next(self._events, END)

    async def aclose(self) -> None:
        pass


class _Awaited:
    """Events of an async iterator, in the task that reads."""

    def __init__(self, events: AsyncIterable[Any]) -> None:
        self._events: AsyncIterator[Any] = aiter(events)

    async def next(self) -> object:
        return await anext(self._events, END)

    async def aclose(self) -> None:
        close: Callable[[], Awaitable[object]] | None = getattr(self._events, "aclose", None)
        if close is not None:
            await close()


class _Stepped:
    """Events of an iterator that may block: each step is made in a worker thread, one after the other."""

    def __init__(self, events: Iterable[Any]) -> None:
        self._events: Iterator[Any] = iter(events)
        self._lock = threading.Lock()
        self._stepping = False
        self._closed = False

    async def next(self) -> object:
        self._stepping = True
        return await in_thread(lambda: next(self._events, END), self._stepped)

    def _stepped(self) -> None:
        with self._lock:
            self._stepping = False
            left = self._closed
        if left:
            self._close()

    async def aclose(self) -> None:
        with self._lock:
            self._closed = True
            stepping = self._stepping
        if not stepping:  # else the thread closes it after its step, for which nobody waits
            await in_thread(self._close)

    def _close(self) -> None:
        close: Callable[[], object] | None = getattr(self._events, "close", None)
        if close is not None:
            close()


SOURCES: Final[tuple[tuple[type, Callable[[Any], EventSource]], ...]] = (
    (AsyncIterable, _Awaited),
    (Sequence, _Ready),
    (Iterable, _Stepped),
)
"""How what a function gave is asked for its events: the first type that it is of."""

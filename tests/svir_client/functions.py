"""Functions as models in every form, and what the tests ask of them."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import AsyncClient
from svir_client.function_model import ModelFunction
from svir_core.event import Completed, Event, Events, TextDelta
from svir_core.message import Text
from svir_core.request import Request
from svir_core.response import Completion, Timing, Usage
from tests.svir_client.chat import REQUEST

HELLO = Completion("stop", [Text("Hello")], Usage(3, 2, 5), Timing(0.5, 1.5, 2.0, 2), "mine", "answer-1")
HEL, LO, WHOLE = TextDelta("Hel"), TextDelta("lo"), Completed(HELLO)
EVENTS: list[Event] = [HEL, LO, WHOLE]


class Once:
    """An iterator of events that is no generator, and cannot be closed."""

    def __init__(self) -> None:
        self._events = iter(EVENTS)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)


class OnceAsync:
    """The same, async."""

    def __init__(self) -> None:
        self._events = iter(EVENTS)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        for event in self._events:
            return event
        raise StopAsyncIteration


async def of_completion(request: Request) -> Completion:
    return HELLO


async def of_text(request: Request) -> str:
    return "Hello"


async def of_list(request: Request) -> list[Event]:
    return list(EVENTS)


async def of_sequence(request: Request) -> Events:
    return Events(EVENTS)


async def of_generator(request: Request) -> AsyncGenerator[Event]:
    return async_generator(request)


async def of_iterator(request: Request) -> Iterator[Event]:
    return Once()


async def of_async_iterator(request: Request) -> AsyncIterator[Event]:
    return OnceAsync()


async def async_generator(request: Request) -> AsyncGenerator[Event]:
    for event in EVENTS:
        await anyio.lowlevel.checkpoint()
        yield event


def generator(request: Request) -> Iterator[Event]:
    yield from EVENTS


def blocking(request: Request) -> Completion:
    return HELLO


def blocking_then_awaited(request: Request) -> Coroutine[Any, Any, str]:
    return of_text(request)


class Answering:
    async def __call__(self, request: Request) -> Completion:
        return HELLO


FUNCTIONS: dict[str, ModelFunction] = {
    "a completion": of_completion,
    "a text": of_text,
    "a list": of_list,
    "events": of_sequence,
    "an async generator that is returned": of_generator,
    "an iterator": of_iterator,
    "an async iterator": of_async_iterator,
    "an async generator": async_generator,
    "a generator": generator,
    "a blocking function": blocking,
    "a function that gives something to await": blocking_then_awaited,
    "an object": Answering(),
    "a partial": functools.partial(async_generator),
    "a lambda": lambda request: HELLO,
}


async def events_of(client: AsyncClient, request: Request = REQUEST) -> list[Event]:
    async with client.stream(request) as stream:
        return [event async for event in stream]


async def raised(awaited: Awaitable[object]) -> Exception:
    """What ``awaited`` raises, whatever it is."""
    try:
        await awaited
    except Exception as error:  # noqa: BLE001 - the caller judges it
        return error
    pytest.fail("nothing was raised")


async def forever(request: Request) -> AsyncGenerator[Event]:
    yield HEL
    await anyio.sleep_forever()


async def never(request: Request) -> str:
    await anyio.sleep_forever()
    raise AssertionError


async def stream_all(client: AsyncClient) -> None:
    await events_of(client)


async def complete(client: AsyncClient) -> None:
    await client.complete(REQUEST)


async def send(client: AsyncClient) -> None:
    async with client.send(REQUEST) as raw:
        async for _ in raw:
            await anyio.lowlevel.checkpoint()

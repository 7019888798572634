"""A function as a model: what is closed, and when."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import AsyncClient, FunctionModel, Stream
from svir_client.function_model import ModelFunction
from svir_client.function_model import transport as function_transport
from svir_client.testing import cancelled_at_every_await
from svir_core.errors import ConfigError, ResponseTimeoutError
from svir_core.event import Event, TextDelta
from svir_core.message import Text
from svir_core.request import Request
from svir_core.response import Completion, Partial
from tests.svir_client.chat import REQUEST, SECONDS, until
from tests.svir_client.functions import EVENTS, HEL, HELLO, LO, WHOLE, complete, forever, never, send, stream_all

pytestmark = pytest.mark.anyio


class Spied:
    """An endless answer, by an async generator or one of a thread, that tells how far it is."""

    def __init__(self) -> None:
        self.given = 0
        self.closed = 0
        self.ended = threading.Event()

    async def awaited(self, request: Request) -> AsyncGenerator[Event]:
        try:
            while True:
                await anyio.lowlevel.checkpoint()
                self.given += 1
                yield TextDelta("a")
        finally:
            await anyio.lowlevel.checkpoint()  # a cleanup may wait, in a call that was cancelled too
            self.closed += 1
            self.ended.set()

    def stepped(self, request: Request) -> Iterator[Event]:
        try:
            while True:
                self.given += 1
                yield TextDelta("a")
        finally:
            self.closed += 1
            self.ended.set()


@pytest.mark.parametrize("way", ["awaited", "stepped"])
@pytest.mark.parametrize("call", ["stream", "send", "text"])
async def test_leaving_the_block_closes_the_answer_at_once(way: str, call: str) -> None:
    spied = Spied()
    client = FunctionModel(getattr(spied, way))
    with anyio.fail_after(SECONDS):
        async with client.send(REQUEST) if call == "send" else client.stream(REQUEST) as response:
            async for _ in response.text() if call == "text" and isinstance(response, Stream) else response:
                if spied.given >= 3:
                    break
            assert spied.closed == 0
    assert (spied.given, spied.closed) == (3, 1)


@pytest.mark.parametrize("way", ["awaited", "stepped"])
async def test_a_function_is_never_ahead_of_its_reader(way: str) -> None:
    spied = Spied()
    with anyio.fail_after(SECONDS):
        async with FunctionModel(getattr(spied, way)).stream(REQUEST) as stream:
            for number in range(1, 5):
                await anext(stream)
                assert spied.given == number


async def test_after_the_answer_no_more_is_asked_for() -> None:
    steps: list[str] = []

    async def model(request: Request) -> AsyncGenerator[Event]:
        try:
            yield WHOLE
            steps.append("asked for more")
        finally:
            steps.append("closed")

    assert await FunctionModel(model).complete(REQUEST) == HELLO
    assert steps == ["closed"]


async def test_what_a_cleanup_raises_is_raised() -> None:
    async def model(request: Request) -> AsyncGenerator[Event]:
        try:
            yield HEL
        finally:
            raise KeyError("cleanup")

    with pytest.raises(KeyError, match="cleanup"):
        async with FunctionModel(model).stream(REQUEST) as stream:
            await anext(stream)


async def test_a_cleanup_has_one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_transport, "CLOSE_SECONDS", 0.01)
    ended: list[str] = []

    async def model(request: Request) -> AsyncGenerator[Event]:
        try:
            yield HEL
        finally:
            try:
                await anyio.sleep_forever()
            finally:
                ended.append("cut")

    with anyio.fail_after(SECONDS):
        async with FunctionModel(model).stream(REQUEST) as stream:
            await anext(stream)
    assert ended == ["cut"]


@pytest.mark.parametrize("whole", [True, False])
async def test_silence_is_a_timeout(whole: bool) -> None:
    client = FunctionModel(never if whole else forever, idle_timeout=0.01)
    with anyio.fail_after(SECONDS), pytest.raises(ResponseTimeoutError, match=r"for 0\.01 s") as caught:
        await client.complete(REQUEST)
    assert caught.value.partial == (None if whole else Partial((Text("Hel"),)))
    with anyio.fail_after(SECONDS), pytest.raises(ResponseTimeoutError, match=r"for 0\.02 s"):
        await FunctionModel(never if whole else forever).complete(REQUEST, idle_timeout=0.02)


@pytest.mark.parametrize("waiting", [True, False])
@pytest.mark.parametrize("by", ["stream", "client"])
async def test_who_reads_what_is_closed_is_told_so(by: str, waiting: bool) -> None:
    closed: list[str] = []

    async def model(request: Request) -> AsyncGenerator[Event]:
        try:
            yield HEL
            await anyio.sleep_forever()
        finally:
            closed.append("closed")

    client = FunctionModel(model)
    with anyio.fail_after(SECONDS):
        async with client.stream(REQUEST) as stream:
            await anext(stream)

            async def read() -> None:
                with pytest.raises(ConfigError, match="closed"):
                    await anext(stream)

            async with anyio.create_task_group() as group:
                if waiting:
                    group.start_soon(read)
                    await anyio.wait_all_tasks_blocked()
                await (stream.aclose() if by == "stream" else client.aclose())
                if not waiting:
                    await read()
    assert closed == ["closed"]


async def test_a_client_that_is_closed_ends_a_call_that_waits_for_its_function() -> None:
    client = FunctionModel(never)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:

            async def call() -> None:
                with pytest.raises(ConfigError, match="closed"):
                    await client.complete(REQUEST)

            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            await client.aclose()


@pytest.mark.parametrize("step", ["call", "events"])
async def test_a_function_may_close_its_own_client(step: str) -> None:
    async def call(request: Request) -> str:
        await client.aclose()
        return "Hello"

    async def events(request: Request) -> AsyncGenerator[Event]:
        yield HEL
        await client.aclose()
        yield LO

    client = FunctionModel(call if step == "call" else events)
    with anyio.fail_after(SECONDS), pytest.raises(ConfigError, match="closed"):
        await client.complete(REQUEST)


async def test_a_call_of_another_event_loop_is_left_alone() -> None:
    client = FunctionModel(forever)
    read = threading.Event()
    closed = threading.Event()

    async def elsewhere() -> None:
        async with client.stream(REQUEST) as stream:
            await anext(stream)
            read.set()
            closed.wait(SECONDS)
            with anyio.move_on_after(0.01) as scope:
                await anext(stream)
            assert scope.cancelled_caught  # it waited, and was told nothing

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, functools.partial(anyio.run, elsewhere))
            await anyio.to_thread.run_sync(read.wait, SECONDS)
            await client.aclose()
            closed.set()


async def test_a_step_that_blocks_is_abandoned_and_the_answer_closed_after_it() -> None:
    go = threading.Event()
    closed = threading.Event()
    steps: list[str] = []

    def model(request: Request) -> Iterator[Event]:
        try:
            yield HEL
            steps.append("blocks")
            go.wait(SECONDS)
            yield LO
            steps.append("asked for more")
        finally:
            closed.set()

    with anyio.fail_after(SECONDS):
        async with FunctionModel(model).stream(REQUEST) as stream:
            await anext(stream)
            async with anyio.create_task_group() as group:

                async def read() -> None:
                    await anext(stream)

                group.start_soon(read)
                await until(lambda: bool(steps))
                group.cancel_scope.cancel()
        assert not closed.is_set()
        go.set()
        assert await anyio.to_thread.run_sync(closed.wait, SECONDS)
    assert steps == ["blocks"]


@pytest.mark.parametrize("call", [stream_all, complete, send])
@pytest.mark.parametrize("way", ["awaited", "stepped", "called", "blocking"])
async def test_cancelled_at_any_await(way: str, call: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    """Whatever the function gave is closed, once, and no response is left open."""
    begun: list[None] = []
    ended: list[None] = []

    async def awaited(request: Request) -> AsyncGenerator[Event]:
        begun.append(None)
        try:
            for event in EVENTS:
                await anyio.lowlevel.checkpoint()
                yield event
        finally:
            try:
                await anyio.lowlevel.checkpoint()
            finally:
                ended.append(None)

    def stepped(request: Request) -> Iterator[Event]:
        begun.append(None)
        try:
            yield from EVENTS
        finally:
            ended.append(None)

    async def called(request: Request) -> Completion:
        begun.append(None)
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            ended.append(None)
        return HELLO

    def blocking(request: Request) -> Completion:
        begun.append(None)
        ended.append(None)
        return HELLO

    functions: dict[str, ModelFunction] = {
        "awaited": awaited,
        "stepped": stepped,
        "called": called,
        "blocking": blocking,
    }

    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        begun.clear()
        ended.clear()
        with anyio.fail_after(SECONDS):
            async with FunctionModel(functions[way]) as client:
                yield call(client)
                await until(lambda: len(begun) == len(ended))  # a thread that was left ends by itself
            assert len(begun) <= 1

    assert await cancelled_at_every_await(attempt) >= 2

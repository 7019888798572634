"""``StopAsyncIteration`` out of a user's own code ends no iteration: it is told, as a ``RuntimeError``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import attrs
import pytest

import svir_client.sync
from svir_client import Client, FunctionModel, Next, Session, Stream, Tools, generate, generate_stream, wrap
from svir_client.tools import ToolContext
from svir_core import Event, Request, Role, Tool, ToolCall, ToolResult
from tests.svir_client.chat import REQUEST, SECONDS
from tests.svir_client.generation.generations import asks, call

ENDS: list[type[Exception]] = [StopAsyncIteration, StopIteration]


async def asking(request: Request) -> Any:
    return "done" if request.messages[-1].role is Role.TOOL else asks(call("c"))


def by_function(error: type[Exception]) -> tuple[FunctionModel, Any]:
    async def function(request: Request) -> str:
        raise error

    return FunctionModel(function), None


def by_blocking_function(error: type[Exception]) -> tuple[FunctionModel, Any]:
    def function(request: Request) -> str:
        raise error

    return FunctionModel(function), None


def by_layer(error: type[Exception]) -> tuple[FunctionModel, Any]:
    @wrap
    async def layer(request: Request, next: Next) -> Stream:
        raise error

    return FunctionModel(asking, layers=[layer]), None


def by_inspector(error: type[Exception]) -> tuple[FunctionModel, Any]:
    def inspector(event: Event) -> None:
        raise error

    @wrap
    async def layer(request: Request, next: Next) -> Stream:
        stream = await next(request)
        stream.inspect(inspector)
        return stream

    return FunctionModel(asking, layers=[layer]), None


class Box:
    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def tools(self) -> tuple[Tool, ...]:
        return (Tool("f", "d"),)

    async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
        raise self.error


def by_toolbox(error: type[Exception]) -> tuple[FunctionModel, Any]:
    return FunctionModel(asking), Box(error)


def by_who_is_told(error: type[Exception]) -> tuple[FunctionModel, Any]:
    def told(raised: Exception) -> None:
        raise error

    tools = Tools(on_error=told)

    @tools.tool
    async def f() -> str:
        raise ValueError

    return FunctionModel(asking), tools


Makes = Callable[[type[Exception]], tuple[FunctionModel, Any]]
OF_A_CALL: list[Makes] = [by_function, by_blocking_function, by_layer, by_inspector]
ALL: list[Makes] = [*OF_A_CALL, by_toolbox, by_who_is_told]


async def raised(work: Callable[[], Awaitable[object]], error: type[Exception]) -> None:
    with anyio.fail_after(SECONDS), pytest.raises(RuntimeError) as caught:
        await work()
    assert isinstance(caught.value.__cause__, error)


@pytest.mark.anyio
@pytest.mark.parametrize("error", ENDS)
@pytest.mark.parametrize("make", OF_A_CALL)
async def test_a_stream_is_not_ended_by_it(make: Makes, error: type[Exception]) -> None:
    client, _ = make(error)

    async def read() -> None:
        async with client.stream(REQUEST) as stream:
            async for _ in stream:
                pass

    async def whole() -> None:
        await client.complete(REQUEST)

    await raised(read, error)
    await raised(whole, error)


@pytest.mark.anyio
@pytest.mark.parametrize("error", ENDS)
@pytest.mark.parametrize("make", ALL)
async def test_a_generation_is_not_ended_by_it(make: Makes, error: type[Exception]) -> None:
    client, tools = make(error)
    session = Session()

    async def read() -> None:
        async with generate_stream(client, session, "hi", model="m", tools=tools) as run:
            async for _ in run:
                pass

    await raised(read, error)
    assert session.suspended is not None
    assert not session.in_use
    await raised(lambda: generate(client, session, "hi", model="m", tools=tools), error)
    assert not session.in_use


@pytest.mark.parametrize("error", ENDS)
@pytest.mark.parametrize("make", OF_A_CALL)
def test_a_blocking_stream_is_not_ended_by_it(make: Makes, error: type[Exception]) -> None:
    client, _ = make(error)
    with pytest.raises(RuntimeError) as caught, Client(client).stream(REQUEST) as stream:
        for _ in stream:
            pass
    assert isinstance(caught.value.__cause__, error)


@pytest.mark.parametrize("error", ENDS)
@pytest.mark.parametrize("make", ALL)
def test_a_blocking_generation_is_not_ended_by_it(make: Makes, error: type[Exception]) -> None:
    client, tools = make(error)
    session = Session()
    run = svir_client.sync.generate_stream(Client(client), session, "hi", model="m", tools=tools)
    with pytest.raises(RuntimeError) as caught, run:
        for _ in run:
            pass
    assert isinstance(caught.value.__cause__, error)
    assert not session.in_use


def answer_of(error: type[Exception]) -> tuple[FunctionModel, type[Any]]:
    @attrs.frozen
    class Fussy:
        name: str

        def __attrs_post_init__(self) -> None:
            raise error

    async def function(request: Request) -> str:
        return '{"name": "x"}' if request.model == "one" else '[{"name": "x"}]'

    return FunctionModel(function), Fussy


@pytest.mark.anyio
@pytest.mark.parametrize("error", ENDS)
async def test_a_class_that_is_read_into_ends_no_answer(error: type[Exception]) -> None:
    client, fussy = answer_of(error)

    async def whole() -> None:
        async with client.stream(REQUEST.replace(model="one")) as stream:
            async for _ in stream.partial(fussy):
                pass

    async def items() -> None:
        async with client.stream(REQUEST.replace(model="many")) as stream:
            async for _ in stream.partial(list[Any]).items(fussy):
                pass

    await raised(whole, error)
    await raised(items, error)


@pytest.mark.parametrize("error", ENDS)
def test_a_class_that_is_read_into_ends_no_blocking_answer(error: type[Exception]) -> None:
    client, fussy = answer_of(error)
    with pytest.raises(RuntimeError) as whole, Client(client).stream(REQUEST.replace(model="one")) as stream:
        for _ in stream.partial(fussy):
            pass
    with pytest.raises(RuntimeError) as items, Client(client).stream(REQUEST.replace(model="many")) as stream:
        for _ in stream.partial(list[Any]).items(fussy):
            pass
    assert isinstance(whole.value.__cause__, error)
    assert isinstance(items.value.__cause__, error)

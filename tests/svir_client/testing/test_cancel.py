"""The walker: it cancels at each await of a call, those of the tasks that the call starts included."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client.testing import cancelled_at_every_await

pytestmark = pytest.mark.anyio


async def walked(work: Any, beside: Any = None) -> tuple[int, Counter[str]]:
    """How many awaits ``work(step)`` has, and how often each named step of it was cancelled."""
    cancelled: Counter[str] = Counter()

    async def step(name: str) -> None:
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            cancelled[name] += 1
            raise

    @asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        async with anyio.create_task_group() as group:
            if beside is not None:
                group.start_soon(beside, step)
            yield work(step)

    with anyio.fail_after(10):
        return await cancelled_at_every_await(attempt), cancelled


async def test_every_await_is_cancelled_once() -> None:
    async def work(step: Any) -> None:
        for number in range(4):
            await step(str(number))

    assert await walked(work) == (4, Counter("0123"))


async def test_the_awaits_of_child_tasks_count() -> None:
    async def child(step: Any, name: str) -> None:
        for number in range(3):
            await step(f"{name}{number}")

    async def work(step: Any) -> None:
        await step("before")
        async with anyio.create_task_group() as group:
            group.start_soon(child, step, "child")
            group.start_soon(child, step, "other")
        await step("after")

    awaits, cancelled = await walked(work)
    assert awaits >= 8
    assert cancelled.keys() == {"before", "after", *(f"{name}{n}" for name in ("child", "other") for n in range(3))}


async def test_tasks_that_the_call_did_not_start_are_let_alone() -> None:
    async def work(step: Any) -> None:
        await step("call")

    async def beside(step: Any) -> None:
        for _ in range(5):
            await step("beside")

    assert await walked(work, beside) == (1, Counter(["call"]))


async def test_what_a_call_raises_comes_through() -> None:
    async def work() -> None:
        await anyio.lowlevel.checkpoint()
        raise LookupError("mine")

    @asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        yield work()

    with pytest.raises(LookupError, match="mine"):
        await cancelled_at_every_await(attempt)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_task_factory_of_the_loop_is_used_and_put_back() -> None:
    loop = asyncio.get_running_loop()
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Future[Any]:
        made.append("task")
        return asyncio.Task(work, loop=loop, **options)

    async def work(step: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(step, "child")

    loop.set_task_factory(factory)
    try:
        _, cancelled = await walked(work)
        assert loop.get_task_factory() is factory
    finally:
        loop.set_task_factory(None)
    assert made
    assert cancelled["child"]

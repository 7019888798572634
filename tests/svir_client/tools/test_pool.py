"""Calls at once: the bound, the order, cancellation, and what is raised."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import ToolContext, Tools, call_all
from svir_client.testing import cancelled_at_every_await
from svir_core import ConfigError, Tool, ToolCall, ToolResult

pytestmark = pytest.mark.anyio


def calls(count: int, name: str = "f") -> list[ToolCall]:
    return [ToolCall(f"c{number}", name, f'{{"number": {number}}}') for number in range(count)]


async def test_a_sliding_pool_in_the_order_asked() -> None:
    tools = Tools()
    running: set[int] = set()
    most = 0
    ends = [anyio.Event() for _ in range(6)]
    began: list[int] = []

    @tools.tool
    async def f(number: int) -> int:
        nonlocal most
        running.add(number)
        began.append(number)
        most = max(most, len(running))
        await ends[number].wait()
        running.remove(number)
        return number

    results: list[tuple[ToolResult, ...]] = []

    async def run() -> None:
        results.append(await tools.call_all(calls(6), limit=2))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            for number in (1, 2, 3, 4, 5):  # the first is slow, and holds nobody up but itself
                assert 0 in running
                ends[number].set()
                await anyio.wait_all_tasks_blocked()
            ends[0].set()
    assert results == [tuple(ToolResult(f"c{number}", str(number)) for number in range(6))]
    assert (began, most) == ([0, 1, 2, 3, 4, 5], 2)


async def test_a_toolbox_of_the_callers_own() -> None:
    class Box:
        def tools(self) -> tuple[Tool, ...]:
            return (Tool("f"),)

        async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
            assert context is not None
            return ToolResult(call.id, f"{call.name} in {context.session_id}")

    tools = Tools()
    tools.include(Box())
    context = ToolContext(session_id="s")
    with anyio.fail_after(10):
        alone = await call_all(Box(), calls(2), context=context)
        included = await tools.call_all(calls(2), context=context)
    assert alone == included == (ToolResult("c0", "f in s"), ToolResult("c1", "f in s"))
    assert tools.tools() == Box().tools()


async def test_one_after_the_other() -> None:
    tools = Tools()
    told: list[tuple[str, int]] = []

    @tools.tool
    async def f(number: int) -> None:
        told.append(("begins", number))
        await anyio.lowlevel.checkpoint()
        told.append(("ends", number))

    with anyio.fail_after(10):
        await tools.call_all(calls(4), limit=1)
    assert told == [(what, number) for number in range(4) for what in ("begins", "ends")]


async def test_no_calls_and_calls_with_one_id() -> None:
    tools = Tools()

    @tools.tool
    def f(number: int) -> int:
        return number

    assert await tools.call_all([]) == ()
    same = [ToolCall("same", "f", f'{{"number": {number}}}') for number in range(3)]
    assert await call_all(tools, iter(same)) == tuple(ToolResult("same", str(number)) for number in range(3))


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ([1], {}),
        (None, {}),
        (5, {}),
        (ToolCall("c", "f", ""), {}),
        ("f", {}),
        ([], {"limit": 0}),
        ([], {"limit": True}),
        ([], {"limit": 1.5}),
    ],
)
async def test_wrong_arguments(asked: Any, options: Any) -> None:
    with pytest.raises(ConfigError):
        await Tools().call_all(asked, **options)


async def test_cancellation_cancels_all_and_begins_no_other() -> None:
    tools = Tools()
    release = threading.Event()
    began: list[int] = []
    ended: list[int] = []

    @tools.tool
    async def f(number: int) -> None:
        began.append(number)
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(number)

    @tools.tool
    def g(number: int) -> None:
        began.append(number)
        release.wait(10)

    with anyio.fail_after(10):
        for name, limit in (("f", 2), ("g", 3)):
            began.clear()
            with anyio.move_on_after(0.05) as scope:
                await tools.call_all(calls(5, name), limit=limit)
            assert scope.cancelled_caught
            assert sorted(began) == list(range(limit))
    release.set()
    assert sorted(ended) == [0, 1]


async def test_cancelled_at_every_await_it_leaves_nothing_behind() -> None:
    tools = Tools()
    inside = 0

    @tools.tool(serial=True)
    async def f(number: int, context: ToolContext) -> int:
        nonlocal inside
        inside += 1
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            inside -= 1
        return number

    @tools.tool(serial=True)
    def g(number: int) -> int:
        return number

    @asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object], None]:
        yield tools.call_all([*calls(2), *calls(2, "g")])
        assert inside == 0

    with anyio.fail_after(60):
        assert await cancelled_at_every_await(attempt) > 4
        results = await tools.call_all([*calls(3), *calls(3, "g")])
    assert [result.content for result in results] == ["0", "1", "2"] * 2


async def test_the_first_that_is_no_failure_of_a_tool_is_raised_alone_and_the_others_are_cancelled() -> None:
    tools = Tools()
    cancelled: list[int] = []

    @tools.tool
    async def f(number: int) -> None:
        if number == 1:
            raise KeyboardInterrupt(number)
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(number)
            raise

    with anyio.fail_after(10), pytest.raises(KeyboardInterrupt) as caught:
        await tools.call_all(calls(4))
    assert caught.value.args == (1,)
    assert set(cancelled) <= {0, 2, 3}
    assert 0 in cancelled


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_nobody_asked_for_is_no_missing_result(anyio_backend: str) -> None:
    assert anyio_backend == "asyncio"  # trio lets nobody make one

    class Box:
        def tools(self) -> tuple[Tool, ...]:
            return ()

        async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
            raise asyncio.CancelledError

    with anyio.fail_after(10), pytest.raises(asyncio.CancelledError):
        await call_all(Box(), calls(2))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_of_a_tools_own_that_was_cancelled_is_a_failure_of_the_tool(anyio_backend: str) -> None:
    assert anyio_backend == "asyncio"  # trio lets nobody make one
    heard: list[Exception] = []
    tools = Tools(on_error=heard.append)

    @tools.tool
    async def f(number: int) -> int:
        inner = asyncio.create_task(asyncio.sleep(60))
        if number == 0:
            inner.cancel()
            await inner
        inner.cancel()
        return number

    with anyio.fail_after(10):
        results = await tools.call_all(calls(2))
    assert [result.content for result in results] == ["tool 'f' failed", "1"]
    assert len(heard) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_asyncio_cancels_is_cancelled(anyio_backend: str) -> None:
    assert anyio_backend == "asyncio"
    tools = Tools()
    began = anyio.Event()

    @tools.tool
    async def f(number: int) -> None:
        began.set()
        await anyio.sleep_forever()

    task = asyncio.create_task(tools.call(calls(1)[0]))
    with anyio.fail_after(10):
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


ENDS = """
import threading
import anyio
from svir_client import Tools
from svir_core import ToolCall
tools = Tools()
tools.add(lambda: threading.Event().wait(), name="never", timeout=0.05)
async def main():
    print((await tools.call_all([ToolCall("c", "never", "{}")] * 50, limit=50))[49].content)
anyio.run(main, backend=BACKEND)
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_process_ends_though_a_tool_never_returns(backend: str) -> None:
    program = ENDS.replace("BACKEND", repr(backend))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "tool 'never' did not end within 0.05 s"
    assert done.stderr == ""

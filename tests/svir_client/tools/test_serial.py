"""A serial tool never overlaps itself: in tasks, threads, event loops, nested calls, and after an abandoned thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import ToolContext, Tools
from svir_client.tools.serial import SerialLock
from svir_core import ToolCall

pytestmark = pytest.mark.anyio


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall("c", name, arguments)


class Watch:
    """Counts who is inside at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0
        self.entered = 0

    @contextlib.contextmanager
    def inside(self) -> Generator[None]:
        with self._lock:
            self._inside += 1
            self.entered += 1
            self.most = max(self.most, self._inside)
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1


def watched(watch: Watch, *, serial: bool = True) -> Tools:
    tools = Tools()

    @tools.tool(name="async", serial=serial)
    async def _async() -> None:
        with watch.inside():
            for _ in range(3):
                await anyio.lowlevel.checkpoint()

    @tools.tool(name="sync", serial=serial)
    def _sync() -> None:
        with watch.inside():
            threading.Event().wait(0.001)

    return tools


@pytest.mark.parametrize("name", ["async", "sync"])
async def test_in_tasks(name: str) -> None:
    for serial in (True, False):
        watch = Watch()
        tools = watched(watch, serial=serial)
        with anyio.fail_after(20):
            results = await tools.call_all([call(name)] * 12, limit=6)
        assert not any(result.is_error for result in results)
        assert watch.entered == 12
        assert (watch.most == 1) is serial


@pytest.mark.parametrize("name", ["async", "sync"])
def test_in_event_loops_of_several_threads(name: str) -> None:
    watch = Watch()
    tools = watched(watch)
    ready = threading.Barrier(5)

    def loop(backend: str) -> None:
        async def run() -> None:
            ready.wait(10)
            with anyio.fail_after(20):
                await tools.call_all([call(name)] * 5)

        anyio.run(run, backend=backend)

    def blocking() -> None:
        ready.wait(10)
        tools.call_all_sync([call(name)] * 5)

    threads = [threading.Thread(target=loop, args=(each,)) for each in ("asyncio", "trio") * 2]
    threads.append(threading.Thread(target=blocking))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (watch.entered, watch.most) == (25, 1)


@pytest.mark.parametrize("way", ["async", "blocking"])
async def test_a_tool_that_calls_itself_does_not_wait_for_itself(way: str) -> None:
    tools = Tools()
    depths: list[int] = []
    siblings = Watch()

    async def nest(depth: int) -> int:
        depths.append(depth)
        if depth:
            with siblings.inside() if depth == 1 else contextlib.nullcontext():
                await tools.call_all([call("nest", f'{{"depth": {depth - 1}}}')] * 2)
        return depth

    def block(depth: int) -> int:
        depths.append(depth)
        if depth:
            with siblings.inside() if depth == 1 else contextlib.nullcontext():
                tools.call_all_sync([call("nest", f'{{"depth": {depth - 1}}}')] * 2)
        return depth

    tools.add(nest if way == "async" else block, name="nest", serial=True)
    with anyio.fail_after(20):
        (result,) = await tools.call_all([call("nest", '{"depth": 2}')])
    assert (result.content, result.is_error) == ("2", False)
    assert sorted(depths) == [0, 0, 0, 0, 1, 1, 2]
    assert siblings.most == 1  # two calls within one turn do not overlap each other


async def test_an_abandoned_thread_keeps_its_turn() -> None:
    tools = Tools()
    watch = Watch()
    release = threading.Event()

    @tools.tool(serial=True, timeout=0.05)
    def slow(wait: bool = False) -> str:
        with watch.inside():
            if wait:
                release.wait(10)
        return "done"

    with anyio.fail_after(10):
        assert (await tools.call(call("slow", '{"wait": true}'))).content == "tool 'slow' did not end within 0.05 s"
        with anyio.move_on_after(0.05) as scope:
            await tools.call(call("slow"))
        assert scope.cancelled_caught  # it waited for its turn, which is not counted as its time
        release.set()
        assert (await tools.call(call("slow"))).content == "done"
    assert (watch.most, watch.entered) == (1, 2)


async def test_a_call_that_outlives_its_caller_keeps_the_turn() -> None:
    tools = Tools()
    watch = Watch()
    go_on = anyio.Event()
    begun = anyio.Event()

    async with anyio.create_task_group() as tasks:

        @tools.tool(serial=True)
        async def tool(kind: str) -> str:
            if kind == "leaves":
                tasks.start_soon(tools.call, call("tool", '{"kind": "stays"}'))
                await begun.wait()
                return "left"
            with watch.inside():
                begun.set()
                if kind == "stays":
                    await go_on.wait()
            return kind

        with anyio.fail_after(10):
            assert (await tools.call(call("tool", '{"kind": "leaves"}'))).content == "left"
            with anyio.move_on_after(0.02) as scope:
                await tools.call(call("tool", '{"kind": "next"}'))
            assert scope.cancelled_caught
            go_on.set()
            assert (await tools.call(call("tool", '{"kind": "next"}'))).content == "next"
    assert watch.most == 1


async def test_a_task_that_outlives_its_turn_takes_the_one_around_it() -> None:
    lock = SerialLock()
    left = anyio.Event()
    done = anyio.Event()

    async def later() -> None:
        await left.wait()
        async with lock.turn():
            done.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            async with lock.turn(), lock.turn():
                tasks.start_soon(later)
            left.set()
            await done.wait()
        async with lock.turn():
            pass


async def test_cancelled_while_it_waits_it_leaves_no_turn_behind() -> None:
    lock = SerialLock()
    with anyio.fail_after(10):
        async with lock.turn(), anyio.create_task_group() as tasks:

            async def wait() -> None:
                async with lock.turn():
                    raise AssertionError("it was not its turn")

            for _ in range(3):
                _in_no_turn(tasks, wait)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        for _ in range(2):
            async with lock.turn():
                pass


def _in_no_turn(tasks: Any, function: Any) -> None:
    """Start ``function`` as a task that was not started within a turn."""
    import contextvars

    contextvars.Context().run(tasks.start_soon, function)


async def test_its_context_is_that_of_the_call() -> None:
    tools = Tools()

    @tools.tool(serial=True)
    async def where(context: ToolContext) -> str | None:
        return context.run_id

    assert (await tools.call(call("where"), ToolContext(run_id="r"))).content == "r"

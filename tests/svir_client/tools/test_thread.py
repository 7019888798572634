"""A function in a thread: its context, its end, and what happens when there is no thread."""

from __future__ import annotations

import functools
import threading
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import Tools
from svir_client.tools.thread import in_thread
from svir_core import ToolCall

pytestmark = pytest.mark.anyio

VARIABLE: ContextVar[str] = ContextVar("variable")


async def test_it_runs_with_the_context_variables_of_the_task_and_changes_none() -> None:
    VARIABLE.set("outside")

    def work() -> str:
        seen = VARIABLE.get()
        VARIABLE.set("inside")
        return seen

    with anyio.fail_after(10):
        assert await in_thread(work) == "outside"
    assert VARIABLE.get() == "outside"


@pytest.mark.parametrize("error", [ValueError, StopIteration, KeyboardInterrupt])
async def test_what_it_raises_is_raised(error: type[BaseException]) -> None:
    def work() -> None:
        raise error("words")

    ended: list[int] = []
    wanted = RuntimeError if error is StopIteration else error  # as of any coroutine that one leaves
    with anyio.fail_after(10), pytest.raises(wanted, match=r"words|raised StopIteration"):
        await in_thread(work, lambda: ended.append(1))
    assert ended == [1]


async def test_cancelled_before_it_never_begins() -> None:
    ended: list[int] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await in_thread(lambda: pytest.fail("it began"), lambda: ended.append(1))
    assert scope.cancelled_caught
    assert ended == [1]


async def test_a_program_may_start_an_event_loop_in_it() -> None:
    async def inner() -> str:
        await anyio.lowlevel.checkpoint()
        return "done"

    with anyio.fail_after(10):
        for backend in ("asyncio", "trio"):
            assert await in_thread(functools.partial(anyio.run, inner, backend=backend)) == "done"


async def test_without_a_thread_it_is_a_failure_and_no_turn_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Exception] = []
    tools = Tools(on_error=heard.append)
    tools.add(lambda: "done", name="f", serial=True)
    call = ToolCall("c", "f", "{}")

    def no_more(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    with anyio.fail_after(10):
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", no_more)
            assert (await tools.call(call)).content == "tool 'f' failed"
        assert (await tools.call(call)).content == "done"
    assert isinstance(heard[0], RuntimeError)


def test_what_nobody_waits_for_any_more_ends_by_itself() -> None:
    release, done = threading.Event(), threading.Event()

    def work() -> None:
        release.wait(10)

    async def run() -> None:
        with anyio.move_on_after(0.02):
            await in_thread(work, done.set)

    for backend in ("asyncio", "trio"):
        release.clear()
        done.clear()
        anyio.run(run, backend=backend)
        release.set()  # the loop is over: there is nobody to wake
        assert done.wait(10)

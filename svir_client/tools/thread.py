"""A function in a thread that nobody has to wait for.

``anyio.to_thread`` does not serve: on asyncio the process would not end before a tool that never returns, and
its few threads are shared with everything else. A daemon thread for each call has neither trouble.
"""

from __future__ import annotations

import contextvars
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import anyio.lowlevel

from svir_client.async_function import is_async
from svir_client.slot import Waiter
from svir_client.tools.serial import Turn

T = TypeVar("T")


def _nothing() -> None:
    """What most have to do at an end."""


async def outcome(function: Callable[..., Any], turn: Turn | None = None) -> Any:
    """What ``function``, async or not, gives or raises: one that is not async in a thread, until whose end ``turn``
    is kept though nobody waits for it any more."""
    if is_async(function):
        return await function()
    if turn is None:
        value = await in_thread(function)
    else:
        turn.join()
        value = await in_thread(function, turn.leave)
    return await value if inspect.isawaitable(value) else value


async def in_thread(function: Callable[[], T], ended: Callable[[], None] = _nothing) -> T:
    """What ``function`` gives or raises, in a thread of its own with the context variables of this task.

    Cancelled, it returns at once: the thread ends by itself, and what it gave is dropped. Cancelled before, the
    function never begins. ``RuntimeError`` when no thread can be started. ``ended`` is called once in every case: on
    the thread when the function has ended, or here when there is no thread.
    """
    work = _Work(function, ended)
    try:
        await anyio.lowlevel.checkpoint_if_cancelled()
        work.start()
    except BaseException:
        ended()
        raise
    return await work.outcome()


def _outside_the_loop() -> None:
    """No event loop runs here, whatever the context says that was copied from a task."""
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        sniffio.current_async_library_cvar.set(None)


class _Work(Generic[T]):
    """One function, its thread and its outcome."""

    def __init__(self, function: Callable[[], T], ended: Callable[[], None]) -> None:
        self._function = function
        self._ended = ended
        self._context = contextvars.copy_context()
        self._waiter = Waiter()
        self._value: T | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="svir tool", daemon=True).start()

    async def outcome(self) -> T:
        await self._waiter.given.wait()
        if self._error is None:
            return cast("T", self._value)
        try:
            raise self._error
        finally:
            self._error = None  # else this frame and the error's traceback would hold each other

    def _run(self) -> None:
        try:
            self._context.run(_outside_the_loop)
            self._value = self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001 - raised by `outcome`, in the loop that asked
            self._error = error
        self._ended()
        self._waiter.wake()  # false when the loop has ended: then nobody waits

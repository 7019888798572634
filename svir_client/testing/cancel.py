"""A call cancelled at each of its awaits, one after the other: the way to find what a cancellation leaves behind.

The awaits of the tasks that a call starts count as its own: an upload and the reading of an early answer, say, run
beside each other inside one call, and each waits for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel

from svir_client.testing.given import function

Attempt = Callable[[], AbstractAsyncContextManager[Coroutine[Any, Any, object]]]


class _Walk:
    """Cancels ``scope`` as something in it suspends for the ``cancel_at``-th time, counted from 0."""

    def __init__(self, scope: anyio.CancelScope, cancel_at: int) -> None:
        self._scope = scope
        self._left = cancel_at

    def suspended(self) -> None:
        if self._left == 0:
            self._scope.cancel()
        self._left -= 1


_walk: ContextVar[_Walk | None] = ContextVar("svir_walk", default=None)
"""Of the call that is under way; the tasks that it starts inherit it."""


class _Watched(Coroutine[Any, Any, Any]):
    """A coroutine that tells ``walk`` whenever it suspends."""

    def __init__(self, inner: Coroutine[Any, Any, Any], walk: _Walk) -> None:
        self._inner = inner
        self._walk = walk

    def send(self, value: Any) -> Any:
        wanted = self._inner.send(value)
        self._walk.suspended()
        return wanted

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:
        wanted = self._inner.throw(typ if val is None else val)
        self._walk.suspended()
        return wanted

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        resume: Callable[[Any], Any] = self.send
        argument: Any = None
        while True:
            try:
                wanted = resume(argument)
            except StopIteration as stop:
                return stop.value
            try:
                argument, resume = (yield wanted), self.send
            except BaseException as error:  # noqa: BLE001 - whatever the event loop throws goes on to the coroutine
                argument, resume = error, self.throw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # an event loop asks a coroutine what it does: cr_frame, cr_running


@contextmanager
def _asyncio_tasks(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    before = loop.get_task_factory()

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Future[Any]:
        walk = _walk.get()
        watched = work if walk is None else _Watched(work, walk)
        return asyncio.Task(watched, loop=loop, **options) if before is None else before(loop, watched, **options)

    loop.set_task_factory(factory)
    try:
        yield
    finally:
        loop.set_task_factory(before)


@contextmanager
def _trio_tasks() -> Generator[None]:
    import trio  # only where it runs

    this = trio.lowlevel.current_task()

    class Watch(trio.abc.Instrument):
        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            walk = task.context.get(_walk)
            if walk is not None and task is not this:
                walk.suspended()

    watch = Watch()
    trio.lowlevel.add_instrument(watch)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(watch)


async def _cancelled_at(work: Coroutine[Any, Any, object], scope: anyio.CancelScope, cancel_at: int) -> None:
    loop = anyio.lowlevel.current_token().native_token
    walk = _Walk(scope, cancel_at)
    with _asyncio_tasks(loop) if isinstance(loop, asyncio.AbstractEventLoop) else _trio_tasks():
        before = _walk.set(walk)
        try:
            await _Watched(work, walk)
        finally:
            _walk.reset(before)


async def cancelled_at_every_await(attempt: Attempt) -> int:
    """Run what ``attempt`` gives cancelled at its first await, at its second, until it ends before its turn comes.

    ``attempt`` makes an async context manager, once per run: what it enters prepares a run, what it gives is
    the coroutine to cancel, and what it does on leaving looks at what is left. Returns how many awaits there
    were, those of the tasks that the coroutine started included; these may come in another order in every run.
    It waits for nothing of its own, so give it a limit (``anyio.fail_after``). Whatever the coroutine
    raises but the cancellation goes through ``attempt`` to the caller.
    """
    function(attempt, "attempt")
    awaits = 0
    while True:
        async with attempt() as work:
            with anyio.CancelScope() as scope:
                await _cancelled_at(work, scope, awaits)
        if not scope.cancel_called:
            return awaits
        awaits += 1

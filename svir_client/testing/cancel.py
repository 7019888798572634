"""A call cancelled at each of its awaits, one after the other: the way to find what a cancellation leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio

Attempt = Callable[[], AbstractAsyncContextManager[Coroutine[Any, Any, object]]]


class _CancelledAt:
    """Awaits ``work``, and cancels ``scope`` as it suspends for the ``cancel_at``-th time, counted from 0."""

    def __init__(self, work: Coroutine[Any, Any, object], scope: anyio.CancelScope, cancel_at: int) -> None:
        self._work = work
        self._scope = scope
        self._left = cancel_at

    def __await__(self) -> Generator[Any, Any, None]:
        resume: Callable[[Any], Any] = self._work.send
        argument: Any = None
        while True:
            try:
                wanted = resume(argument)
            except StopIteration:
                return
            if self._left == 0:
                self._scope.cancel()
            self._left -= 1
            try:
                argument = yield wanted
                resume = self._work.send
            except BaseException as error:  # noqa: BLE001 - whatever the event loop throws goes on to the coroutine
                argument, resume = error, self._work.throw


async def cancelled_at_every_await(attempt: Attempt) -> int:
    """Run what ``attempt`` gives cancelled at its first await, at its second, until it ends before its turn comes.

    ``attempt`` makes an async context manager, once per run: what it enters prepares a run, what it gives is
    the coroutine to cancel, and what it does on leaving looks at what is left. Returns how many awaits there
    were. It waits for nothing of its own, so give it a limit (``anyio.fail_after``). Whatever the coroutine
    raises but the cancellation goes through ``attempt`` to the caller.
    """
    awaits = 0
    while True:
        async with attempt() as work:
            with anyio.CancelScope() as scope:
                await _CancelledAt(work, scope, awaits)
        if not scope.cancel_called:
            return awaits
        awaits += 1

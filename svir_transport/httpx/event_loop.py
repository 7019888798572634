"""A way back into an event loop from any thread, a collector's above all.

The h11 transport has one like it, for plain functions: its connections close without a wait, the
libraries' do not. Neither distribution needs the other, and the core, which both need, knows no loop.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio.lowlevel

_TASKS: Final[set[asyncio.Task[None]]] = set()
"""asyncio itself keeps no task from the collector."""


class EventLoop:
    """The event loop that is running where this is made."""

    __slots__ = ("_native", "_process")

    def __init__(self) -> None:
        self._native: Any = anyio.lowlevel.current_token().native_token
        self._process = os.getpid()

    def start_soon(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have ``work``, which raises nothing, done in a task of the loop, soon; nothing when the loop has ended.

        Waits for nothing, and may be called from anywhere, a ``__del__`` included: both loops take such calls
        from signal handlers, and so in the middle of their own work.
        """
        if self._process != os.getpid():  # a fork's child has only a picture of the loop, and its parent's wake-up pipe
            return
        try:
            if isinstance(self._native, asyncio.AbstractEventLoop):
                self._native.call_soon_threadsafe(_start, work)
            else:
                self._native.run_sync_soon(importlib.import_module("trio").lowlevel.spawn_system_task, work)
        except RuntimeError:  # asyncio's for a closed loop; trio's `RunFinishedError` is one too
            return


def _start(work: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await work()

    task = asyncio.get_running_loop().create_task(run())
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)

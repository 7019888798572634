"""A way back into an event loop from any thread: a collector's, or one that looks a name up."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Protocol, cast

import anyio.lowlevel


class _TrioToken(Protocol):
    def run_sync_soon(self, function: Callable[[], object], /) -> None: ...


class EventLoop:
    """The event loop that is running where this is made."""

    __slots__ = ("_native", "_process")

    def __init__(self) -> None:
        self._native = anyio.lowlevel.current_token().native_token
        self._process = os.getpid()

    def call_soon(self, function: Callable[[], object]) -> bool:
        """Have ``function`` called in the loop's own thread, soon; false when there is none any more.

        Waits for nothing, and may be called from anywhere, a ``__del__`` included: both loops take such
        calls from signal handlers, and so in the middle of their own work.
        """
        if self._process != os.getpid():  # a fork's child has only a picture of the loop, and its parent's wake-up pipe
            return False
        try:
            if isinstance(self._native, asyncio.AbstractEventLoop):
                self._native.call_soon_threadsafe(function)
            else:
                cast(_TrioToken, self._native).run_sync_soon(function)
        except RuntimeError:  # asyncio's for a closed loop; trio's `RunFinishedError` is one too
            return False
        return True

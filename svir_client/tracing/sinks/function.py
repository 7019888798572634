"""Events for a function of the caller's (30 section 5)."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable

from svir_client.tracing.record import TraceEvent
from svir_client.watch import expect_callable
from svir_core.check import expect
from svir_core.errors import ConfigError


class FunctionSink:
    """Calls a function, never on two threads at the same time."""

    def __init__(self, callback: Callable[[TraceEvent], object], content: bool) -> None:
        self._callback = callback
        self._lock = threading.RLock()  # the function may make a call that is traced by it
        self.content = content

    def write(self, event: TraceEvent) -> None:
        """Raises what the function does."""
        with self._lock:
            self._callback(event)


def function(callback: Callable[[TraceEvent], object], *, content: bool = False) -> FunctionSink:
    """A sink that calls ``callback(event)``.

    It must not wait: events come where nothing can be awaited, when a stream is closed or dropped too. So an async
    function is a ``ConfigError``, as is what cannot be called; let it put the event into a queue.
    """
    expect_callable(callback, "callback")
    if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(getattr(callback, "__call__", None)):  # noqa: B004
        raise ConfigError("function takes a function that is not async: there is nobody to await it")
    return FunctionSink(callback, expect(content, bool, "content"))

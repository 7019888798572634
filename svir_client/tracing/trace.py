"""The layer that reports each call (30 section 5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from svir_client.layers.layer import Layer
from svir_client.tracing.reporting import Reporting
from svir_client.tracing.secrets import secret_texts
from svir_client.tracing.sink import Sink, Sinks
from svir_client.tracing.traced_call import TracedCall
from svir_client.watch import expect_callable
from svir_core.check import an, expect
from svir_core.errors import ConfigError
from svir_core.redact import Redactor
from svir_core.request import Request
from svir_core.secret import Secret
from svir_core.wire.api import Clock

if TYPE_CHECKING:
    from svir_client.layers.chain import Next
    from svir_client.stream import Stream


class Trace(Layer):
    """Reports each call to sinks, when it begins and when it is over: ``layers=[Trace(console())]``.

    | the call | what is reported of its end |
    | --- | --- |
    | its answer came whole, whoever read it how far | `completed` |
    | it raised an error, or its stream did | `failed` |
    | it was cancelled; its stream was left before its end, closed, or dropped | `abandoned` |

    Every start has one end. What is reported never holds text, keys, headers, URLs or the server's words, unless
    content is asked for twice: by ``capture`` here, and by ``content=True`` of the sink. A sink or a clock that fails
    breaks no call, whatever it raises but ``KeyboardInterrupt`` and ``SystemExit``: its first failure is logged by
    ``svir.tracing``, and all are counted.
    """

    def __init__(
        self,
        *sinks: Sink,
        capture: bool = False,
        secrets: Iterable[str | Secret] = (),
        clock: Clock = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Args are the sinks, in the order they are told.

        ``capture`` gives those with ``content=True`` what was said, without known secrets: keys and sensitive headers
        of the call, and ``secrets``, where they have 8 characters or more. ``clock`` tells monotonic seconds, ``now``
        seconds since the epoch. Raises ``ConfigError`` without a sink, and when any of it is wrong.
        """
        if not sinks:
            raise ConfigError("Trace needs a sink: Trace(console())")
        for sink in sinks:
            if not callable(getattr(sink, "write", None)) or not isinstance(getattr(sink, "content", None), bool):
                raise ConfigError(f"a sink has write(event) and content, and {an(type(sink))} has not")
        self._sinks = Sinks(sinks)
        self._reporting = Reporting(
            self._sinks,
            expect(capture, bool, "Trace: capture"),
            Redactor(secret_texts(secrets)),
            expect_callable(clock, "clock"),
            expect_callable(now, "now"),
        )

    @property
    def failures(self) -> int:
        """How many events a sink has failed to take, and how often a clock has failed."""
        return self._sinks.failures

    async def __call__(self, request: Request, next: Next) -> Stream:
        """The stream that ``next`` gives, which is watched."""
        call = TracedCall(self._reporting, request, next.api)
        try:
            stream = await next(request)
        except BaseException as error:
            call.raised(error, next)
            raise
        call.opened(stream, next)
        return stream

    def __repr__(self) -> str:
        return f"Trace({', '.join(self._sinks.names)})"

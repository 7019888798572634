"""A limit of this side on calls: how many at once, how many in a time, and what the server says (30 section 3)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from svir_client.layers.layer import Layer
from svir_client.layers.slot import Slots
from svir_client.rate_limit import RateLimit
from svir_client.watch import expect_callable
from svir_core.check import count, seconds
from svir_core.errors import ConfigError, RateLimitedError
from svir_core.request import Request
from svir_core.wire.api import Clock

if TYPE_CHECKING:
    from svir_client.layers.chain import Next
    from svir_client.stream import Stream

Sleep = Callable[[float], Awaitable[object]]

LONGEST_HOLD: Final = 3600.0
"""Seconds that a server may hold calls back by a header. Windows are a minute in practice; a quota of a day is
better refused by the server than slept through."""


class Limit(Layer):
    """Lets a call begin when it may; those that wait begin in the order they were made.

    | a call | waits |
    | --- | --- |
    | with ``concurrency`` streams open | until one is closed, or its call has failed |
    | with the calls of ``rate`` begun within its time | until the first of them is so long ago |
    | after an answer that said ``remaining`` 0 of requests or tokens | for its ``reset``, at most an hour |
    | after a ``RateLimitedError`` with ``retry_after`` | so long |
    | otherwise | not at all |

    | what happens to it | its slot |
    | --- | --- |
    | it waits and is cancelled | was none |
    | it fails or is cancelled before its response | is given back |
    | it has a stream | is given back when that is closed, in whatever way |

    One object limits every client that has it, in every event loop. A repeat of a ``Retry`` outside it is a call of
    its own; those of one inside it share its slot.
    """

    def __init__(
        self,
        *,
        concurrency: int | None = None,
        rate: tuple[int, float] | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = anyio.sleep,
    ) -> None:
        """``rate`` is how many calls may begin in how many seconds: ``(60, 60.0)``. ``None`` is no limit of that sort.

        ``clock`` tells seconds and ``sleep`` waits so many. ``ConfigError`` when any of it is wrong.
        """
        self._slots = None if concurrency is None else Slots(count(concurrency, 1, "Limit: concurrency"))
        self._concurrency = concurrency
        calls, self._interval = (None, 0.0) if rate is None else _rate(rate)
        self._begun = deque[float](maxlen=calls)
        self._limited = calls is not None
        self._turn = Slots(1)
        self._held_until = float("-inf")
        self._holding = threading.Lock()
        self._clock = expect_callable(clock, "clock")
        self._sleep = expect_callable(sleep, "sleep")

    async def __call__(self, request: Request, next: Next) -> Stream:
        """The stream that ``next`` gives, once the call may begin."""
        await self._begin()
        try:
            stream = await next(request)
            self._learn(stream.rate_limit)
        except RateLimitedError as error:
            self._release()
            self._hold(error.retry_after)
            raise
        except BaseException:
            self._release()
            raise
        stream.on_close(lambda _: self._release())
        return stream

    async def _begin(self) -> None:
        """Wait for the turn, for a slot, and for the time, in this order: who has the turn begins next."""
        await self._turn.acquire()
        try:
            if self._slots is not None:
                await self._slots.acquire()
            try:
                while (wait := self._wait()) > 0:
                    await self._sleep(wait)
            except BaseException:
                self._release()
                raise
            if self._limited:
                self._begun.append(self._clock())
        finally:
            self._turn.release()

    def _wait(self) -> float:
        """Seconds until a call may begin."""
        full = self._limited and len(self._begun) == self._begun.maxlen
        free_at = self._begun[0] + self._interval if full else self._held_until
        return max(free_at, self._held_until) - self._clock()

    def _release(self) -> None:
        if self._slots is not None:
            self._slots.release()

    def _learn(self, said: RateLimit | None) -> None:
        if said is not None:
            for remaining, reset in said.windows():
                self._hold(reset if remaining == 0 else None)

    def _hold(self, asked: float | None) -> None:
        """Let no call begin for so many seconds."""
        if asked is not None:
            with self._holding:
                self._held_until = max(self._held_until, self._clock() + min(asked, LONGEST_HOLD))

    def __repr__(self) -> str:
        rate = f"({self._begun.maxlen}, {self._interval:g})" if self._limited else None
        return f"Limit(concurrency={self._concurrency}, rate={rate})"


def _rate(rate: tuple[int, float]) -> tuple[int, float]:
    given: object = rate
    if not isinstance(given, tuple) or len(rate) != 2:
        raise ConfigError("Limit: rate is a pair of calls and seconds: (60, 60.0)")
    return count(rate[0], 1, "Limit: the calls of rate"), seconds(rate[1], "Limit: the seconds of rate")

"""A limit of this side on calls: how many at once, how many in a time, and what the server says (30 section 3)."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import anyio

from svir_client.layers.layer import Layer
from svir_client.rate_limit import RateLimit
from svir_client.slot import Slots
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
    | it has a stream | is given back when that is closed, in whatever way, or dropped |

    One object limits every client that has it, in every event loop. A repeat of a ``Retry`` outside it is a call of
    its own; those of one inside it share its slot. So does what comes to it again from inside the same call, the other
    client of a ``Fallback`` for one: it does not wait, and counts for no rate.
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
        outer = _HELD.get()
        if any((held := known()) is not None and held.limit is self and held.opening for known in outer):
            return await next(request)
        await self._begin()
        held = Held(self)
        token = _HELD.set((*outer, weakref.ref(held)))
        try:
            stream = await next(request)
            self._learn(stream.rate_limit)
        except RateLimitedError as error:
            held.release()
            self._hold(error.retry_after)
            raise
        except BaseException:
            held.release()
            raise
        finally:
            held.opening = False
            _HELD.reset(token)
        stream.on_close(held.closed)
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
                self.release()
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

    def release(self) -> None:
        """Give the slot of one call back, on any thread; waits for nothing."""
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


class Held:
    """The slot of one call. Its stream alone holds it, so that a stream that is dropped gives it back at once.

    Attributes:
        opening: whether the call still waits for its stream: what asks the same limit from inside is a part of it.
    """

    __slots__ = ("__weakref__", "_given_back", "limit", "opening")

    def __init__(self, limit: Limit) -> None:
        self._given_back = False
        self.limit = limit
        self.opening = True

    def closed(self, stream: Stream) -> None:
        """The stream is closed."""
        self.release()

    def release(self) -> None:
        """Give it back, once."""
        if not self._given_back:
            self._given_back = True
            self.limit.release()

    def __del__(self) -> None:
        self.release()


_HELD: Final = ContextVar[tuple[weakref.ref[Held], ...]]("svir_limits_held", default=())
"""By weak references: whatever was started meanwhile keeps its copy."""


def _rate(rate: tuple[int, float]) -> tuple[int, float]:
    given: object = rate
    if not isinstance(given, tuple) or len(rate) != 2:
        raise ConfigError("Limit: rate is a pair of calls and seconds: (60, 60.0)")
    return count(rate[0], 1, "Limit: the calls of rate"), seconds(rate[1], "Limit: the seconds of rate")

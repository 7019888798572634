"""Repeats of a call that failed before anybody saw anything of its answer (30 section 3)."""

from __future__ import annotations

import math
import random as random_numbers
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import anyio

from svir_client.layers.attempt import Failure, Phase, Until, attempt
from svir_client.layers.layer import Layer
from svir_client.watch import expect_callable
from svir_core.check import choice, count, seconds
from svir_core.limits import RETRY_AFTER_SECONDS
from svir_core.request import Request
from svir_core.wire.api import Clock

if TYPE_CHECKING:
    from svir_client.layers.chain import Next
    from svir_client.stream import Stream

Sleep = Callable[[float], Awaitable[object]]

FIRST_WAIT: Final = 0.5
"""Seconds before the first repeat, as the SDKs of OpenAI and Anthropic wait; doubled for each further one."""

LONGEST_WAIT: Final = RETRY_AFTER_SECONDS
"""A server may ask for no more either."""

REPEATED: Final[Mapping[str, frozenset[Phase]]] = {
    "connect": frozenset({Phase.UNSENT}),
    "response": frozenset({Phase.UNSENT, Phase.BEFORE_RESPONSE}),
    "first_event": frozenset(Phase) - {Phase.AFTER_EVENT},
}
"""How far a call may have come that is repeated, when its error is ``retryable``; others are raised as they are."""


class Retry(Layer):
    """Makes a call again that failed, when its error is ``retryable``; anew from the request, its files read again.

    | the call | ``connect`` | ``transient`` | ``transient(until="first_event")`` |
    | --- | --- | --- | --- |
    | never reached the server | repeated | repeated | repeated |
    | failed before its response began | raised | repeated | repeated |
    | failed before its first event | given on | given on | repeated |
    | failed after its first event | given on | given on | given on |
    | failed after a layer or an inspector inside had read an event | raised | raised | raised |
    | failed before its response, not ``retryable`` (a used-up quota) | raised | raised | raised |
    | failed before its first event, not ``retryable`` | given on | given on | raised |
    | failed with what is no ``SvirError``, or was cancelled | raised | raised | raised |
    | failed the last time it may be repeated, or too late | raised | raised | raised |

    Before a repeat it waits as long as ``Retry-After`` said (seconds or a date, at most 30 s); else 0.5 s, then twice
    as long each time up to 30 s, of which a random part of up to one half is left out.
    """

    def __init__(
        self,
        repeats: int,
        policy: str,
        *,
        within: float = math.inf,
        clock: Clock = time.monotonic,
        sleep: Sleep = anyio.sleep,
        random: Callable[[], float] = random_numbers.random,
    ) -> None:
        self._repeats = count(repeats, 1, "Retry: n")
        self._policy = policy
        self._until = Until.FIRST_EVENT if Phase.BEFORE_EVENT in REPEATED[policy] else Until.RESPONSE
        self._within = seconds(within, "Retry: within")
        self._clock = expect_callable(clock, "clock")
        self._sleep = expect_callable(sleep, "sleep")
        self._random = expect_callable(random, "random")

    @classmethod
    def connect(
        cls, n: int, *, sleep: Sleep = anyio.sleep, random: Callable[[], float] = random_numbers.random
    ) -> Retry:
        """Up to ``n`` repeats of a call whose request never reached the server.

        ``sleep`` waits so many seconds; ``random`` gives numbers from 0 to 1. ``ConfigError`` for an ``n`` below 1.
        """
        return cls(n, "connect", sleep=sleep, random=random)

    @classmethod
    def transient(
        cls,
        n: int,
        *,
        until: Until | str = Until.RESPONSE,
        within: float = math.inf,
        clock: Clock = time.monotonic,
        sleep: Sleep = anyio.sleep,
        random: Callable[[], float] = random_numbers.random,
    ) -> Retry:
        """Up to ``n`` repeats of a call that failed for a time.

        Args:
            n: how many repeats, 1 or more: a call goes out at most ``n`` + 1 times.
            until: "response", or "first_event": also one whose answer began and failed before its first event.
                Entering the stream then waits for that event.
            within: seconds from the call, of ``clock``, after which no repeat begins.
            clock: tells seconds.
            sleep: waits so many.
            random: gives numbers from 0 to 1.

        Raises:
            ConfigError: any of it is wrong.
        """
        return cls(n, choice(Until, until, "until").value, within=within, clock=clock, sleep=sleep, random=random)

    async def __call__(self, request: Request, next: Next) -> Stream:
        """The stream of the first try that is not repeated; raises its error."""
        latest = self._clock() + self._within
        repeats = 0
        while isinstance(outcome := await self._try(request, next), Failure):
            if repeats == self._repeats or not self._repeated(outcome):
                raise outcome.error
            wait = self._wait(outcome, repeats)
            if self._clock() + wait > latest:
                raise outcome.error
            await self._sleep(wait)
            repeats += 1
        return outcome

    async def _try(self, request: Request, next: Next) -> Stream | Failure:
        return await attempt(lambda: next(request), self._until, lambda: next.events_read)

    def _repeated(self, failure: Failure) -> bool:
        return failure.error.retryable and failure.phase in REPEATED[self._policy]

    def _wait(self, failure: Failure, repeats: int) -> float:
        """Seconds to wait before the next try, after so many repeats."""
        asked = failure.error.retry_after
        if asked is not None:
            return min(asked, LONGEST_WAIT)
        longest = min(FIRST_WAIT * 2.0 ** min(repeats, 16), LONGEST_WAIT)
        return longest * (1 - self._random() / 2)

    def __repr__(self) -> str:
        more = ', until="first_event"' if self._policy == "first_event" else ""
        return f"Retry.{'connect' if self._policy == 'connect' else 'transient'}({self._repeats}{more})"

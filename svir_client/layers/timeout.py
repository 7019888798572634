"""Clocks over a whole call, its opening included (30 section 3, 00 section 5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from svir_client.layers.layer import Layer
from svir_client.shape import FIRST_TOKEN, IDLE, STALLED, TOTAL
from svir_client.watch import expect_callable
from svir_core.check import seconds as positive
from svir_core.errors import ResponseTimeoutError
from svir_core.request import Request
from svir_core.wire.api import Clock

if TYPE_CHECKING:
    from svir_client.layers.chain import Next
    from svir_client.stream import Stream


@attrs.frozen
class Rule:
    """What a clock does.

    Attributes:
        words: the error's ``detail``; has a place for the seconds where they are its own.
        opening: whether the wait for the response counts.
        shape: sets the clock of an opened stream, of a call that began at a moment of the clock.
    """

    words: str
    opening: bool
    shape: Callable[[Stream, float, float, Clock], None]


def _first_token(stream: Stream, began: float, seconds: float, clock: Clock) -> None:
    stream.first_token_by(began + seconds, clock=clock)


def _idle(stream: Stream, began: float, seconds: float, clock: Clock) -> None:
    stream.idle_timeout(seconds)


def _total(stream: Stream, began: float, seconds: float, clock: Clock) -> None:
    stream.complete_by(began + seconds, clock=clock)


def _stalled(stream: Stream, began: float, seconds: float, clock: Clock) -> None:
    stream.stalled_after(seconds, clock=clock)


RULES: Final[Mapping[str, Rule]] = {
    "first_token": Rule(FIRST_TOKEN, True, _first_token),
    "idle": Rule(IDLE, True, _idle),
    "total": Rule(TOTAL, True, _total),
    "stalled": Rule(STALLED, False, _stalled),
}


class Timeout(Layer):
    """Gives a call up when a clock runs out: ``ResponseTimeoutError``, also a ``TimeoutError``.

    | what takes longer than ``d`` seconds | ``first_token`` | ``idle`` | ``total`` | ``stalled`` |
    | --- | --- | --- | --- | --- |
    | from the call to the response's head | raised | raised | raised | - |
    | from the call to anything of the answer, a piece of a call too | raised | - | raised | - |
    | a wait without a byte | - | raised | - | raised |
    | waiting with keep-alives, but without output | - | - | - | raised |
    | from the call to the whole answer | - | - | raised | - |

    Before the head it is entering the stream that raises, and ``partial`` is ``None``: nothing could be delivered.
    After it a read raises, with what came on ``partial``, also where that is nothing. The layers inside it are part
    of the opening, the waits of a ``Retry`` and a ``Limit`` included; each repeat of a ``Retry`` outside it has a
    clock of its own. Events that were read in time are handed over however late.
    """

    def __init__(self, kind: str, seconds: float, clock: Clock) -> None:
        self._kind = kind
        self._seconds = positive(seconds, f"Timeout.{kind}")
        self._clock = expect_callable(clock, "clock")

    @classmethod
    def first_token(cls, d: float, *, clock: Clock = time.monotonic) -> Timeout:
        """``d`` seconds from the call to anything of the answer. ``ConfigError`` unless positive, as for the others."""
        return cls("first_token", d, clock)

    @classmethod
    def idle(cls, d: float) -> Timeout:
        """``d`` seconds from the call to the response's head, then for each read; an upload counts, whereas for the
        client's ``idle_timeout`` it does not while it moves."""
        return cls("idle", d, time.monotonic)

    @classmethod
    def total(cls, d: float, *, clock: Clock = time.monotonic) -> Timeout:
        """``d`` seconds from the call to the whole answer, however it is read."""
        return cls("total", d, clock)

    @classmethod
    def stalled(cls, d: float, *, clock: Clock = time.monotonic) -> Timeout:
        """``d`` seconds of waiting in the stream without output, from its beginning and from each delta."""
        return cls("stalled", d, clock)

    async def __call__(self, request: Request, next: Next) -> Stream:
        """The stream that ``next`` gives, with the clock set."""
        rule = RULES[self._kind]
        began = self._clock()
        stream = None
        with anyio.move_on_after(self._seconds if rule.opening else None):
            stream = await next(request)
        if stream is None:
            raise ResponseTimeoutError(rule.words.format(self._seconds))
        rule.shape(stream, began, self._seconds, self._clock)
        return stream

    def __repr__(self) -> str:
        return f"Timeout.{self._kind}({self._seconds:g})"

"""The states of one call, and what may happen in each (00 section 4).

Two rules hold for all of it. What is not in the table is the driver's mistake: a ``ConfigError``, and
the call is over. A call that is over never speaks again, and takes further bytes without a word.

    READY ──START──▶ SENT ──ACCEPTED──▶ ANSWER ──END──▶ OVER
                      ▲ └───REFUSED───▶ REFUSAL ──END──▶ OVER
                      └──────RETRY────────┘           (FAILED: from anywhere to OVER)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from svir_core.errors import ConfigError


class State(StrEnum):
    """Where a call is."""

    READY = "ready"
    SENT = "sent"
    ANSWER = "answer"
    REFUSAL = "refusal"
    OVER = "over"


class Signal(StrEnum):
    """What happens to a call."""

    START = "start"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    DATA = "data"
    RETRY = "retry"
    END = "end"
    FAILED = "failed"


TRANSITIONS: Final[Mapping[tuple[State, Signal], State]] = {
    (State.READY, Signal.START): State.SENT,
    (State.READY, Signal.FAILED): State.OVER,
    (State.SENT, Signal.ACCEPTED): State.ANSWER,
    (State.SENT, Signal.REFUSED): State.REFUSAL,
    (State.SENT, Signal.FAILED): State.OVER,
    (State.ANSWER, Signal.DATA): State.ANSWER,
    (State.ANSWER, Signal.END): State.OVER,
    (State.ANSWER, Signal.FAILED): State.OVER,
    (State.REFUSAL, Signal.DATA): State.REFUSAL,
    (State.REFUSAL, Signal.RETRY): State.SENT,
    (State.REFUSAL, Signal.END): State.OVER,
    (State.REFUSAL, Signal.FAILED): State.OVER,
    (State.OVER, Signal.DATA): State.OVER,
    (State.OVER, Signal.END): State.OVER,
    (State.OVER, Signal.FAILED): State.OVER,
}


def advance(state: State, signal: Signal) -> State:
    """The next state; ``ConfigError`` when ``signal`` cannot happen in ``state``."""
    try:
        return TRANSITIONS[state, signal]
    except KeyError:
        pass
    raise ConfigError(f"a call that is {state.value!r} cannot take {signal.value!r}")

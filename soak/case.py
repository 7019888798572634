"""One call, drawn from a number: what the server says and does, and what the client does with it.

Both processes draw it for themselves, so that nothing but the number goes between them.
"""

from __future__ import annotations

import random
from typing import Final

import attrs

from soak.answer import Answer, draw
from soak.fault import FAULTS, Plan

CASE_HEADER: Final = "x-case"
"""The request's header that names the case."""

WEIGHTS: Final = {
    "complete": 14,
    "events": 24,
    "text": 8,
    "slow consumer": 14,
    "break": 8,
    "exception": 6,
    "cancelled": 10,
    "cancelled read": 4,
    "closed by another task": 2,
    "relay": 8,
    "relay left": 2,
}
"""What the client does, and how often out of a hundred."""


@attrs.frozen
class Case:
    """What one call is.

    Attributes:
        number: which; the seed of the run stands before it.
        fault, plan: what the server does.
        reader: what the client does.
        patience: how many events or reads it takes before it leaves, where the reader is one that leaves.
        moment: after how many seconds, at pace 1, a call is cancelled.
        lull: the longest pause of a slow consumer after an event, in seconds.
        rest: how long the caller waits before the call, in seconds.
    """

    number: int
    fault: str
    plan: Plan = attrs.field(repr=False)
    reader: str
    patience: int
    moment: float
    lull: float
    rest: float
    answer: Answer = attrs.field(repr=False)

    @classmethod
    def of(cls, seed: int, number: int, pace: float) -> Case:
        """The case with ``number`` of the run with ``seed``; ``pace`` is by how much its pauses are drawn out."""
        rng = random.Random(f"{seed}/{number}")
        answer = draw(rng)
        fault = rng.choices(list(FAULTS), [weight for weight, _ in FAULTS.values()])[0]
        plan = FAULTS[fault][1](rng, answer, pace)
        return cls(
            number,
            fault,
            plan,
            rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0],
            patience=rng.randint(0, len(answer.pieces)),
            moment=rng.uniform(0, 20) * pace,
            lull=rng.uniform(0, 0.3) * pace,
            rest=rng.uniform(0, 2) * pace,
            answer=answer,
        )

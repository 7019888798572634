"""Interleaved rounds: every way runs once in each round, so that a slow spell of the machine hits all alike.

What is meant to hold elsewhere is the ratio of two ways, taken round by round, and its median.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping

import attrs

ROUNDS = 7


@attrs.frozen
class Samples:
    """Seconds of CPU that each way took, round by round."""

    seconds: Mapping[str, list[float]]

    def median(self, way: str) -> float:
        """The median of ``way``, in seconds."""
        return statistics.median(self.seconds[way])

    def ratio(self, way: str, base: str) -> float:
        """How many times as long as ``base`` did ``way`` take: the median over the rounds."""
        pairs = zip(self.seconds[way], self.seconds[base], strict=True)
        return statistics.median(taken / other for taken, other in pairs)


def interleaved(ways: Mapping[str, Callable[[], object]], rounds: int = ROUNDS) -> Samples:
    """Run each of ``ways`` once unmeasured, then once in every round."""
    for run in ways.values():
        run()
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    gc.collect()
    for _ in range(rounds):
        for way, run in ways.items():
            start = time.process_time()
            run()
            seconds[way].append(time.process_time() - start)
    return Samples(seconds)

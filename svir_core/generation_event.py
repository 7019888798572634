"""What a generation tells while it goes on: every event of every round, and the results of its calls (50, Loop).

An event of a round is slotted but not frozen, as those of an answer are: there is one for each token.
"""

from __future__ import annotations

import attrs

from svir_core.event import Event
from svir_core.message import ToolResult


@attrs.define(unsafe_hash=True)
class RoundEvent:
    """An event of the answer of a round; rounds count from 1, and the answer's last event is ``Completed``."""

    round: int
    event: Event


@attrs.frozen
class RoundResults:
    """The results of the calls of a round's answer, in the order asked: they are part of the history now."""

    round: int
    results: tuple[ToolResult, ...]


GenerationEvent = RoundEvent | RoundResults

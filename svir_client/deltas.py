"""The parts of a whole answer as the deltas that show them."""

from __future__ import annotations

from collections.abc import Iterable

from svir_core.event import Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Part, Reasoning, Text, ToolCall


def deltas(parts: Iterable[Part]) -> list[Event]:
    """One delta for each text, reasoning and call, in order; the rest of an answer is in ``Completed`` alone."""
    events: list[Event] = []
    calls = 0
    for part in parts:
        if isinstance(part, Text):
            events.append(TextDelta(part.text))
        elif isinstance(part, Reasoning):
            events.append(ReasoningDelta(part.source, part.text))
        elif isinstance(part, ToolCall):
            events.append(ToolCallDelta(calls, part.id, part.name, part.arguments))
            calls += 1
    return events

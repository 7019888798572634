"""What the tests of tracing share: a call that is traced in memory, and an event made by hand."""

from __future__ import annotations

from typing import Any

from svir_client.tracing import (
    Content,
    EventType,
    Level,
    MemorySink,
    Outcome,
    ProviderEnd,
    ProviderStart,
    TraceEvent,
    memory,
)
from tests.svir_client.layers.calls import Outcome as Reply
from tests.svir_client.layers.calls import read, scripted

START = TraceEvent(
    level=Level.INFO,
    type=EventType.PROVIDER_START,
    time=1735689600.25,
    run_id="run",
    span_id="span",
    name="m",
    attributes=ProviderStart(api="openai_chat", model="m", message_count=1, tool_count=0),
)


def end_event(content: Content | None = None, name: str = "m", **fields: Any) -> TraceEvent:
    known: dict[str, Any] = {
        "api": "openai_chat",
        "model": name,
        "outcome": Outcome.COMPLETED,
        "seconds": 1.5,
        "retries": 0,
    }
    return TraceEvent(
        level=Level.INFO,
        type=EventType.PROVIDER_END,
        time=1735689601.75,
        run_id="run",
        span_id="span",
        name=name,
        attributes=ProviderEnd(**{**known, **fields}),
        content=content,
    )


def end_of(sink: MemorySink) -> ProviderEnd:
    """The end of the only call that ``sink`` was told of."""
    starts, ends = pairs(sink)
    assert len(starts) == len(ends) == 1
    assert starts[0].run_id == ends[0].run_id
    assert isinstance(ends[0].attributes, ProviderEnd)
    return ends[0].attributes


def pairs(sink: MemorySink) -> tuple[list[TraceEvent], list[TraceEvent]]:
    """The starts, and the ends."""
    starts = [event for event in sink.events if event.type is EventType.PROVIDER_START]
    return starts, [event for event in sink.events if event.type is EventType.PROVIDER_END]


async def traced(*outcomes: Reply, layers: Any, sink: MemorySink, **options: Any) -> ProviderEnd:
    """The end of one call, read to its end, through ``layers``, one of which reports to ``sink``."""
    async with scripted(*outcomes, layers=layers, **options) as (_, client):
        await read(client)
    return end_of(sink)


__all__ = ("START", "end_event", "end_of", "memory", "pairs", "traced")

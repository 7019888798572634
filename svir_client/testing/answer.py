"""An answer as the bytes of a wire API, one piece for each event, by the API's own server half."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from svir_client.deltas import deltas
from svir_client.testing.wait import Gate, Pause, Wait
from svir_core.check import an, wire_api
from svir_core.errors import ConfigError, SvirError
from svir_core.event import Completed, Event, TextDelta
from svir_core.message import Reasoning, Text, ToolCall
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.api import Api


def text_events(pieces: Sequence[str | Wait], finish: FinishReason | str, usage: Usage | None) -> list[Event | Wait]:
    """An event for each piece of text, and the answer that they make."""
    texts = [piece for piece in pieces if isinstance(piece, str)]
    completion = Completion(finish, [Text("".join(texts))] if texts else [], usage)
    events: list[Event | Wait] = [TextDelta(piece) if isinstance(piece, str) else piece for piece in pieces]
    return [*events, Completed(completion)]


def completion_events(completion: Completion) -> list[Event]:
    """The events of an answer: one for each part, then the answer itself."""
    for part in completion.parts:
        if not isinstance(part, Text | Reasoning | ToolCall):
            raise ConfigError(f"{an(type(part))} is no part of an answer")
    return [*deltas(completion.parts), Completed(completion)]


def stream_pieces(
    api: Api, events: Iterable[Event | SvirError | Wait], model: str, id: str, created: int, *, include_usage: bool
) -> list[bytes | Wait]:
    """What the server half writes for each event; an event that it holds back makes no piece of its own."""
    events = list(events)
    refusal = any(isinstance(event, Completed) and event.completion.finish is FinishReason.REFUSAL for event in events)
    encoder = wire_api(api).server.stream(model, id, created, include_usage=include_usage, refusal=refusal)
    pieces: list[bytes | Wait] = []
    for event in events:
        if isinstance(event, Gate | Pause):
            pieces.append(event)
        else:
            pieces.append(encoder.fail(event) if isinstance(event, SvirError) else encoder.push(event))
    return [piece for piece in pieces if piece]

"""What the decoder's targets share: everything that can be seen of one decoded stream, and what holds in every mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

import attrs

from fuzz.check import require, same
from fuzz.plan import Plan
from svir_core.errors import SvirError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.limits import Limits
from svir_core.message import Reasoning, Text, ToolCall
from svir_core.quirk import NONE, Quirk
from svir_core.response import Completion, Partial
from svir_core.think import Think
from svir_core.wire.openai_chat.decode import Decoder

Options = Mapping[str, Any]

THINKS: Final = (
    "split",
    "split",
    "keep",
    "inside",
    Think(markers=("<", ">")),
    "split",
    "split",
    Think(markers=("aa", "b")),
)
LIMITS: Final = (
    Limits(),
    Limits(),
    Limits(wire_bytes=300, event_bytes=200, tool_calls=1),
    Limits(wire_bytes=1 << 20, event_bytes=300, tool_calls=2),
)
RENAMED: Final = Quirk.TOOL_ID_MISSING | Quirk.TOOL_INDEX_GAPS


@attrs.frozen
class Seen:
    """All that a caller can see, but for when it was seen."""

    events: list[Event]
    completion: Completion | None
    error: SvirError | None
    message: str | None
    counts: tuple[int, int] | None


def options(plan: Plan) -> Options:
    """The options that the plan chooses."""
    return {"think": THINKS[plan.option & 7], "limits": LIMITS[plan.option >> 3 & 3], "extra": plan.flag(5)}


def see(pieces: Iterable[bytes], chosen: Options) -> Seen:
    """What a decoder says of ``pieces`` and the end of input; that it says nothing more after that."""
    decoder = Decoder(clock=lambda: 0.0, **chosen)
    events: list[Event] = []
    for piece in pieces:
        told = decoder.push(piece)
        events += told.items
        if decoder.done:
            break
    else:
        told = decoder.finish()
        events += told.items
    error, completion = decoder.error, decoder.completion
    require(decoder.done, "the end of input is no end")
    require(told.error is error and (error is None) is (completion is not None), "neither an answer nor an error")
    message = None if error is None else error.server_message()
    counts = None if error is not None else (decoder.events_seen, decoder.output_seen)
    _stays_silent(decoder, told.error)
    return Seen(events, completion, error, message, counts)


def _stays_silent(decoder: Decoder, error: SvirError | None) -> None:
    if error is not None:
        try:
            decoder.push(b"data: {}\n\n")
        except SvirError as raised:
            require(raised is error, "another error was raised", raised)
        else:
            require(False, "an error that nobody saw was not raised")
    for told in (decoder.push(b"data: {}\n\n"), decoder.finish()):
        require(not told.items and told.error is None, "it speaks after the end", told)
    require(decoder.error is error, "the outcome changed")


def check_decoder(plan: Plan, mode: str, quirks: Quirk = NONE) -> Seen:
    """Hold what holds in every mode and with any quirks; the outcome."""
    chosen = {"mode": mode, "quirks": quirks, **options(plan)}
    whole = see([plan.data], chosen)
    same("the cut matters", see(plan.pieces(), chosen), whole)
    consistent(whole, len(plan.data), quirks)
    return whole


def consistent(seen: Seen, size: int, quirks: Quirk = NONE) -> None:
    """Hold that the outcome is what the events delivered, and no more than ``size`` bytes can say."""
    if seen.completion is not None:
        last = seen.events[-1]
        require(isinstance(last, Completed) and last.completion is seen.completion, "the last event is not the answer")
        delivered = seen.events[:-1]
        require(len(seen.completion.anomalies) <= seen.completion.anomaly_count, "anomalies are not counted")
        _same_parts(seen.completion, delivered, quirks)
    else:
        delivered = seen.events
        error = seen.error
        require(error is not None and error.partial is not None, "an error without what came before it")
        if error is not None and error.partial is not None:
            _same_parts(error.partial, delivered, quirks)
            _is_clean(error, size)
    said = sum(_length(event) for event in delivered)
    most = 6 * size if Quirk.TOOL_ARGUMENTS_OBJECT in quirks else size  # written as JSON again, escapes and all
    require(said <= most, "more was said than sent", said, size)
    require(not any(isinstance(event, Completed) for event in delivered), "a completion that is not the last event")


def _is_clean(error: SvirError, size: int) -> None:
    """Our words only, an offset inside the body, and a message that was cut."""
    words = f"{error}{error!r}"
    require(words.isascii() and len(words) < 400, "an error's words are not ours", words)
    require(error.offset is not None and 0 <= error.offset <= size, "an offset lies outside", error.offset)
    message = error.server_message()
    require(message is None or len(message.encode()) <= 4096, "a server's message is not cut")


def _length(event: Event) -> int:
    if isinstance(event, TextDelta | ReasoningDelta):
        require(bool(event.text), "an empty delta", event)
        return len(event.text)
    if isinstance(event, ToolCallDelta):
        return sum(len(value) for value in (event.id, event.name, event.arguments) if value)
    return 0


def _same_parts(told: Completion | Partial, events: list[Event], quirks: Quirk) -> None:
    """Hold that the parts of ``told`` are the ``events``, joined."""
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    same("the text is not what was delivered", told.text, text)
    reasoning = [(event.source, event.text) for event in events if isinstance(event, ReasoningDelta)]
    parts = [(part.source, part.text) for part in told.parts if isinstance(part, Reasoning)]
    same("the reasoning is not what was delivered", _by_source(parts), _by_source(reasoning))
    runs = [(type(part), getattr(part, "source", None)) for part in told.parts]
    neighbours = [one for one, other in pairwise(runs) if one == other and one[0] is not ToolCall]
    require(not neighbours, "parts of one kind were not joined", neighbours)
    require(all(part.text for part in told.parts if isinstance(part, Text | Reasoning)), "an empty part")
    calls = [(part.id, part.name, part.arguments) for part in told.parts if isinstance(part, ToolCall)]
    delivered = _calls(events)
    if quirks & RENAMED:  # ids that the decoder made, another order
        calls, delivered = (sorted(("", *call[1:]) for call in each) for each in (calls, delivered))
    same("the calls are not what was delivered", calls, delivered)


def _by_source(pieces: Iterable[tuple[str, str]]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for source, text in pieces:
        texts[source] = texts.get(source, "") + text
    return texts


def _calls(events: list[Event]) -> list[tuple[str, str, str]]:
    found: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            call = found.setdefault(event.index, ["", "", ""])
            call[0] = call[0] or event.id or ""
            call[1] += event.name or ""
            call[2] += event.arguments or ""
    return [(call[0], call[1], call[2]) for _, call in sorted(found.items())]

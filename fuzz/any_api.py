"""What holds for the decoder of any wire API: seen through its protocol alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from fuzz.check import require, same
from fuzz.plan import Plan
from svir_core.errors import SvirError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta
from svir_core.limits import Limits
from svir_core.message import Reasoning, Text, ToolCall
from svir_core.response import Completion, Partial
from svir_core.wire.api import Api, CodecOptions, Decoder, Mode

LIMITS: Final = (
    Limits(),
    Limits(),
    Limits(wire_bytes=300, event_bytes=200, tool_calls=1),
    Limits(wire_bytes=1 << 20, event_bytes=300, tool_calls=2),
)


@attrs.frozen
class Outcome:
    """All that a caller can see, but for when it was seen."""

    events: list[Event]
    completion: Completion | None
    error: SvirError | None
    message: str | None


def outcome(decoder: Decoder, pieces: Iterable[bytes]) -> Outcome:
    """What ``decoder`` says of ``pieces`` and the end of input; that it says nothing more after that."""
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
    if error is not None:
        try:
            list(told)
        except SvirError as raised:
            require(raised is error, "another error was raised", raised)
    for told in (decoder.push(b"data: {}\n\n"), decoder.finish()):
        require(not told.items and told.error is None, "it speaks after the end", told)
    return Outcome(events, completion, error, message)


def check_api(plan: Plan, api: Api) -> None:
    """Hold, in both modes: the cut does not matter; there is an answer or one clean error; the outcome is what was
    delivered. And between them: what strict reads lenient reads, and whatever else it reads is on record."""

    def make(mode: Mode) -> Callable[[], Decoder]:
        options = CodecOptions(mode, limits=LIMITS[plan.option >> 3 & 3], extra=plan.flag(5))
        return lambda: api.decoder(options, lambda: 0.0)

    seen: dict[Mode, Outcome] = {}
    for mode in Mode:
        fresh = make(mode)
        whole = seen[mode] = outcome(fresh(), [plan.data])
        same("the cut matters", outcome(fresh(), plan.pieces()), whole)
        _consistent(whole, len(plan.data))
    strict, lenient = seen[Mode.STRICT], seen[Mode.LENIENT]
    same("lenient lost what strict delivered", _deltas(lenient)[: len(_deltas(strict))], _deltas(strict))
    if strict.completion is not None:
        same("lenient changed a good answer", lenient.completion, strict.completion)
    elif lenient.completion is not None:
        require(lenient.completion.anomaly_count > 0, "lenient forgave and kept no record", strict.error)


def _deltas(seen: Outcome) -> list[Event]:
    return [event for event in seen.events if not isinstance(event, Completed)]


def _consistent(seen: Outcome, size: int) -> None:
    deltas = _deltas(seen)
    require(len(seen.events) - len(deltas) == (seen.completion is not None), "an answer that is not the last event")
    require(all(event.text for event in deltas if isinstance(event, TextDelta | ReasoningDelta)), "an empty delta")
    told: Completion | Partial | None = seen.completion or (seen.error.partial if seen.error is not None else None)
    if told is None:
        require(False, "an error without what came before it")
        return
    texts = [event.text for event in deltas if isinstance(event, TextDelta)]
    thoughts = [event.text for event in deltas if isinstance(event, ReasoningDelta)]
    same("the text is not what was delivered", "".join(_of(told, Text)), "".join(texts))
    same("the reasoning is not what was delivered", sorted("".join(_of(told, Reasoning))), sorted("".join(thoughts)))
    ids = [part.id for part in told.parts if isinstance(part, ToolCall)]
    if seen.completion is not None:
        require(all(ids) and len(set(ids)) == len(ids), "calls without ids, or with one id", ids)
    if seen.error is not None:
        words = f"{seen.error}{seen.error!r}"
        require(words.isascii() and len(words) < 400, "an error's words are not ours", words)
        offset = seen.error.offset
        require(offset is not None and 0 <= offset <= size, "an offset lies outside", offset)
        require(seen.message is None or len(seen.message.encode()) <= 4096, "a server's message is not cut")


def _of(told: Completion | Partial, kind: type[Text] | type[Reasoning]) -> list[str]:
    return [part.text for part in told.parts if isinstance(part, kind)]

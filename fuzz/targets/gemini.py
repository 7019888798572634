"""Gemini: any bytes at any cut are the same events and then an answer or one ``SvirError``; lenient gives what strict
gives, and what more it takes is on record; an answer goes out again, is read alike, and is sent back."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final

import attrs

from fuzz.check import Mutate, Target, require, same
from fuzz.mutate import events
from fuzz.plan import Plan, read
from svir_core.errors import SvirError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta
from svir_core.limits import Limits
from svir_core.message import Part, Reasoning, Text, ToolCall
from svir_core.request import Request
from svir_core.response import Completion
from svir_core.slow_json import read_any
from svir_core.wire.gemini import API, Decoder, Encoder

LIMITS: Final = (
    Limits(),
    Limits(),
    Limits(wire_bytes=300, event_bytes=200, tool_calls=1),
    Limits(wire_bytes=1 << 20, event_bytes=300, tool_calls=2),
)

_CHUNK: Final = b'data: {"candidates":[{"content":{"parts":[%b]},%b"index":0}]}\n\n'
FRAGMENTS: Final = (
    _CHUNK % (b'{"text":"x"}', b""),
    _CHUNK % (b'{"text":"\\ud83e"}', b""),
    _CHUNK % (b'{"text":"\\udd14","thought":true}', b""),
    _CHUNK % (b'{"text":"","thoughtSignature":"UzE="}', b""),
    _CHUNK % (b'{"functionCall":{"name":"f","args":{"a":1.0}},"thoughtSignature":"UzE="}', b""),
    _CHUNK % (b'{"functionCall":{"name":"f","id":"i","willContinue":true}}', b""),
    _CHUNK % (b'{"functionCall":{"partialArgs":[{"jsonPath":"$.a[0].b","stringValue":"x"}],"willContinue":true}}', b""),
    _CHUNK % (b'{"functionCall":{"partialArgs":[{"jsonPath":"$.n","numberValue":1e999}]}}', b""),
    _CHUNK % (b'{"functionCall":{}}', b""),
    _CHUNK % (b'{"toolCall":{"id":"s"}}', b'"continuationToken":"T",'),
    _CHUNK % (b'{"text":""}', b'"finishReason":"STOP",'),
    _CHUNK % (b'{"text":"x"}', b'"finishReason":"CONTINUATION","continuationToken":"T",'),
    b'data: {"candidates":[{"index":1,"finishReason":"MAX_TOKENS"},{"finishReason":"SAFETY"}]}\n\n',
    b'data: {"usageMetadata":{"promptTokenCount":1,"thoughtsTokenCount":2}}\n\n',
    b'data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n',
    b'data: {"code":429,"status":"RESOURCE_EXHAUSTED"}\n\n',
    b'{"error": {\n"message": "}"}\n}\n',
)

Seen = tuple[list[Event], Completion | None, SvirError | None, str | None]


def see(pieces: Iterable[bytes], **options: Any) -> Seen:
    """What a decoder says of ``pieces`` and the end of input."""
    decoder = Decoder(clock=lambda: 0.0, **options)
    told: list[Event] = []
    for piece in pieces:
        found = decoder.push(piece)
        told += found.items
        if decoder.done:
            break
    else:
        told += decoder.finish().items
    require(decoder.done, "the end of input is no end")
    require((decoder.error is None) is (decoder.completion is not None), "neither an answer nor an error")
    return told, decoder.completion, decoder.error, None if decoder.error is None else decoder.error.server_message()


def check(raw: bytes) -> None:
    plan = read(raw)
    strict, lenient = (_check_mode(plan, mode) for mode in ("strict", "lenient"))
    same("lenient lost what strict delivered", lenient[0][: len(strict[0])], strict[0])
    if strict[1] is not None:
        require(not strict[1].anomaly_count, "strict forgave", strict[1].anomalies)
        same("lenient changed a good answer", lenient[1], strict[1])
    elif lenient[1] is not None:
        require(lenient[1].anomaly_count > 0, "lenient forgave and kept no record", strict[2])


def _check_mode(plan: Plan, mode: str) -> Seen:
    options = {"mode": mode, "limits": LIMITS[plan.option & 3], "extra": plan.flag(5)}
    whole = see([plan.data], **options)
    same("the cut matters", see(plan.pieces(), **options), whole)
    events_told, completion, error, _ = whole
    said = completion or (error and error.partial)
    require(said is not None, "an error without what came before it")
    if said:
        text = "".join(event.text for event in events_told if isinstance(event, TextDelta))
        same("the text is not what was delivered", said.text, text)
        thoughts = "".join(event.text for event in events_told if isinstance(event, ReasoningDelta))
        same("the thoughts are not", "".join(part.text for part in said.parts if isinstance(part, Reasoning)), thoughts)
    if completion is not None:
        _check_answer(completion)
    elif error is not None:
        require(f"{error}{error!r}".isascii(), "an error's words are not ours", str(error))
        require(error.offset is not None and 0 <= error.offset <= len(plan.data), "an offset lies outside")
    return whole


def _check_answer(answer: Completion) -> None:
    ids = [call.id for call in answer.calls]
    require(all(ids) and len(set(ids)) == len(ids), "calls without ids of their own", ids)
    require(all(part.text or part.opaque for part in answer.parts if isinstance(part, Text)), "an empty part")
    body = bytes(Encoder().encode(Request("m").user("x").assistant(answer)))
    require(read_any(body.decode()) is not None, "a body that is no JSON", body)
    try:
        sent = API.server.stream("m", "r", 0).push(Completed(answer))
    except SvirError:
        return  # an unknown finish, or a call that is not whole
    _, again, error, _ = see([sent])
    if again is None:
        require("nested" in f"{error}" or "larger" in f"{error}", "what was written is not read", error)
    else:
        same("another answer on the way back", (_told(again), again.finish), (_told(answer), answer.finish))


def _told(answer: Completion) -> list[Part]:
    """The parts without the ids that svir made: those come from the response's own id."""
    return [
        attrs.evolve(part, id="") if isinstance(part, ToolCall) and part.synthetic_id else part for part in answer.parts
    ]


def change(raw: bytes, max_size: int, seed: int, blindly: Mutate) -> bytes:
    """As streams are changed, with one more event of this API now and then."""
    rng = random.Random(seed)
    if rng.random() < 0.7:
        return events(raw, max_size, seed, blindly)
    place = raw.find(b"\n\n", rng.randrange(len(raw) + 1))
    place = len(raw) if place < 0 else place + 2
    return (raw[:place] + rng.choice(FRAGMENTS) + raw[place:])[:max_size]


TARGET = Target(check, "gemini", change, max_size=1024)

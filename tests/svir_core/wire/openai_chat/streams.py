"""Streams of Chat Completions for tests, and everything that can be seen of how one was decoded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import orjson

from svir_core.errors import SvirError
from svir_core.event import Event, ReasoningDelta, TextDelta
from svir_core.response import Completion
from svir_core.wire.openai_chat.decode import Decoder

Json = dict[str, Any]
MODES = ("strict", "lenient")
DONE = b"data: [DONE]\n\n"


def event(payload: bytes | str | Json) -> bytes:
    """One event of one data line."""
    if isinstance(payload, dict):
        payload = orjson.dumps(payload)
    elif isinstance(payload, str):
        payload = payload.encode()
    return b"data: " + payload + b"\n\n"


def choices(delta: Any = None, finish: Any = None, **more: Any) -> list[Json]:
    return [{"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish, **more}]


def document(delta: Any = None, finish: Any = None, **more: Any) -> Json:
    """A chunk as an object; ``more`` are members of the chunk."""
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": choices(delta, finish), **more}


def chunk(delta: Any = None, finish: Any = None, **more: Any) -> bytes:
    return event(document(delta, finish, **more))


def text(content: str) -> bytes:
    return chunk({"content": content})


def finish(word: str = "stop") -> bytes:
    return chunk({}, word)


def stream(*pieces: bytes, end: bytes = b"") -> bytes:
    """``pieces``, then ``end`` or a stop and ``[DONE]``."""
    return b"".join(pieces) + (end or finish() + DONE)


def call(index: Any = 0, **fields: Any) -> Json:
    """A piece of a call: ``name`` and ``arguments`` go into its function."""
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return {"index": index, **fields, **({"function": function} if function else {})}


def calls(*pieces: Any) -> bytes:
    return chunk({"tool_calls": list(pieces)})


@attrs.frozen
class Seen:
    """All that a caller can see of one decoded stream, but for when it saw it."""

    events: tuple[Event, ...]
    completion: Completion | None
    error: SvirError | None
    message: str | None
    counts: tuple[int, int] | None

    @property
    def kind(self) -> str | None:
        return None if self.error is None else self.error.kind.value

    @property
    def answer(self) -> Completion:
        assert self.error is None, (self.error, self.message)
        assert self.completion is not None
        return self.completion

    @property
    def text(self) -> str:
        return "".join(each.text for each in self.events if isinstance(each, TextDelta))

    @property
    def reasoning(self) -> str:
        return "".join(each.text for each in self.events if isinstance(each, ReasoningDelta))

    @property
    def codes(self) -> list[str]:
        anomalies = self.error.anomalies if self.error is not None else self.answer.anomalies
        return [anomaly.code.value for anomaly in anomalies]


def see(pieces: Iterable[bytes], mode: str = "strict", **options: Any) -> Seen:
    """Push ``pieces`` and the end; once more after the end, when nothing must be said."""
    decoder = Decoder(mode=mode, clock=lambda: 0.0, **options)
    events: list[Event] = []
    for piece in pieces:
        told = decoder.push(piece)
        events += told.items
        if decoder.done:
            break
    else:
        told = decoder.finish()
        events += told.items
    assert decoder.done
    assert told.error is decoder.error
    assert (decoder.error is None) is (decoder.completion is not None)
    message = None if decoder.error is None else decoder.error.server_message()
    counts = (decoder.events_seen, decoder.output_seen)  # after an error the rest of its push is counted too
    return Seen(tuple(events), decoder.completion, decoder.error, message, counts if decoder.error is None else None)


def split(data: bytes, stride: int) -> Sequence[bytes]:
    return [data[start : start + stride] for start in range(0, len(data), stride)]


def decoded(data: bytes, mode: str = "strict", **options: Any) -> Seen:
    """``data`` decoded whole, and the same byte by byte and in threes."""
    whole = see([data], mode, **options)
    for stride in (1, 3):
        assert see(split(data, stride), mode, **options) == whole
    return whole


def both(data: bytes, **options: Any) -> Seen:
    """``data`` decoded in both modes, which agree and have nothing to forgive."""
    strict, lenient = (decoded(data, mode, **options) for mode in MODES)
    assert strict == lenient
    assert strict.codes == []
    return strict


def refused(data: bytes, kind: str, *codes: str, **options: Any) -> Seen:
    """``data`` that strict refuses with ``kind`` and lenient forgives with ``codes``; what lenient saw."""
    strict = decoded(data, "strict", **options)
    assert strict.kind == kind, strict
    lenient = decoded(data, "lenient", **options)
    assert lenient.codes == list(codes), lenient
    return lenient

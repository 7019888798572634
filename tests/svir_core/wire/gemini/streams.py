"""Streams of Gemini for tests, and everything that can be seen of how one was decoded."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
import orjson

from conformance.fields import content, load
from svir_core.errors import SvirError
from svir_core.event import Event, ReasoningDelta, TextDelta
from svir_core.message import Part, ToolCall
from svir_core.response import Completion
from svir_core.wire.gemini import Decoder

Json = dict[str, Any]
MODES = ("strict", "lenient")
CASES = pathlib.Path(__file__).parents[4] / "conformance" / "decoder" / "gemini"


def event(payload: bytes | Json) -> bytes:
    """One event of one data line."""
    return b"data: " + (orjson.dumps(payload) if isinstance(payload, dict) else payload) + b"\r\n\r\n"


def candidate(*parts: Json, finish: Any = None, **more: Any) -> Json:
    said: Json = {"content": {"parts": list(parts), "role": "model"}} if parts else {}
    return {**said, **({} if finish is None else {"finishReason": finish}), "index": 0, **more}


def chunk(*parts: Json, finish: Any = None, usage: Json | None = None, **more: Any) -> bytes:
    """One chunk of one candidate; ``more`` are members of the candidate."""
    report = {} if usage is None else {"usageMetadata": usage}
    return event({"candidates": [candidate(*parts, finish=finish, **more)], **report})


def text(said: str, **more: Any) -> Json:
    return {"text": said, **more}


def thought(said: str, **more: Any) -> Json:
    return {"text": said, "thought": True, **more}


def call(name: str | None = None, *, beside: Json | None = None, **fields: Any) -> Json:
    named = {} if name is None else {"name": name}
    return {"functionCall": {**named, **fields}, **(beside or {})}


def pieces(*found: Json, go_on: bool = True, **fields: Any) -> Json:
    more = {"willContinue": True} if go_on else {}
    return {"functionCall": {"partialArgs": list(found), **more, **fields}}


def piece(path: Any, **value: Any) -> Json:
    return {"jsonPath": path, **value}


STOP = chunk(finish="STOP")


def anonymous(parts: Iterable[Part]) -> list[Part]:
    """The parts without the ids that were made for calls: those depend on the response."""
    return [attrs.evolve(part, id="") if isinstance(part, ToolCall) and part.synthetic_id else part for part in parts]


@attrs.frozen
class Seen:
    """All that a caller can see of one decoded stream, but for when it saw it."""

    events: tuple[Event, ...]
    completion: Completion | None
    error: SvirError | None
    message: str | None
    token: str | None
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


def see(data: Iterable[bytes], mode: str = "strict", decoder: type[Decoder] = Decoder, **options: Any) -> Seen:
    """Push ``data`` and the end; then once more, when nothing must be said."""
    opened = decoder(mode=mode, clock=lambda: 0.0, **options)
    events: list[Event] = []
    for each in data:
        told = opened.push(each)
        events += told.items
        if opened.done:
            break
    else:
        told = opened.finish()
        events += told.items
    assert opened.done
    assert told.error is opened.error
    assert (opened.error is None) is (opened.completion is not None)
    message = None if opened.error is None else opened.error.server_message()
    counts = (opened.events_seen, opened.output_seen)  # after an error the rest of its push is counted too
    token = opened.continuation_token
    return Seen(
        tuple(events), opened.completion, opened.error, message, token, counts if opened.error is None else None
    )


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


def cases() -> Iterator[tuple[str, bytes]]:
    """The streams of the conformance cases, by name."""
    for path in sorted(CASES.rglob("*.json")):
        document: Any = load(path)
        yield f"{path.parent.name}/{path.stem}", b"".join(content(each, "chunks") for each in document["chunks"])


STREAMS = dict(cases())

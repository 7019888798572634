"""Streams of Anthropic Messages for tests, and everything that can be seen of how one was decoded."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import orjson

from conformance.fields import content
from svir_core.errors import SvirError
from svir_core.event import Event, ReasoningDelta, TextDelta
from svir_core.response import Completion
from svir_core.wire.anthropic_messages import Decoder

Json = dict[str, Any]
MODES = ("strict", "lenient")
CASES = pathlib.Path(__file__).parents[4] / "conformance" / "decoder" / "anthropic_messages"
RECORDED = sorted((CASES / "recorded").glob("*.sse"))


def event(payload: bytes | str | Json, name: str | None = None) -> bytes:
    """One event, named after its data unless a name is given."""
    if isinstance(payload, dict):
        name = str(payload["type"]) if name is None else name
        payload = orjson.dumps(payload)
    elif isinstance(payload, str):
        payload = payload.encode()
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + payload + b"\n\n"


def start(**message: Any) -> bytes:
    fields: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    usage = {"input_tokens": 3, "output_tokens": 1}
    return event({"type": "message_start", "message": {**fields, "usage": usage, **message}})


def opened(index: int, kind: str = "text", **fields: Any) -> bytes:
    return event({"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}})


def delta(index: Any, kind: str, **fields: Any) -> bytes:
    return event({"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}})


def closed(index: int) -> bytes:
    return event({"type": "content_block_stop", "index": index})


def text(index: int, *pieces: str) -> bytes:
    return b"".join(
        [opened(index, text=""), *(delta(index, "text_delta", text=piece) for piece in pieces), closed(index)]
    )


def thinking(index: int, said: str, signature: str = "") -> bytes:
    pieces = [opened(index, "thinking", thinking="", signature=""), delta(index, "thinking_delta", thinking=said)]
    if signature:
        pieces.append(delta(index, "signature_delta", signature=signature))
    return b"".join([*pieces, closed(index)])


def call(index: int, call_id: str, *fragments: str, name: str = "f") -> bytes:
    pieces = [delta(index, "input_json_delta", partial_json=fragment) for fragment in fragments]
    return b"".join([opened(index, "tool_use", id=call_id, name=name, input={}), *pieces, closed(index)])


def reason(word: str | None = "end_turn", **fields: Any) -> bytes:
    return event({"type": "message_delta", "delta": {"stop_reason": word}, "usage": {"output_tokens": 4}, **fields})


STOP = event({"type": "message_stop"})


def stream(*pieces: bytes, end: bytes = b"") -> bytes:
    """A message of ``pieces``, then ``end`` or the end of a turn."""
    return b"".join((start(), *pieces)) + (end or reason() + STOP)


@attrs.frozen
class Seen:
    """All that a caller can see of one decoded stream, but for when it saw it."""

    events: tuple[Event, ...]
    completion: Completion | None
    error: SvirError | None
    message: str | None
    output_seen: int

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
    """Push ``pieces`` and the end."""
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
    return Seen(tuple(events), decoder.completion, decoder.error, message, decoder.output_seen)


def split(data: bytes, stride: int) -> Sequence[bytes]:
    return [data[begin : begin + stride] for begin in range(0, len(data), stride)]


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


def streams() -> list[tuple[str, bytes]]:
    """What the conformance cases push, and the recordings, by name."""
    found = [(path.stem, path.read_bytes()) for path in RECORDED]
    for path in sorted(CASES.rglob("*.json")):
        chunks = orjson.loads(path.read_bytes()).get("chunks", ())
        if chunks:
            found.append((f"{path.parent.name}/{path.stem}", b"".join(content(chunk, path.stem) for chunk in chunks)))
    return found

"""The events of one stream, as bytes: blocks in order, one at a time, indices from 0 (21 section 9)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from svir_core.json_text import sanitize
from svir_core.slow_json import exact_text
from svir_core.wire.anthropic_messages.table import CALL, SOURCE, STOP, TEXT
from svir_core.wire.json_value import Json

STARTS: Final[dict[str, Json]] = {
    TEXT: {"type": TEXT, TEXT: ""},
    SOURCE: {"type": SOURCE, SOURCE: "", "signature": ""},
}
"""How a block of text, and one of thinking, begins when there is nothing beside it."""


class EventWriter:
    """Writes the events of one answer.

    Attributes:
        open: the type of the block that is open, or ``None``.
    """

    __slots__ = ("_head", "_index", "_out", "_started", "open")

    def __init__(self, model: str, id: str) -> None:
        self._head: Json = {"id": sanitize(id), "type": "message", "role": "assistant", "model": sanitize(model)}
        self._out: list[bytes] = []
        self._started = False
        self._index = -1
        self.open: str | None = None

    def taken(self) -> bytes:
        """What was written since the last call."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def event(self, kind: str, fields: Json) -> None:
        """One event of the type ``kind``."""
        payload = exact_text({"type": kind, **fields}).encode()
        self._out.append(b"event: " + kind.encode() + b"\ndata: " + payload + b"\n\n")

    def begin(self, usage: Json) -> None:
        """``message_start``, once; ``usage`` is what is known of it."""
        if not self._started:
            self._started = True
            rest: Json = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
            self.event("message_start", {"message": {**self._head, **rest}})

    def start(self, block: Json) -> None:
        """A block begins, after the one before it has ended."""
        self.stop()
        self._index += 1
        self.open = str(block["type"])
        self.event("content_block_start", {"index": self._index, "content_block": block})

    def delta(self, kind: str, key: str, value: Any) -> None:
        """A delta of the block that is open."""
        self.event("content_block_delta", {"index": self._index, "delta": {"type": kind, key: value}})

    def stop(self) -> None:
        """The block that is open, if one is, ends."""
        if self.open is not None:
            self.open = None
            self.event("content_block_stop", {"index": self._index})

    def speak(self, kind: str, text: str) -> None:
        """A piece of text or thinking, in a block of that type."""
        if self.open != kind:
            self.start(STARTS[kind])
        self.delta(f"{kind}_delta", kind, sanitize(text))

    def call(self, call_id: str, name: str, beside: Json) -> None:
        """A call begins."""
        self.start({"type": CALL, "id": sanitize(call_id), "name": sanitize(name), "input": {}, **beside})

    def arguments(self, pieces: Iterable[str]) -> None:
        """Further pieces of the arguments of the call that is open."""
        for piece in pieces:
            self.delta("input_json_delta", "partial_json", sanitize(piece))

    def end(self, reason: str, stop_sequence: str | None, usage: Json) -> None:
        """The answer is whole."""
        self.stop()
        delta: Json = {"stop_reason": reason, "stop_sequence": stop_sequence}
        self.event("message_delta", {"delta": delta, "usage": usage})
        self.event(STOP, {})


def error_event(kind: str, message: str, details: Json | None) -> bytes:
    """``event: error``, after which nothing comes."""
    error = {"type": kind, "message": sanitize(message), "details": details}
    return b"event: error\ndata: " + orjson.dumps({"type": "error", "error": error}) + b"\n\n"

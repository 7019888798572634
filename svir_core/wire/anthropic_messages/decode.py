"""Decode a stream of Anthropic Messages: 21 sections 9 to 13.

Where a rule lives: framing in ``sse``, a body that is no stream in ``opening``, failures in ``wire.failure`` and
``wire.verdict``, payloads that are no JSON object in ``wire.payload``, what strict refuses and lenient forgives in
``wire.policy``, what may follow what and what a stop reason means in ``table``, which block an event belongs to in
``blocks``, what the events of a block amount to in ``block``, what stands beside them in ``envelope``, token counts
in ``usage``. This file is the way of one event through them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import attrs
import orjson

from svir_core.check import expect
from svir_core.errors import ProtocolError
from svir_core.event import Event
from svir_core.limits import Limits
from svir_core.message import Part, ToolCall
from svir_core.response import AnomalyCode, Completion, FinishReason, Usage
from svir_core.slow_json import loosely
from svir_core.sse import Kind
from svir_core.wire.anthropic_messages.block import Spoken
from svir_core.wire.anthropic_messages.blocks import SPOKEN, Blocks
from svir_core.wire.anthropic_messages.envelope import ABSENT, Envelope
from svir_core.wire.anthropic_messages.said import Said
from svir_core.wire.anthropic_messages.table import (
    CUT,
    DELTA,
    DELTAS,
    DONE,
    FALLBACK,
    SOURCE,
    STOP,
    TEXT,
    Move,
    State,
    step,
)
from svir_core.wire.api import Clock, Mode
from svir_core.wire.failure import describe, sniff
from svir_core.wire.json_value import Json, is_array, is_object
from svir_core.wire.payload import second_look
from svir_core.wire.stream import StreamDecoder


class Decoder(StreamDecoder):
    """One streamed answer of Anthropic Messages. Push bytes in any pieces, iterate what comes back, then ``finish()``.

    Args:
        mode: "strict" refuses what the protocol does not allow; "lenient" forgives and records it.
        limits: what the response may cost.
        clock: seconds, from any start; read here and where visible deltas come.
        extra: keep what the server says beyond the protocol, and its own usage, on ``completion.extra``.

    Raises ``ConfigError`` for an option that is none of these.
    """

    __slots__ = ("_blocks", "_envelope", "_speaker", "_speaking", "_state")

    def __init__(
        self,
        *,
        mode: Mode | str = Mode.STRICT,
        limits: Limits | None = None,
        clock: Clock = time.monotonic,
        extra: bool = False,
    ) -> None:
        limits = Limits() if limits is None else expect(limits, Limits, "limits")
        super().__init__(mode=mode, limits=limits, clock=clock, types=None, terminator=None)
        self._blocks = Blocks(
            limits.tool_calls, {TEXT: self._text, SOURCE: partial(self._reasoned, SOURCE)}, self._called
        )
        self._state = State.START
        self._envelope = Envelope(self._forgive, extra=expect(extra, bool, "extra"))
        self._speaker: Spoken | None = None  # the block of the event before, when its next piece is one to deliver
        self._speaking = 0  # and its index

    def _named(self) -> tuple[Usage | None, str | None, str | None]:
        return self._envelope.usage, self._envelope.model, self._envelope.id

    # --- payloads --------------------------------------------------------------------------------

    def _event(self, payload: bytes, name: str | None) -> None:
        event: Any
        try:
            event = orjson.loads(payload)
        except orjson.JSONDecodeError:
            event = None
        speaker = self._speaker
        if speaker is not None and self._plain_piece(speaker, event, name):
            return
        if not payload or payload.strip() == DONE:
            return
        self._speaker = None
        if is_object(event):
            self._envelope.reading.take(payload)
            self._sniff(event)
        else:
            if name is not None and name not in NAMES and not is_object(loosely(payload)):
                return  # an event that the API may add need not be JSON
            event = self._look_again(payload)
            if event is None:
                return
        kind = self._type(event, name)
        handler = HANDLERS.get(kind)
        if handler is not None:
            handler(self, event)
        elif kind == "message" and self._state is State.START and _is_message(event):
            self._forgive(AnomalyCode.WHOLE_DOCUMENT)
            self._replay(event)

    def _plain_piece(self, speaker: Spoken, event: Any, name: str | None) -> bool:
        """The lane of nearly every event: one more piece of what came before, and nothing else that any rule looks at.
        False, and nothing done, for everything else: it then goes the general way."""
        try:
            delta = event["delta"]
            index = event["index"]
            text = delta[speaker.kind]
            if (
                event["type"] != DELTA
                or name != DELTA
                or index != self._speaking
                or type(index) is not int
                or delta["type"] != speaker.delta
                or type(text) is not str
                or len(event) != 3
            ):
                return False
        except (KeyError, TypeError):
            return False
        if text:
            speaker.speak(text)
        return True

    def _look_again(self, payload: bytes) -> Json | None:
        """The object in a payload that the JSON library does not take, or that is none. A failure comes first."""
        found = second_look(payload)
        if found.chunk is not None:
            self._sniff(found.chunk)
        for code in found.codes:
            self._forgive(code)
        self._envelope.reading.take(payload, found.raw, huge=found.huge)
        return found.chunk

    def _sniff(self, event: Json) -> None:
        failure = sniff(event)
        if failure is None and event.get("type") == "error":
            failure = describe(event)
        if failure is not None:
            self._fail_with(failure, self._payload)

    def _type(self, event: Json, name: str | None) -> str:
        """The type of an event is what its data says; its name says the same. A ping need not say anything."""
        kind = event.get("type")
        if kind == name and name is not None:
            return name
        if not isinstance(kind, str):
            if name is None or name in (NAMES if event else HANDLERS):
                self._forgive(AnomalyCode.EVENT_NAME)
            return name or ""
        if kind in HANDLERS or name in NAMES:
            self._forgive(AnomalyCode.EVENT_NAME)
        return kind

    def _unusual(self, kind: Kind, name: str | None, payload: bytes) -> None:
        """Of an event that never ended only ``message_stop`` counts: its data is whole, and nothing would have been
        read after it (10 section 1, of ``[DONE]``)."""
        if kind is Kind.REST and is_object(event := loosely(payload)) and event.get("type") == STOP:
            self._event(payload, name)
        else:
            super()._unusual(kind, name, payload)

    def _document(self, document: Any) -> bool:
        if not _is_message(document):
            return False
        self._forgive(AnomalyCode.WHOLE_DOCUMENT)
        self._replay(self._look_again(self._payload) or document)
        return True

    # --- events ----------------------------------------------------------------------------------

    def _step(self, move: Move) -> None:
        self._state = step(self._state, move, self._forgive)

    def _message_start(self, event: Json) -> None:
        message = self._envelope.object(event, "message")
        if message.get("content"):
            raise ProtocolError("an answer begins with content in it")
        self._step(Move.MESSAGE)
        self._envelope.begin(message, ("message",), goes_on=len(self._blocks) > 0)

    def _block_start(self, event: Json) -> None:
        index = _index(event)
        block = event.get("content_block")
        if not is_object(block):
            raise ProtocolError("a block is not an object")
        self._step(Move.BLOCK)
        self._start(index, self._envelope.reading.said(block, ("content_block",)))

    def _start(self, index: int, block: Said) -> None:
        self._blocks.start(index, block)
        if block.fields["type"] == FALLBACK:
            self._envelope.fall_back(block.fields)

    def _block_delta(self, event: Json) -> None:
        index = _index(event)
        delta = event.get("delta")
        if not is_object(delta):
            raise ProtocolError("a delta is not an object")
        kind = delta.get("type")
        if not isinstance(kind, str):
            raise ProtocolError("a delta has no type")
        if self._blocks.find(index) is not None:
            self._step(Move.DELTA)
        elif kind in DELTAS:
            self._step(Move.STRAY_DELTA)
            self._start(index, self._imagined(DELTAS[kind]))
        else:
            return
        self._blocks.push(index, kind, self._envelope.reading.said(delta, ("delta",)))
        self._speaker = self._blocks.speaker(index)
        self._speaking = index

    def _imagined(self, kind: str) -> Said:
        """The start, which never came, of a block that need not say more than its type."""
        if kind not in SPOKEN:
            raise ProtocolError("a delta of a block that did not begin")
        start = {"type": kind}
        return Said(start, start, lambda: start, self._forgive)

    def _block_stop(self, event: Json) -> None:
        index = _index(event)
        block = self._blocks.find(index)
        if block is None or block.stopped:
            self._step(Move.STRAY_STOP)
            return
        self._step(Move.STOP)
        self._blocks.stop(index)
        if self._state is State.OPEN and self._blocks.open:
            self._state = State.BLOCK

    def _message_delta(self, event: Json) -> None:
        delta = self._envelope.object(event, "delta")
        self._step(Move.USAGE if delta.get("stop_reason") in ABSENT else Move.FINISH)
        self._envelope.delta(event, delta)

    def _message_stop(self, event: Json) -> None:
        self._end()

    # --- a whole document ------------------------------------------------------------------------

    def _replay(self, message: Json) -> None:
        """A message that came whole, as the events it amounts to."""
        self._step(Move.MESSAGE)
        self._envelope.begin(message, (), goes_on=False)
        for index, block in enumerate(message["content"]):
            if not is_object(block):
                raise ProtocolError("a block is not an object")
            self._step(Move.BLOCK)
            self._start(index, self._envelope.reading.said(block, ("content", index)))
            self._step(Move.STOP)
            self._blocks.stop(index)
        if message.get("stop_reason") not in ABSENT:
            self._step(Move.FINISH)
            self._envelope.finished(message["stop_reason"])
        self._end()

    # --- the end ---------------------------------------------------------------------------------

    def _end(self) -> None:
        """``message_stop``: the answer is whole, or it never finished."""
        self._step(Move.END)
        self._blocks.end()
        envelope = self._envelope
        parts = self._blocks.parts(cut=envelope.finish in CUT)
        if envelope.finish is FinishReason.TOOL_CALLS and not any(isinstance(part, ToolCall) for part in parts):
            raise ProtocolError("the stop reason 'tool_use' does not fit what was answered")
        if envelope.finish is FinishReason.REFUSAL:
            parts = tuple(map(_withdrawn, parts))
        self._complete(
            Completion(
                envelope.finish,
                parts,
                envelope.usage,
                self._timing(),
                envelope.model,
                envelope.id,
                tuple(self._policy.anomalies),
                self._policy.count,
                envelope.word,
                envelope.extra,
            )
        )

    def _drop(self) -> None:
        super()._drop()
        self._envelope = Envelope(self._forgive, extra=False)
        self._speaker = None
        self._blocks = Blocks(0, {}, self._called)


HANDLERS: Final[Mapping[str, Callable[[Decoder, Json], None]]] = {
    "message_start": Decoder._message_start,
    "content_block_start": Decoder._block_start,
    DELTA: Decoder._block_delta,
    "content_block_stop": Decoder._block_stop,
    "message_delta": Decoder._message_delta,
    STOP: Decoder._message_stop,
}
"""What reads each event. All others are skipped: ``ping``, and those that the API may add."""

NAMES: Final = frozenset({*HANDLERS, "ping"})
"""The names that must be those of their data."""


def _withdrawn(part: Part) -> Part:
    """What was said before a refusal is withdrawn (21 section 11): its calls must not be run."""
    return attrs.evolve(part, complete=False) if isinstance(part, ToolCall) else part


def _is_message(value: Any) -> bool:
    """Whether ``value`` is a whole answer."""
    return is_object(value) and value.get("type") == "message" and is_array(value.get("content"))


def _index(event: Json) -> int:
    index = event.get("index")
    if type(index) is not int or index < 0:
        raise ProtocolError("an event of a block has no index")
    return index


def decode(chunks: Iterable[bytes | bytearray | memoryview], **options: Any) -> Iterator[Event]:
    """The events of one streamed answer: ``Decoder(**options)``, pushed and finished.

    Raises the decoder's error after the last good event; stops reading ``chunks`` once the answer is whole.
    """
    decoder = Decoder(**options)
    for chunk in chunks:
        yield from decoder.push(chunk)
        if decoder.done:
            return
    yield from decoder.finish()

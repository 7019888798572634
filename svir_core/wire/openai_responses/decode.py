"""Decode a stream of OpenAI Responses: 20 sections 7 to 12, within 00 section 2 and 11 sections A and B.

Where a rule lives: framing in ``sse``, a body that is no stream in ``opening``, failures in ``wire.failure`` and
``wire.verdict``, what strict refuses and lenient forgives in ``wire.policy``, events and their order in ``table``,
which item an event is about in ``output``, texts in ``speech`` and ``run``, calls in ``call``, what an item becomes in
``item``, the final response in ``final``, the finish in ``finish``, usage in ``usage``. This file is the way of one
event through them.

An event is known by the ``type`` in its data. ``sequence_number`` is not looked at: it is for resuming a stream, which
this decoder does not do. A stream that is resumed in its middle is refused in strict mode.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import attrs
import orjson

from svir_core.check import expect
from svir_core.errors import ProtocolError, TruncatedStreamError
from svir_core.event import Event
from svir_core.limits import DOCUMENT_BYTES, Limits
from svir_core.message import ToolCall
from svir_core.response import AnomalyCode, Completion, Usage
from svir_core.slow_json import exact_text, loosely, read_exact, without_lone_surrogates
from svir_core.sse import Kind as FrameKind
from svir_core.wire.api import Clock, Mode
from svir_core.wire.failure import Failure, describe, sniff
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.openai_responses import final, usage
from svir_core.wire.openai_responses.finish import finish_of
from svir_core.wire.openai_responses.output import Output
from svir_core.wire.openai_responses.run import Run
from svir_core.wire.openai_responses.speech import Speech
from svir_core.wire.openai_responses.table import (
    ANNOUNCED,
    CALL_EVENTS,
    COMPLETED,
    CREATED,
    CUT,
    DONE,
    ENDS,
    ERROR,
    FAILED,
    FAILURES,
    ITEM_EVENTS,
    KINDS,
    PART_EVENTS,
    RESPONSES,
    TEXT_EVENTS,
    CallEvent,
    State,
    Step,
    TextEvent,
    taken,
)
from svir_core.wire.payload import second_look
from svir_core.wire.stream import CUT_OFF, StreamDecoder


class Decoder(StreamDecoder):
    """One streamed answer of OpenAI Responses. Push bytes in any pieces, iterate what comes back, then ``finish()``.

    Args:
        mode: "strict" refuses what the protocol does not allow; "lenient" forgives and records it.
        limits: what the response may cost. The final event repeats the whole answer: where ``event_bytes`` is the
            default, which is made for deltas, it is read up to what a whole document may have, 16 MiB.
        clock: seconds, from any start; read here and where visible deltas come.
        extra: keep what the server says beyond the protocol on ``completion.extra``, its usage report too.

    Raises ``ConfigError`` for an option that is none of these.
    """

    __slots__ = ("_extra", "_id", "_model", "_output", "_raw", "_state", "_unterminated", "_usage")

    def __init__(
        self,
        *,
        mode: Mode | str = Mode.STRICT,
        limits: Limits | None = None,
        clock: Clock = time.monotonic,
        extra: bool = False,
    ) -> None:
        limits = Limits() if limits is None else expect(limits, Limits, "limits")
        if limits.event_bytes == Limits().event_bytes:
            limits = attrs.evolve(limits, event_bytes=DOCUMENT_BYTES)
        super().__init__(mode=mode, limits=limits, clock=clock, types=None, terminator=None)
        self._extra = expect(extra, bool, "extra")
        self._output = Output(limits.tool_calls, self._forgive, self._deliver, self._called)
        self._state = State.ABSENT
        self._id: str | None = None
        self._model: str | None = None
        self._usage: Usage | None = None
        self._raw: Json | None = None  # the event at hand, lone surrogates still in it
        self._unterminated = False  # whether the event at hand ended with the input

    def _named(self) -> tuple[Usage | None, str | None, str | None]:
        return self._usage, self._model, self._id

    def _deliver(self, source: str | None, text: str) -> None:
        if source is None:
            self._text(text)
        else:
            self._reasoned(source, text)

    # --- payloads --------------------------------------------------------------------------------

    def _event(self, payload: bytes, name: str | None) -> None:
        event: Any
        try:
            event = orjson.loads(payload)
        except orjson.JSONDecodeError:
            event = None
        if is_object(event):
            self._raw = None
        elif not payload or payload.startswith(DONE):
            return
        else:
            event = self._look_again(payload, name)
        if event is not None:
            self._read_event(event, _kind(event, name))

    def _look_again(self, payload: bytes, name: str | None) -> Json | None:
        """The object in a payload that the JSON library does not take, or that is none. A failure comes first."""
        found = second_look(payload)
        if found.chunk is not None:
            self._fail_if(found.chunk, _kind(found.chunk, name))
        for code in found.codes:
            self._forgive(code)
        self._raw = found.raw
        return found.chunk

    def _read_event(self, event: Json, kind: str) -> None:
        self._fail_if(event, kind)
        if kind in TEXT_EVENTS:
            self._about_text(event, TEXT_EVENTS[kind])
        elif kind in CALL_EVENTS:
            self._about_call(event, CALL_EVENTS[kind])
        elif kind in ITEM_EVENTS:
            self._about_item(event, ITEM_EVENTS[kind])
        elif kind in PART_EVENTS:
            self._about_part(event, PART_EVENTS[kind])
        elif kind == CREATED or kind in ANNOUNCED:
            self._step(Step.OPENS if kind == CREATED else Step.GROWS)
            self._introduce(self._response_of(event))
        elif kind in ENDS:
            self._end(event, ENDS[kind])

    def _exactly(self) -> Any:
        """The payload at hand, read so that it can be written again."""
        return read_exact(without_lone_surrogates(self._payload.decode("utf-8", "replace")))

    # --- failures --------------------------------------------------------------------------------

    def _fail_if(self, event: Json, kind: str) -> None:
        """Raise when the event is a failure."""
        found = self._failure_of(event, kind)
        if found is not None:
            self._fail_with(*found)

    def _failure_of(self, event: Json, kind: str) -> tuple[Failure, bytes] | None:
        """The failure that an event is, and the words as sent. An event that names no type may have any shape of 11 A,
        and a truthy ``error`` is one whatever the type."""
        if kind == FAILED:
            response = event.get("response")
            return self._failed(response if is_object(response) else {})
        if kind == ERROR:
            return describe(event), self._payload
        failure = sniff(event) if not kind or event.get("error") else None
        return None if failure is None else (failure, self._payload)

    def _failed(self, response: Json) -> tuple[Failure, bytes]:
        """What a response that failed, or was cancelled, says. All but its ``error`` may be the prompt's words."""
        self._usage = usage.read(response.get("usage"))
        error = response.get("error")
        return describe({"error": error}), exact_text(error).encode() if error else b""

    def _failure_in(self, kind: FrameKind, name: str | None, payload: bytes) -> tuple[Failure | None, bytes]:
        event = loosely(payload) if kind is FrameKind.REST else None
        found = self._failure_of(event, _kind(event, name)) if is_object(event) else None
        return super()._failure_in(kind, name, payload) if found is None else found

    def _unusual(self, kind: FrameKind, name: str | None, payload: bytes) -> None:
        self._unterminated = kind is FrameKind.REST
        super()._unusual(kind, name, payload)

    # --- the response ----------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        """``ProtocolError`` in strict mode when the response has not begun, or begins twice."""
        taken(RESPONSES, self._state, step, self._forgive)
        self._state = State.OPEN

    def _response_of(self, event: Json) -> Json:
        response = event.get("response")
        if is_object(response):
            return response
        self._forgive(AnomalyCode.WRONG_TYPE)
        return {}

    def _introduce(self, response: Json) -> None:
        """Take the id and the model of a response; neither changes."""
        self._id = self._constant(self._id, response.get("id"), AnomalyCode.ID_CHANGED)
        self._model = self._constant(self._model, response.get("model"), AnomalyCode.MODEL_CHANGED)

    def _constant(self, known: str | None, value: Any, changed: AnomalyCode) -> str | None:
        if value is None or value == "" or value == known:
            return known
        if not isinstance(value, str):
            self._forgive(AnomalyCode.WRONG_TYPE)
        elif known is None:
            return value
        else:
            self._forgive(changed)
        return known

    # --- items -----------------------------------------------------------------------------------

    def _grow(self) -> None:
        if self._state is not State.OPEN:
            self._step(Step.GROWS)

    def _about_text(self, event: Json, about: TextEvent) -> None:
        self._grow()
        kind = KINDS[about.part]
        item = self._output.about(event.get("output_index"), event.get("item_id"), kind.item)
        if item is None or item.speech is None:
            return
        run = item.speech.part(about.part, event.get(kind.index), about.step)
        if run is None:
            return
        if about.step is Step.CLOSES:
            self._settle(item.speech, run, event.get(about.key))
        else:
            piece = (self._raw or event).get(about.key)  # half of a character is still in it
            if isinstance(piece, str):
                item.speech.grow(run, piece)
            elif piece is not None:
                self._forgive(AnomalyCode.WRONG_TYPE)

    def _settle(self, speech: Speech, run: Run, whole: Any) -> None:
        if isinstance(whole, str):
            speech.settle(run, whole)
        elif whole is not None:
            self._forgive(AnomalyCode.WRONG_TYPE)

    def _about_call(self, event: Json, about: CallEvent) -> None:
        self._grow()
        item = self._output.about(event.get("output_index"), event.get("item_id"), about.item)
        if item is None or item.call is None or event.get(about.key) is None:
            return
        if about.step is Step.CLOSES:
            item.call.settle(event[about.key])
        else:
            item.call.grow((self._raw or event)[about.key])

    def _about_part(self, event: Json, step: Step) -> None:
        self._grow()
        part = event.get("part")
        part_type = part.get("type") if is_object(part) else None
        kind = KINDS.get(part_type) if isinstance(part_type, str) else None
        if kind is None or not is_object(part):
            return  # a part that is no text: the item has it when it ends
        item = self._output.about(event.get("output_index"), event.get("item_id"), kind.item)
        if item is None or item.speech is None:
            return
        run = item.speech.part(part["type"], event.get(kind.index), step)
        if run is not None and step is Step.CLOSES:
            self._settle(item.speech, run, part.get(kind.text))

    def _about_item(self, event: Json, step: Step) -> None:
        self._grow()
        fields = event.get("item")
        if fields is None:
            return  # nothing, but for a gap in the indices (20 section 9)
        if not final.is_item(fields):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return
        index = event.get("output_index")
        if step is Step.OPENS:
            self._output.open(index, fields)
        else:
            item = self._output.ending(index, fields)
            self._output.close(item, fields, exact_text(self._exactly()["item"]))

    # --- the end ---------------------------------------------------------------------------------

    def _end(self, event: Json, ended: str) -> None:
        """``response.completed`` or ``response.incomplete``: the answer is whole."""
        if self._unterminated:
            raise TruncatedStreamError(CUT_OFF, offset=self.bytes_seen)
        response = self._response_of(event)
        self._step(Step.CLOSES)
        status = final.status(response) or ended
        if status != ended and status not in FAILURES:
            self._forgive(AnomalyCode.UNKNOWN_FINISH)
            status = CUT if CUT in (status, ended) else ended
        self._conclude(response, status, ("response",))

    def _document(self, document: Any) -> bool:
        if is_object(document) and document.get("type") == ERROR:
            self._fail_with(describe(document), self._payload)
        if not final.is_document(document):
            return False
        self._forgive(AnomalyCode.WHOLE_DOCUMENT)
        response = self._look_again(self._payload, None) or document
        self._conclude(response, final.status(response), ())
        return True

    def _conclude(self, response: Json, status: str | None, where: tuple[str, ...]) -> None:
        """The response has ended with this status; it stands at ``where`` in the payload."""
        if status in FAILURES:
            self._fail_with(*self._failed(response))
        self._introduce(response)
        self._usage = self._reported(response.get("usage"))
        self._output.finish(final.items(response, self._forgive), self._copies(where))
        finish, word = finish_of(response, status, [item.told for item in self._output.items], self._forgive)
        if status == COMPLETED and any(item.state is not State.CLOSED for item in self._output.items):
            self._forgive(AnomalyCode.OUT_OF_ORDER)
        parts = [part for item in self._output.items for part in item.parts(whole=status == COMPLETED)]
        calls = [part.id for part in parts if isinstance(part, ToolCall)]
        if len(set(calls)) != len(calls):
            raise ProtocolError("two tool calls have the same id")
        self._complete(
            Completion(
                finish,
                parts,
                self._usage,
                self._timing(),
                self._model,
                self._id,
                tuple(self._policy.anomalies),
                self._policy.count,
                word,
                final.beyond(self._payload, where) if self._extra else {},
            )
        )

    def _reported(self, report: Any) -> Usage | None:
        found = usage.read(report)
        if found is None and report is not None:
            self._forgive(AnomalyCode.USAGE_INCOMPLETE)
        return found

    def _copies(self, where: tuple[str, ...]) -> Callable[[int], str]:
        """Gives an item of the final response in full. The payload is read again only for the first, and only once."""

        @cache
        def output() -> Any:
            return final.at(self._exactly(), where)["output"]

        return lambda number: exact_text(output()[number])

    def _drop(self) -> None:
        super()._drop()
        self._raw = None
        self._output = Output(0, self._forgive, self._deliver, self._called)


def _kind(event: Json, name: str | None) -> str:
    """The type of an event: that of its data, else its name; ``""`` for none."""
    kind = event.get("type")
    return kind if isinstance(kind, str) else name or ""


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

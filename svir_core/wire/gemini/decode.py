"""Decode a stream of Gemini's ``streamGenerateContent?alt=sse``: 22 sections 7 to 11.

Where a rule lives: framing in ``sse``, a body that is no stream in ``opening``, failures in ``wire.failure`` and
``wire.verdict``, payloads that are no JSON object in ``wire.payload``, what strict refuses and lenient forgives in
``wire.policy``, what may follow what and what a finish reason means in ``table``, the parts of an answer in ``answer``,
calls in ``call`` and ``arguments``, token counts in ``usage``. This file is the way of one chunk through them: it is
judged whole, then delivered whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

import orjson

from svir_core.check import expect
from svir_core.errors import ContentFilterError, ProtocolError, TruncatedStreamError, UnsupportedError
from svir_core.event import Event, ReasoningDelta, TextDelta
from svir_core.limits import FOREIGN_BODY_BYTES, Limits
from svir_core.response import AnomalyCode, Completion, FinishReason, Usage
from svir_core.slow_json import loosely
from svir_core.sse import Kind
from svir_core.wire.api import Clock, Mode
from svir_core.wire.failure import Failure
from svir_core.wire.gemini import usage
from svir_core.wire.gemini.answer import Answer
from svir_core.wire.gemini.failure import by_number, flat_failure
from svir_core.wire.gemini.said import Reading, Said
from svir_core.wire.gemini.table import (
    CANDIDATE_KEYS,
    CHUNK_KEYS,
    CUT,
    FAILURES,
    FINISHES,
    TOKEN,
    Move,
    State,
)
from svir_core.wire.json_value import Json, is_array, is_object
from svir_core.wire.payload import second_look
from svir_core.wire.stream import CUT_OFF, StreamDecoder
from svir_core.wire.verdict import Verdict

ANSWER_KEYS: Final = ("candidates", "promptFeedback")
"""What tells a whole response from other JSON."""

CHUNKS: Final = "chunks"
"""Where the chunks of an array stand once it was made an object."""


class Decoder(StreamDecoder):
    """One streamed answer of Gemini. Push bytes in any pieces, iterate what comes back, then ``finish()``: only the end
    of the input completes an answer.

    Args:
        mode: "strict" refuses what the protocol does not allow; "lenient" forgives and records it.
        limits: what the response may cost.
        clock: seconds, from any start; read here and where visible deltas come.
        extra: keep what the server says beyond the protocol, and its own usage, on ``completion.extra``.

    Raises ``ConfigError`` for an option that is none of these.

    Attributes:
        continuation_token: the last one that came: what asks for the rest of an answer that paused, or was cut.
    """

    __slots__ = (
        "_answer",
        "_blocked",
        "_extra",
        "_finished_at",
        "_id",
        "_index",
        "_message",
        "_model",
        "_others",
        "_usage",
        "_word",
        "continuation_token",
    )

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
        self._answer = Answer(limits.tool_calls)
        self._index: int | None = None  # of the candidate that is the answer
        self._others: dict[int, bool] = {}  # further candidates, and whether they finished
        self._id: str | None = None
        self._model: str | None = None
        self._usage: Json = {}
        self._word: str | None = None  # the last finish reason
        self._message: str | None = None  # and what the server said about it
        self._finished_at = (0, b"")  # where it stood, and the payload it came in
        self._blocked: str | None = None  # why the prompt was blocked, in the server's words
        self._extra: Json | None = {} if expect(extra, bool, "extra") else None
        self.continuation_token: str | None = None

    def _named(self) -> tuple[Usage | None, str | None, str | None]:
        return usage.read(self._usage), self._model, self._id

    # --- payloads --------------------------------------------------------------------------------

    def _event(self, payload: bytes, name: str | None) -> None:
        """A chunk. Names of events mean nothing here, and an event that has one need not be a chunk."""
        chunk: Any
        try:
            chunk = orjson.loads(payload)
        except orjson.JSONDecodeError:
            chunk = None
        if is_object(chunk):
            self._chunk(Said(chunk, chunk, Reading(payload, huge=False, forgive=self._forgive)))
            return
        value = loosely(payload)
        self._sniff(value)
        if name is None or is_object(value):
            self._look_again(payload)

    def _unusual(self, kind: Kind, name: str | None, payload: bytes) -> None:
        """A frame that is no whole event. A page is a gateway's word that the answer failed: nothing that follows it
        could end the answer."""
        if kind is Kind.FIELD and payload.lstrip().startswith(b"<"):
            shown = payload[:FOREIGN_BODY_BYTES].decode("utf-8", "replace")
            raise UnsupportedError("a page stands in the stream", server_message=shown)
        super()._unusual(kind, name, payload)

    def _look_again(self, payload: bytes) -> None:
        """Read a payload that the JSON library does not take, or that is no object. It is no failure."""
        found = second_look(payload)
        for code in found.codes:
            self._forgive(code)
        if found.chunk is not None:
            reading = Reading(payload, huge=found.huge, forgive=self._forgive)
            self._chunk(Said(found.chunk, found.raw or found.chunk, reading))

    def _failure(self, value: Any) -> Failure | None:
        return super()._failure(value) or flat_failure(value)

    def _verdict(self, failure: Failure, words: str) -> Verdict:
        return super()._verdict(by_number(failure, words), words)

    def _sniff(self, value: Any) -> None:
        failure = self._failure(value)
        if failure is not None:
            self._fail_with(failure, self._payload)

    def _document(self, document: Any) -> bool:
        """A response that was not streamed, or all chunks of a stream in one array (without ``alt=sse``)."""
        if is_object(document):
            if not _is_response(document):
                return False
            self._forgive(AnomalyCode.WHOLE_DOCUMENT)
            self._event(self._payload, None)
        elif is_array(document) and any(map(_is_response, document)):
            self._forgive(AnomalyCode.WHOLE_DOCUMENT)
            self._array(b'{"chunks":' + self._payload + b"}")
        else:
            return False
        self._finish_answer(self._offset + len(self._payload))
        return True

    def _array(self, payload: bytes) -> None:
        """The chunks of an array, which ``payload`` holds as an object."""
        found = second_look(payload)
        for code in found.codes:
            self._forgive(code)
        fields = found.chunk or {CHUNKS: []}
        whole = Said(fields, found.raw or fields, Reading(payload, huge=found.huge, forgive=self._forgive))
        for number, chunk in enumerate(fields[CHUNKS]):
            if is_object(chunk):
                self._chunk(whole.at(CHUNKS, number))
            else:
                self._forgive(AnomalyCode.NOT_AN_OBJECT)

    # --- a chunk ---------------------------------------------------------------------------------

    def _chunk(self, chunk: Said) -> None:
        """Read one chunk: nothing of it is delivered before all of it is judged."""
        fields = chunk.fields
        self._sniff(fields)
        self._id = self._constant(self._id, fields.get("responseId"), AnomalyCode.ID_CHANGED)
        self._model = self._constant(self._model, fields.get("modelVersion"), AnomalyCode.MODEL_CHANGED)
        self._report(chunk)
        self._feedback(fields.get("promptFeedback"))
        for number in self._candidates(fields.get("candidates")):
            self._candidate(chunk.at("candidates", number))
        if self._extra is not None:
            _keep(self._extra, chunk.kept(), CHUNK_KEYS)
        self._deliver()

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

    def _report(self, chunk: Said) -> None:
        report = chunk.fields.get("usageMetadata")
        if report is None:
            return
        if not is_object(report):
            self._forgive(AnomalyCode.WRONG_TYPE)
        elif usage.is_report(report):
            self._usage = usage.merged(self._usage, chunk.kept()["usageMetadata"])
        else:
            self._forgive(AnomalyCode.USAGE_INCOMPLETE)

    def _feedback(self, feedback: Any) -> None:
        """What the server said about the prompt: a reason to block it, or nothing that matters."""
        reason = feedback.get("blockReason") if is_object(feedback) else None
        if isinstance(reason, str) and reason:
            self._answer.move(Move.BLOCK)
            message = feedback.get("blockReasonMessage")
            self._blocked = message if isinstance(message, str) and message else reason

    # --- candidates ------------------------------------------------------------------------------

    def _candidates(self, listed: Any) -> list[int]:
        """Where in ``listed`` the candidate stands that is the answer, if it does; others are refused, or skipped."""
        if listed is None:
            return []
        if not is_array(listed):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return []
        found: dict[int, int] = {}
        for place, candidate in enumerate(listed):
            if not is_object(candidate):
                self._forgive(AnomalyCode.WRONG_TYPE)
            elif found.setdefault(_index(candidate), place) != place:
                raise UnsupportedError("a chunk holds the same candidate twice")
        new = self._index is None and bool(found)
        if new:
            self._index = 0 if 0 in found else next(iter(found))
        if found and (found.keys() != {self._index} or (new and self._index)):
            self._forgive(AnomalyCode.OTHER_CHOICE)
        for index in found.keys() - {self._index}:
            finished = bool(listed[found[index]].get("finishReason"))
            self._others[index] = finished or self._others.get(index, False)
        return [found[self._index]] if self._index in found else []

    def _candidate(self, candidate: Said) -> None:
        fields = candidate.fields
        content = fields.get("content")
        if is_object(content):
            parts = content.get("parts")
            if is_array(parts):
                self._parts(candidate, parts)
            elif parts is not None:
                self._forgive(AnomalyCode.WRONG_TYPE)
        elif content is not None:
            self._forgive(AnomalyCode.WRONG_TYPE)
        token = fields.get(TOKEN)
        if isinstance(token, str) and token:
            self.continuation_token = token
        self._finish(fields.get("finishReason"), fields.get("finishMessage"))
        if self._extra is not None:
            _keep(self._extra, candidate.kept(), CANDIDATE_KEYS)

    def _parts(self, candidate: Said, parts: list[Any]) -> None:
        for number, part in enumerate(parts):
            if is_object(part):
                self._answer.push(candidate.at("content", "parts", number))
            else:
                self._forgive(AnomalyCode.WRONG_TYPE)

    def _finish(self, word: Any, message: Any) -> None:
        if word is None or word == "":
            return
        if not isinstance(word, str):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return
        self._answer.move(Move.FINISH)
        self._word = word
        self._message = message if isinstance(message, str) and message else word
        self._finished_at = self._offset, self._payload

    # --- delivery --------------------------------------------------------------------------------

    def _deliver(self) -> None:
        said = self._answer.said
        if said:
            self._answer.said = []
            for delta in said:
                if isinstance(delta, TextDelta):
                    self._text(delta.text)
                elif isinstance(delta, ReasoningDelta):
                    self._reasoned(delta.source, delta.text)
                else:
                    self._called(delta)

    # --- the end ---------------------------------------------------------------------------------

    def _input_ended(self) -> None:
        self._finish_answer(self.bytes_seen)

    def _finish_answer(self, end: int) -> None:
        """The input ended, at this byte: the answer is whole when every candidate finished, and every event ended."""
        answer = self._answer
        if self._framer.unfinished or not all(self._others.values()):
            raise TruncatedStreamError(CUT_OFF, offset=end)
        try:
            answer.move(Move.END)
        except TruncatedStreamError as error:
            error.offset = end
            raise
        if answer.state is State.REFUSED:
            raise ContentFilterError("the server blocked the prompt", server_message=self._blocked)
        self._offset, self._payload = self._finished_at
        finish = self._reason(self._word or "")
        answer.end()
        self._deliver()
        self._complete(
            Completion(
                finish,
                answer.parts(self._id, cut=finish in CUT),
                usage.read(self._usage),
                self._timing(),
                self._model,
                self._id,
                tuple(self._policy.anomalies),
                self._policy.count,
                self._word,
                self._beyond(finish),
            )
        )

    def _reason(self, word: str) -> FinishReason:
        """Why the answer ended. Raises when it is none."""
        if word in FAILURES:
            self._refuse(word)
        finish = FINISHES.get(word)
        if finish is None:
            self._forgive(AnomalyCode.UNKNOWN_FINISH)
            return FinishReason.OTHER
        if self._answer.calls:
            if finish is FinishReason.CONTENT_FILTER:
                raise ProtocolError("a content filter ended an answer of tool calls")
            if finish is FinishReason.STOP:
                return FinishReason.TOOL_CALLS
        return finish

    def _refuse(self, word: str) -> NoReturn:
        raise FAILURES[word]("the model's answer cannot be used", server_message=self._message)

    def _beyond(self, finish: FinishReason) -> Json:
        """What the completion has beyond the protocol; the token of a pause always, since nothing goes on without."""
        extra = dict(self._extra or {})
        if self._extra is not None and self._usage:
            extra["usage"] = self._usage
        if finish is FinishReason.PAUSE and self.continuation_token is not None:
            extra[TOKEN] = self.continuation_token
        return extra

    def _drop(self) -> None:
        super()._drop()
        self._answer = Answer(0)
        self._finished_at = (0, b"")


def _index(candidate: Json) -> int:
    index = candidate.get("index")
    if index is not None and type(index) is not int:
        raise ProtocolError("the index of a candidate is not an integer")
    return index or 0


def _is_response(value: Any) -> bool:
    return is_object(value) and any(key in value for key in ANSWER_KEYS)


def _keep(kept: Json, said: Json, known: frozenset[str]) -> None:
    """Keep the keys that are not ``known``: the last value that is not null."""
    kept.update((key, value) for key, value in said.items() if key not in known and value is not None)


def decode(chunks: Iterable[bytes | bytearray | memoryview], **options: Any) -> Iterator[Event]:
    """The events of one streamed answer: ``Decoder(**options)``, pushed and finished.

    Raises the decoder's error after the last good event; stops reading ``chunks`` once the answer is over.
    """
    decoder = Decoder(**options)
    for chunk in chunks:
        yield from decoder.push(chunk)
        if decoder.done:
            return
    yield from decoder.finish()

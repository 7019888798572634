"""What the decoders of all streamed APIs do alike: bytes in, events out, and then silence.

Three rules hold for all of it. Everything before an error is delivered, then the error. An error that
nobody saw is raised by the next call. After an error or ``Completed`` the decoder never speaks again.
Source: 00 section 2, 10 sections 1 and 7, 11 section A.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from svir_core.check import an, as_bytes, choice
from svir_core.errors import (
    ConfigError,
    ResponseLimitError,
    SvirError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.event import Completed, Event, Events, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.limits import FOREIGN_BODY_BYTES, Limits
from svir_core.opening import Judged, Opening, Shape
from svir_core.response import AnomalyCode, Completion, Partial, Timing, Usage
from svir_core.slow_json import loosely
from svir_core.sse import Frame, Framer, Kind, split_field
from svir_core.wire.api import Clock, Mode
from svir_core.wire.failure import Failure, describe, sniff_body
from svir_core.wire.json_value import is_object
from svir_core.wire.policy import Policy
from svir_core.wire.transcript import Transcript, displayed
from svir_core.wire.verdict import Verdict, stream_verdict

_EVENT: Final = Kind.EVENT
NO_EVENTS: Final = Events(())

JUNK: Final = {
    Kind.FIELD: AnomalyCode.UNKNOWN_FIELD,
    Kind.BARE: AnomalyCode.UNKNOWN_FIELD,
    Kind.TYPE: AnomalyCode.UNKNOWN_EVENT,
    Kind.TEXT: AnomalyCode.INVALID_UTF8,
}
"""What a frame that is neither an event nor a failure is."""

CUT_OFF: Final = "the input ended before the answer did"

NOT_A_STREAM: Final = {
    Shape.PAGE: "the body is a page, not a stream",
    Shape.COMPRESSED: "the body is compressed, though nobody asked for that",
    Shape.DOCUMENT: "the body is JSON, but neither a stream, nor a failure, nor an answer",
}


class StreamDecoder(ABC):
    """One streamed answer. A wire API's decoder reads its events in :meth:`_event`, delivers what they say by
    :meth:`_text`, :meth:`_reasoned` and :meth:`_called`, and calls :meth:`_complete` when the answer is whole.

    Attributes:
        done: whether the answer, or its failure, has been told.
        bytes_seen: how many bytes were pushed.
    """

    __slots__ = (
        "_call_pieces",
        "_clock",
        "_completion",
        "_error",
        "_first",
        "_framer",
        "_items",
        "_last",
        "_offset",
        "_opening",
        "_partial",
        "_payload",
        "_policy",
        "_started",
        "_ticked",
        "_told",
        "_transcript",
        "_visible",
        "_wire_limit",
        "bytes_seen",
        "done",
    )

    def __init__(
        self,
        *,
        mode: Mode | str,
        limits: Limits,
        clock: Clock,
        types: frozenset[str] | None,
        terminator: bytes | None,
    ) -> None:
        self._wire_limit = limits.wire_bytes
        if not callable(clock):
            raise ConfigError(f"clock must be callable, not {an(type(clock))}")
        self._clock = clock
        self._started = clock()
        self._first: float | None = None
        self._last: float | None = None
        self._visible = 0  # visible deltas so far
        self._ticked = 0  # of them, those whose time is taken
        self._call_pieces = 0
        self._policy = Policy(choice(Mode, mode, "mode") is Mode.LENIENT)
        self._opening: Opening | None = Opening(limits.event_bytes)
        self._framer = Framer(types=types, terminator=terminator, limit=limits.event_bytes)
        self._transcript = Transcript()
        self._items: list[Event] = []  # the events of this push
        self._offset = 0  # where the event at hand begins
        self._payload = b""  # and what it holds
        self._completion: Completion | None = None
        self._error: SvirError | None = None
        self._partial: Partial | None = None  # what was delivered before the error
        self._told: Events = NO_EVENTS  # the events that carried the error
        self.done = False
        self.bytes_seen = 0

    # --- what a caller sees ----------------------------------------------------------------------

    @property
    def error(self) -> SvirError | None:
        """The error this decoder ended with, if it did."""
        return self._error

    @property
    def completion(self) -> Completion | None:
        """The whole answer, once ``Completed`` was told."""
        return self._completion

    @property
    def events_seen(self) -> int:
        """Server-sent events so far, comments and heartbeats included."""
        return self._framer.count

    @property
    def output_seen(self) -> int:
        """How many deltas were delivered: text, reasoning and pieces of calls."""
        return self._visible + self._call_pieces

    @property
    def partial(self) -> Partial:
        """What has been delivered so far; its calls are display data. Costs as much as the answer is long."""
        whole = self._completion
        if whole is not None:
            return Partial(displayed(whole.parts), whole.usage, whole.model, whole.id)
        return self._partial or Partial(self._transcript.parts(), *self._named())

    def result(self) -> Completion:
        """The completion. Raises the error when the decoder ended with one, and ``ConfigError`` when it has not ended:
        push every chunk, then ``finish()``."""
        if self._completion is not None:
            return self._completion
        if self._error is not None:
            self._told.throw()
        raise ConfigError("the answer has not ended: push every chunk, then finish()")

    def push(self, data: bytes | bytearray | memoryview) -> Events:
        """The events that ``data`` completes; iterating them raises the error, if there is one, after the last.

        Raises the error of an earlier call when nobody iterated to it. Returns nothing once the decoder is done.
        """
        if self.done:
            return self._silence()
        if type(data) is not bytes:
            data = as_bytes(data)
        seen = self.bytes_seen
        self.bytes_seen = seen + len(data)
        items = self._items = []
        try:
            if self._opening is not None or self.bytes_seen > self._wire_limit:
                self._push_carefully(data, self._wire_limit - seen)
            else:
                payload = self._framer.single(data)
                if payload is None:
                    self._read(self._framer.push(data))
                else:
                    self._offset = seen
                    self._payload = payload
                    self._event(payload, None)
        except SvirError as error:
            return self._fail(error)
        if self._visible != self._ticked:
            self._tick()
        return Events(items) if items else NO_EVENTS

    def _push_carefully(self, data: bytes, room: int) -> None:
        """The body's first bytes, or its last: those that are within the limit are read like any others."""
        readable = data[:room]
        if self._opening is not None:
            readable = self._open(self._opening.push(readable))
        self._read(self._framer.push(readable))
        if len(data) > room and not self.done:
            raise ResponseLimitError(f"the response is larger than {self._wire_limit} bytes", offset=self._wire_limit)

    def finish(self) -> Events:
        """The input ended: the last events, or ``TruncatedStreamError`` when the answer was not whole.

        Raises the error of an earlier call when nobody iterated to it. Returns nothing once the decoder is done.
        """
        if self.done:
            return self._silence()
        items = self._items = []
        try:
            if self._opening is not None:
                self._read(self._framer.push(self._open(self._opening.finish())))
            self._read(self._framer.finish())
            if self._completion is None:
                self._input_ended()
        except SvirError as error:
            return self._fail(error)
        return Events(items)

    # --- what a wire API adds --------------------------------------------------------------------

    @abstractmethod
    def _event(self, payload: bytes, name: str | None) -> None:
        """Read one event: its data (``_payload`` too) and its type, ``None`` when it is the default."""

    @abstractmethod
    def _document(self, document: Any) -> bool:
        """Read a body that is one JSON value and no failure; false when it is no answer."""

    @abstractmethod
    def _named(self) -> tuple[Usage | None, str | None, str | None]:
        """The usage, the model and the id so far."""

    def _failure(self, value: Any) -> Failure | None:
        """The failure that a JSON value is, whatever its shape (11 A); ``None`` when it is none."""
        return sniff_body(value)

    def _verdict(self, failure: Failure, words: str) -> Verdict:
        """What a failure inside the stream means; ``words`` are its payload as sent."""
        return stream_verdict(failure, words)

    # --- frames ----------------------------------------------------------------------------------

    def _read(self, frames: list[Frame]) -> None:
        for kind, offset, name, payload in frames:
            self._offset = offset
            self._payload = payload
            if kind is _EVENT:
                if name == "error":
                    self._fail_with(_of_error_event(payload), payload)
                self._event(payload, name)
            else:
                self._unusual(kind, name, payload)
            if self.done:
                return
        if self._framer.error is not None:
            raise self._framer.error

    def _unusual(self, kind: Kind, name: str | None, payload: bytes) -> None:
        """A frame that is no whole event: first of all it may be a failure (11 A)."""
        failure, words = self._failure_in(kind, name, payload)
        if failure is not None:
            self._fail_with(failure, words)
        if kind is Kind.CUT:
            raise TruncatedStreamError(CUT_OFF, offset=self.bytes_seen)
        if kind in JUNK:
            self._policy.forgive(JUNK[kind], self._offset, payload)
        elif kind is Kind.REST and self._policy.lenient and is_object(loosely(payload)):
            self._policy.record(AnomalyCode.UNTERMINATED_EVENT, self._offset, payload)
            self._event(payload, name)

    def _failure_in(self, kind: Kind, name: str | None, payload: bytes) -> tuple[Failure | None, bytes]:
        """The failure in a frame that is no whole event, and the words as sent."""
        if name == "error" and kind is Kind.REST:
            return _of_error_event(payload), payload
        field, value = split_field(payload)
        if field == b"error" and kind in (Kind.FIELD, Kind.CUT):
            document = loosely(value)
            return (describe(document) if is_object(document) else None), value
        if kind in (Kind.TYPE, Kind.TEXT, Kind.FIELD):
            return None, payload
        return self._failure(loosely(payload)), payload

    # --- a body that is no stream ----------------------------------------------------------------

    def _open(self, judged: Judged | None) -> bytes:
        """What of the body's start is lines. Raises when the body is no stream."""
        if judged is None:
            return b""
        self._opening = None
        if judged.shape is Shape.STREAM:
            self._framer.start_at(judged.offset)
            return judged.data
        self._offset = judged.offset
        self._payload = judged.data
        if judged.shape is Shape.DOCUMENT:
            document = loosely(judged.data)
            failure = self._failure(document)
            if failure is not None:
                self._fail_with(failure, judged.data)
            if self._document(document):
                return b""
        shown = judged.data[:FOREIGN_BODY_BYTES].decode("utf-8", "replace")
        raise UnsupportedError(NOT_A_STREAM[judged.shape], server_message=shown)

    # --- delivery --------------------------------------------------------------------------------

    def _text(self, text: str) -> None:
        self._visible += 1
        self._items.append(TextDelta(text))
        self._transcript.text(text)

    def _reasoned(self, source: str, text: str) -> None:
        self._visible += 1
        self._items.append(ReasoningDelta(source, text))
        self._transcript.reasoning(source, text)

    def _called(self, piece: ToolCallDelta) -> None:
        self._call_pieces += 1
        self._items.append(piece)
        self._transcript.call(piece)

    # --- endings ---------------------------------------------------------------------------------

    def _input_ended(self) -> None:
        """The input ended before the answer did: raises, unless that is where an API's answers end."""
        raise TruncatedStreamError(CUT_OFF, offset=self.bytes_seen)

    def _fail_with(self, failure: Failure, payload: bytes) -> None:
        """Raise the error for a failure that the server reported."""
        words = payload.decode("utf-8", "replace")
        message = failure.message or words or None
        means = self._verdict(failure, words)
        raise means.error(
            "the server reported a failure in the stream",
            server_message=message,
            retry_after=failure.retry_after,
            retryable=means.retryable,
        )

    def _forgive(self, code: AnomalyCode) -> None:
        """Strict: raise. Lenient: put the event at hand on record."""
        self._policy.forgive(code, self._offset, self._payload)

    def _tick(self) -> float:
        """Take the time: of the visible deltas since it was taken last, and for the caller."""
        now = self._clock() - self._started
        if self._visible != self._ticked:
            self._ticked = self._visible
            self._last = now
            if self._first is None:
                self._first = now
        return now

    def _timing(self) -> Timing:
        end = self._tick()
        return Timing(self._first, self._last, end, self._visible)

    def _complete(self, completion: Completion) -> None:
        """The answer is whole."""
        self._completion = completion
        self.done = True
        self._items.append(Completed(completion))
        self._drop()

    def _fail(self, error: SvirError) -> Events:
        """The decoder ends with ``error``. The traceback is dropped: its frames hold what was pushed."""
        error.__traceback__ = None
        if error.offset is None:
            error.offset = self._offset
        error.partial = self._partial = self.partial
        error.anomalies = tuple(self._policy.anomalies)
        self._error = error
        self.done = True
        self._told = Events(self._items, error)
        self._drop()
        return self._told

    def _drop(self) -> None:
        """The decoder is done: let go of what it collected, so that holding it costs no second copy of the answer."""
        self._transcript = Transcript()
        self._payload = b""
        self._items = []

    def _silence(self) -> Events:
        if not self._told.error_seen:
            self._told.throw()
        return NO_EVENTS


def _of_error_event(payload: bytes) -> Failure:
    """The failure of ``event: error``: an object, or plain text, or nothing."""
    document = loosely(payload)
    if is_object(document):
        return describe(document)
    return Failure(payload.decode("utf-8", "replace") or None)

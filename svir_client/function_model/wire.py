"""The wire form of a function's answers: each event is a server-sent event, its data the JSON of ``svir_core.serial``.

It never leaves the process. What it is for: ``send`` has bytes to give, and streams read a function's answer as they
read every other.
"""

from __future__ import annotations

import sys
from typing import Final, cast

import attrs

from svir_core import serial
from svir_core.body import Body, Measurements
from svir_core.check import an, instance_of
from svir_core.errors import ConfigError, ProtocolError, SvirError, UnsupportedError
from svir_core.event import Completed, Event, Events, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.limits import Limits
from svir_core.message import Opaque, Part, Reasoning, Text, ToolCall
from svir_core.request import Request
from svir_core.response import Completion, Usage
from svir_core.secret import Secret
from svir_core.slow_json import read_any
from svir_core.wire.api import Alternative, Clock, CodecOptions, Compat, Mode, ModelPage, ServerHalf
from svir_core.wire.json_value import is_object
from svir_core.wire.stream import StreamDecoder

NAME: Final = "function"
UNBOUNDED: Final = Limits(wire_bytes=sys.maxsize, event_bytes=sys.maxsize, tool_calls=sys.maxsize)
"""What a function gives is in memory already: a bound would protect nobody."""


def encode_event(event: object) -> bytes:
    """The bytes of one event; ``ConfigError`` for what is none, holds what has no JSON form, or no model says."""
    if not isinstance(event, Event):
        raise ConfigError(f"a model's function gave something else than an event: {type(event).__name__}")
    if isinstance(event, Completed):
        event = Completed(_said(event.completion))
    return b"data: " + serial.dumps(event) + b"\n\n"


def _said(completion: Completion) -> Completion:
    """``completion`` as a decoder would give it: a history with it is one that every API takes."""
    for number, part in enumerate(completion.parts):
        if not isinstance(part, Text | Reasoning | ToolCall | Opaque):
            raise ConfigError(f"parts[{number}] of a model's answer is {an(type(part))}, which no model says")
    return attrs.evolve(completion, parts=map(_judged, completion.parts))


def _judged(part: Part) -> Part:
    """A call without one JSON object is not complete, whatever the function says; one with ``opaque`` is of a decoder,
    which has judged it by the rules of its API."""
    if not isinstance(part, ToolCall) or not part.complete or not part.arguments or part.opaque is not None:
        return part
    return attrs.evolve(part, complete=is_object(read_any(part.arguments)))


@attrs.define(eq=False)
class Told:
    """What the two ends of one call tell each other beside the bytes.

    Attributes:
        failure: the error that the function raised after its answer had begun.
    """

    failure: SvirError | None = None


@attrs.frozen
class Asked(Body):
    """A body without bytes that brings the request itself: attachments stay unread, and nothing is converted."""

    request: Request = attrs.field(repr=False)
    told: Told = attrs.field(repr=False)


class EventDecoder(StreamDecoder):
    """Reads what :func:`encode_event` wrote; ends with the function's own error where there is one.

    ``timing`` is measured where the function's completion has none.
    """

    __slots__ = ("_call",)

    def __init__(self, told: Told, clock: Clock) -> None:
        super().__init__(mode=Mode.STRICT, limits=UNBOUNDED, clock=clock, types=None, terminator=None)
        self._call = told

    def finish(self) -> Events:
        """As of every decoder; but the function's error is told as it is, with what was delivered as its ``partial``
        unless it brings one."""
        failure = self._call.failure
        if failure is None or self.done:
            return super().finish()
        if failure.partial is None:
            failure.partial = self.partial
        self.done = True
        self._error = failure
        self._told = Events((), failure)
        return self._told

    def _event(self, payload: bytes, name: str | None) -> None:
        event = _read(payload)
        if isinstance(event, Completed):
            self._complete(self._timed(event.completion))
        elif isinstance(event, ToolCallDelta):
            self._called(event)
        elif not event.text:
            self._items.append(event)  # handed over, but no token to take the time of
        elif isinstance(event, TextDelta):
            self._text(event.text)
        else:
            self._reasoned(event.source, event.text)

    def _timed(self, completion: Completion) -> Completion:
        return attrs.evolve(completion, timing=self._timing()) if completion.timing is None else completion

    def _document(self, document: object) -> bool:
        return False

    def _named(self) -> tuple[Usage | None, str | None, str | None]:
        return None, None, None


def _read(payload: bytes) -> TextDelta | ReasoningDelta | ToolCallDelta | Completed:
    try:
        event = serial.loads(payload)
    except ConfigError as error:
        problem = error.detail
    else:
        if isinstance(event, Event):
            return event
        problem = f"the form of {an(type(cast('object', event)))}"
    raise ProtocolError(f"an event of a function is not in svir's JSON form: {problem}")


def _none(what: str) -> UnsupportedError:
    return UnsupportedError(f"a FunctionModel {what}")


@attrs.frozen
class FunctionApi:
    """One call's wire API, as the exchange and the client see it, under whatever ``name``. See ``wire.api.Api``."""

    name: str = attrs.field(default=NAME, validator=instance_of(str))
    base_url: str = attrs.field(default="http://localhost", init=False)
    versions: tuple[str, ...] = attrs.field(default=(), init=False)
    matches_by_id: bool = attrs.field(default=False, init=False)
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), init=False)
    told: Told = attrs.field(factory=Told, init=False, repr=False)

    @property
    def server(self) -> ServerHalf:
        """Raises ``UnsupportedError``: nothing serves this form."""
        raise _none("has no server")

    def path(self, request: Request) -> str:
        """The same path always: nothing is at it."""
        return "/"

    def models_path(self, after: str | None = None) -> str:
        """Raises ``UnsupportedError``, as :meth:`models` does."""
        raise _none("lists no models")

    def count_path(self, request: Request) -> str:
        """Raises ``UnsupportedError``, as the two methods that go with it do."""
        raise _none("counts no tokens")

    def key_headers(self, key: Secret) -> tuple[tuple[str, str], ...]:
        """None: there is no key."""
        return ()

    def optional_fields(self, request: Request) -> frozenset[str]:
        """None: the function gets the whole request."""
        return frozenset()

    def alternatives(self, request: Request) -> tuple[Alternative, ...]:
        """None."""
        return ()

    def encode(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Asked:
        """The request itself."""
        return Asked((), request, self.told)

    def encode_count(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Body:
        """Raises ``UnsupportedError``."""
        raise _none("counts no tokens")

    def decoder(self, options: CodecOptions, clock: Clock) -> EventDecoder:
        """A decoder for this call's answer."""
        return EventDecoder(self.told, clock)

    def models(self, document: bytes) -> ModelPage:
        """Raises ``UnsupportedError``."""
        raise _none("lists no models")

    def count(self, document: bytes) -> int:
        """Raises ``UnsupportedError``."""
        raise _none("counts no tokens")

"""What a scripted server says: the head, the pieces of the body, and how the reply ends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import attrs

from svir_client.testing import given
from svir_client.testing.answer import completion_events, stream_pieces, text_events
from svir_client.testing.given import Headers
from svir_client.testing.recording import Recording, finite_speed, replayed
from svir_client.testing.wait import Gate, Pause, Wait
from svir_core.check import at_least, choice, count, instance_of, wire_api
from svir_core.errors import ConfigError, ErrorKind, SvirError
from svir_core.event import Event
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire import openai_chat
from svir_core.wire.api import Api, Model

if TYPE_CHECKING:
    from typing import Self

EVENT_STREAM = (("content-type", "text/event-stream"),)
JSON = (("content-type", "application/json"),)
FRAMING_HEADERS = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})
"""Headers of a recording that the framing of its replay sets anew."""


class Framing(StrEnum):
    """How the end of a reply's body is known."""

    CLOSE = "close"
    """Neither length nor chunking: the body ends with the connection, as on HTTP/1.0."""
    LENGTH = "length"
    """``content-length``; the connection is kept for a further request."""
    CHUNKED = "chunked"
    """One HTTP chunk per piece; the connection is kept for a further request."""


FRAMED_BY = {"transfer-encoding": Framing.CHUNKED, "content-length": Framing.LENGTH}
"""The header that tells how a recorded response was framed; without one, it ended with its connection."""


class End(StrEnum):
    """What happens after the last piece that is sent."""

    FINISH = "finish"
    """What the framing says."""
    CLOSE = "close"
    """The connection is closed, whatever the framing promised."""
    STALL = "stall"
    """Nothing more comes, and the connection stays open until the client closes it."""
    RESET = "reset"
    """The connection is reset (RST); what no buffer of the client's has taken by then is lost, as in any reset."""


def _pieces(body: Iterable[bytes | Wait] | None) -> tuple[bytes | Wait, ...] | None:
    return None if body is None else given.every(body, (bytes, Gate, Pause), "every piece of a body")


def _framing(value: Framing | str) -> Framing:
    return choice(Framing, value, "framing")


def _end(value: End | str) -> End:
    return choice(End, value, "end")


@attrs.frozen
class Reply:
    """One scripted reply.

    Attributes:
        status: of the response.
        headers: sent as given, before the framing's own header.
        body: pieces, each handed to the network by itself; a :class:`Gate` or a :class:`Pause` between
            pieces holds the rest back. ``None`` sends the head alone.
        framing: how the end of the body is known.
        cut: send only so many bytes of the body, and never its end: the connection is closed after
            them (under TLS without a ``close_notify``), or what ``end`` says.
        end: what happens after the last piece.
        before_head: holds even the head back.
        stall_head: never answer at all; the connection stays open until the client closes it.
        before_body: answer as soon as the head of the request is there.
        informational: status codes of interim responses sent before the head.
        raw: these bytes in place of head and framing, for heads that no server should send.

    Raises ``ConfigError`` for an attribute of the wrong kind.
    """

    status: int = attrs.field(default=200, validator=at_least(100))
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), converter=given.pairs)
    body: tuple[bytes | Wait, ...] | None = attrs.field(default=None, converter=_pieces)
    framing: Framing = attrs.field(default=Framing.CLOSE, converter=_framing)
    cut: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(0)))
    end: End = attrs.field(default=End.FINISH, converter=_end)
    before_head: Wait | None = attrs.field(default=None, validator=instance_of(Gate, Pause, type(None)))
    stall_head: bool = attrs.field(default=False, validator=instance_of(bool))
    before_body: bool = attrs.field(default=False, validator=instance_of(bool))
    informational: tuple[int, ...] = attrs.field(default=(), converter=given.statuses)
    raw: bytes | None = attrs.field(default=None, validator=instance_of(bytes, type(None)))

    # --- what to answer: attributes above are further keywords; headers come after the content type ---

    @classmethod
    def stream(cls, *pieces: bytes | Wait, status: int = 200, headers: Headers = (), **settings: Any) -> Self:
        """An event stream of these pieces."""
        return cls(status, (*EVENT_STREAM, *given.pairs(headers)), pieces, **settings)

    @classmethod
    def document(cls, document: object, status: int = 200, *, headers: Headers = (), **settings: Any) -> Self:
        """A JSON document; ``ConfigError`` for what JSON cannot say."""
        try:
            data = json.dumps(document).encode()
        except (TypeError, ValueError, RecursionError) as error:
            failure = type(error).__name__
        else:
            return cls(status, (*JSON, *given.pairs(headers)), (data,), **settings)
        raise ConfigError(f"document cannot be written as JSON: {failure}")

    @classmethod
    def text(
        cls,
        *pieces: str | Wait,
        finish: FinishReason | str = FinishReason.STOP,
        usage: Usage | None = None,
        api: Api = openai_chat.API,
        **settings: Any,
    ) -> Self:
        """A streamed answer of text, one event for each piece; chunked unless ``framing`` says otherwise."""
        return cls.events(*text_events(pieces, finish, usage), api=api, **settings)

    @classmethod
    def completion(cls, completion: Completion, *, api: Api = openai_chat.API, **settings: Any) -> Self:
        """A streamed answer that is read back as ``completion``, one event for each of its parts.

        Raises what the API's ``StreamEncoder`` raises for a completion that it cannot say.
        """
        given.one(completion, (Completion,), "completion")
        named = {name: value for name, value in (("model", completion.model), ("id", completion.id)) if value}
        return cls.events(*completion_events(completion), api=api, **_over(settings, **named))

    @classmethod
    def events(
        cls,
        *events: Event | SvirError | Wait,
        api: Api = openai_chat.API,
        model: str = "mock",
        id: str = "mock-1",
        created: int = 0,
        include_usage: bool = True,
        **settings: Any,
    ) -> Self:
        """A streamed answer of these events in the words of ``api``, one piece for each.

        An error ends the stream as the API's error event, with the error's ``detail``. Events that end
        without ``Completed`` make a stream that ends too early. Chunked unless ``framing`` says otherwise.
        Raises what the API's ``StreamEncoder`` raises.
        """
        pieces = stream_pieces(api, events, model, id, created, include_usage=include_usage)
        return cls.stream(*pieces, **_over(settings, framing=Framing.CHUNKED))

    @classmethod
    def models(cls, *models: str | Model, api: Api = openai_chat.API, headers: Headers = (), **settings: Any) -> Self:
        """The listing of these models; kept-alive unless ``framing`` says otherwise."""
        given.every(models, (str, Model), "every model")
        entries = [Model(model) if isinstance(model, str) else model for model in models]
        settings = _over(settings, framing=Framing.LENGTH)
        return cls(200, (*JSON, *given.pairs(headers)), (wire_api(api).server.models(entries),), **settings)

    @classmethod
    def recorded(cls, recording: Recording, speed: float = 0, **settings: Any) -> Self:
        """The response of a recording, in its pieces. What was cut off is cut off again, and what timed out stalls.

        ``speed`` is that of time: 1 as it was recorded, 2 twice as fast, 0 without any waiting.
        Raises ``ConfigError`` for a speed or a recording that is none.
        """
        given.one(recording, (Recording,), "recording")
        speed = finite_speed(speed)
        end = End.STALL if recording.error is ErrorKind.TIMEOUT else End.FINISH
        if recording.status is None:
            return cls.silence() if end is End.STALL else cls.drop()
        before_head, body = replayed(recording, speed)
        names = {name for name, _ in recording.headers}
        framing = next((framing for name, framing in FRAMED_BY.items() if name in names), Framing.CLOSE)
        if not recording.complete:
            framing = Framing.CHUNKED  # whose missing end shows; the whole length is not known
        headers = tuple((name, value) for name, value in recording.headers if name not in FRAMING_HEADERS)
        cut = None if recording.complete else recording.length
        settings = _over(settings, headers=headers, framing=framing, cut=cut, end=end, before_head=before_head)
        return cls(recording.status, body=body, **settings)

    @classmethod
    def silence(cls) -> Self:
        """No answer: the request is read, and nothing comes back."""
        return cls(stall_head=True)

    @classmethod
    def drop(cls, *, reset: bool = False) -> Self:
        """No answer: the request is read, and the connection is closed, or reset."""
        return cls(raw=b"", cut=0, end=End.RESET if reset else End.FINISH)

    # --- how to cut it into pieces -------------------------------------------------------------------

    def split(self, size: int) -> Self:
        """The same reply in pieces of ``size`` bytes, the last one of each piece shorter.

        Raises ``ConfigError`` for a size that is no positive integer.
        """
        count(size, 1, "size")
        body = [part for piece in self.body or () for part in _parts(piece, size)]
        return attrs.evolve(self, body=None if self.body is None else tuple(body))

    def drip(self, size: int, seconds: float) -> Self:
        """The same reply, ``size`` bytes at a time, with a pause of ``seconds`` after each.

        Raises ``ConfigError`` for a size or a number of seconds that is not positive.
        """
        pause = Pause(seconds)
        body = [part for piece in self.split(size).body or () for part in (piece, pause)]
        return attrs.evolve(self, body=None if self.body is None else tuple(body))

    # --- as bytes --------------------------------------------------------------------------------------

    def head(self) -> bytes:
        """The status line and headers, as sent."""
        if self.raw is not None:
            return self.raw
        lines = [_status_line(self.status)]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.framing is Framing.LENGTH:
            lines.append(f"content-length: {sum(len(piece) for piece in self.body or () if isinstance(piece, bytes))}")
        elif self.framing is Framing.CHUNKED:
            lines.append("transfer-encoding: chunked")
        else:
            lines.append("connection: close")
        interim = "".join(_status_line(status) + "\r\n\r\n" for status in self.informational)
        return (interim + "\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def pieces(self) -> list[bytes | Wait]:
        """The body as it goes over the wire: cut, and framed piece by piece."""
        chunked = self.framing is Framing.CHUNKED
        left = self.cut
        pieces: list[bytes | Wait] = []
        for piece in self.body or ():
            if isinstance(piece, bytes):
                if not piece:
                    continue
                if left is not None:
                    piece = piece[:left]
                    left -= len(piece)
                if not piece:
                    break
                if chunked:
                    piece = b"%x\r\n%b\r\n" % (len(piece), piece)
            pieces.append(piece)
        if chunked and self.cut is None and self.end is End.FINISH:
            pieces.append(b"0\r\n\r\n")
        return pieces

    @property
    def kept(self) -> bool:
        """Whether the connection stays usable for a further request."""
        framed = self.framing is not Framing.CLOSE and self.raw is None
        return framed and self.cut is None and self.end is End.FINISH and not self.before_body


def _over(settings: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """The caller's settings, over ours."""
    return {**defaults, **settings}


def _parts(piece: bytes | Wait, size: int) -> list[bytes | Wait]:
    if not isinstance(piece, bytes):
        return [piece]
    return [piece[start : start + size] for start in range(0, len(piece), size)]


def _status_line(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Status"
    return f"HTTP/1.1 {status} {phrase}"

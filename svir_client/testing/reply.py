"""What a scripted server says: the head, the pieces of the body, and how the reply ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import anyio
import attrs

if TYPE_CHECKING:
    from typing import Self

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


class Framing(StrEnum):
    """How the end of a reply's body is known."""

    CLOSE = "close"
    """Neither length nor chunking: the body ends with the connection, as on HTTP/1.0."""
    LENGTH = "length"
    """``content-length``; the connection is kept for a further request."""
    CHUNKED = "chunked"
    """One HTTP chunk per piece; the connection is kept for a further request."""


class End(StrEnum):
    """What happens after the last piece that is sent."""

    FINISH = "finish"
    """What the framing says."""
    CLOSE = "close"
    """The connection is closed, whatever the framing promised."""
    STALL = "stall"
    """Nothing more comes, and the connection stays open until the client closes it."""
    RESET = "reset"
    """The connection is reset (RST)."""


class Gate:
    """Holds a reply between two pieces until the test opens it. Made inside an event loop."""

    def __init__(self) -> None:
        self._reached = anyio.Event()
        self._open = anyio.Event()

    async def reached(self) -> None:
        """Wait until everything before the gate was handed to the network."""
        await self._reached.wait()

    def open(self) -> None:
        """Let the reply go on."""
        self._open.set()

    async def pass_through(self) -> None:
        """The server's side: tell that the gate is reached, and wait until it is open."""
        self._reached.set()
        await self._open.wait()


def _pairs(headers: Headers) -> tuple[tuple[str, str], ...]:
    if isinstance(headers, Mapping):
        return tuple(cast("Mapping[str, str]", headers).items())
    return tuple(headers)


@attrs.frozen
class Reply:
    """One scripted reply.

    Attributes:
        status: of the response.
        headers: sent as given, before the framing's own header.
        body: pieces, each handed to the network by itself; a :class:`Gate` between pieces holds
            the rest back. ``None`` sends the head alone.
        framing: how the end of the body is known.
        cut: send only so many bytes of the body, and never its end.
        end: what happens after the last piece; with ``cut``, ``FINISH`` closes the connection.
        stall_head: never answer at all; the connection stays open until the client closes it.
        before_body: answer as soon as the head of the request is there.
        informational: status codes of interim responses sent before the head.
        raw: these bytes in place of head and framing, for heads that no server should send.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), converter=_pairs)
    body: tuple[bytes | Gate, ...] | None = None
    framing: Framing = Framing.CLOSE
    cut: int | None = None
    end: End = End.FINISH
    stall_head: bool = False
    before_body: bool = False
    informational: tuple[int, ...] = ()
    raw: bytes | None = None

    @classmethod
    def stream(cls, *pieces: bytes | Gate, **settings: Any) -> Self:
        """A 200 event stream of these pieces."""
        return cls(200, (("content-type", "text/event-stream"),), pieces, **settings)

    @classmethod
    def document(cls, document: object, status: int = 200, **settings: Any) -> Self:
        """A JSON document."""
        return cls(status, (("content-type", "application/json"),), (json.dumps(document).encode(),), **settings)

    @classmethod
    def silence(cls) -> Self:
        """No answer: the request is read, and nothing comes back."""
        return cls(stall_head=True)

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

    def pieces(self) -> list[bytes | Gate]:
        """The body as it goes over the wire: cut, and framed piece by piece."""
        chunked = self.framing is Framing.CHUNKED
        left = self.cut
        pieces: list[bytes | Gate] = []
        for piece in self.body or ():
            if isinstance(piece, bytes):
                if left is not None:
                    piece = piece[:left]
                    left -= len(piece)
                if not piece:
                    continue
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


def _status_line(status: int) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Status"
    return f"HTTP/1.1 {status} {phrase}"

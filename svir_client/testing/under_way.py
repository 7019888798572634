"""One exchange while it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from svir_client.testing.recording import RecordedPiece, Recording
from svir_client.testing.withhold import Mask, shown_target
from svir_core.errors import ErrorKind, SvirError
from svir_core.http_message import HttpRequest, ResponseHead

PIECE_BYTES: Final = 128
"""What a piece costs beside its bytes: the objects that hold it. A server that drips makes many of one byte."""


class _Held:
    """The pieces of one body, as far as ``room`` bytes of memory go: there are no gaps, what is left out is the end."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.pieces: list[bytes] = []
        self.left_out = 0

    def add(self, data: bytes) -> bool:
        """One more piece; whether any of it is kept."""
        kept = bytes(data[: max(0, self._room - PIECE_BYTES)])
        self._room -= len(data) + PIECE_BYTES
        self.left_out += len(data) - len(kept)
        if kept:
            self.pieces.append(kept)
        return bool(kept)


class Exchange:
    """What has been seen of one exchange, up to ``limit`` bytes of memory for each of its bodies.

    ``over`` is given the recording, once: however often the exchange is said to have ended.
    """

    def __init__(
        self, request: HttpRequest, clock: Callable[[], float], limit: int, over: Callable[[Exchange, Recording], None]
    ) -> None:
        self._request = request
        self._mask = Mask(request.headers, request.target)
        self._clock = clock
        self._began = clock()
        self._over = over
        self._ended = False
        self._head: ResponseHead | None = None
        self._head_seconds = 0.0
        self._times: list[float] = []
        self._sent, self._received = _Held(limit), _Held(limit)
        self._uploads = False

    def uploads(self) -> None:
        """The request has a body, if only of no bytes."""
        self._uploads = True

    def block(self, data: bytes) -> None:
        """A block of the request's body."""
        if not self._ended:
            self._sent.add(data)

    def head(self, head: ResponseHead) -> None:
        """The response has begun."""
        self._head, self._head_seconds = head, self._seconds()

    def piece(self, data: bytes) -> None:
        """A piece of the response's body."""
        if not self._ended and self._received.add(data):
            self._times.append(self._seconds())

    def end(self, error: SvirError | None = None, *, whole: bool = False) -> None:
        """The exchange is over, ``whole`` when the message's end was read; only the first end counts."""
        if self._ended:
            return
        self._ended = True
        request, head, sent, received = self._request, self._head, self._sent, self._received
        self._sent = self._received = _Held(0)
        recording = Recording(
            method=request.method,
            target=self._mask.text(shown_target(request.target)),
            request_headers=self._mask.request_headers(request.headers),
            request_body=self._mask.data(b"".join(sent.pieces)) if self._uploads else None,
            status=None if head is None else head.status,
            headers=() if head is None else self._mask.response_headers(head.headers),
            head_seconds=self._head_seconds,
            pieces=tuple(map(RecordedPiece, self._times, self._mask.pieces(received.pieces))),
            complete=whole and not received.left_out,
            error=None if error is None else ErrorKind(error.kind),
            left_out=sent.left_out + received.left_out,
        )
        self._over(self, recording)

    def _seconds(self) -> float:
        return max(0.0, round(self._clock() - self._began, 6))

"""One HTTP/1.1 connection: a channel, and h11's state of both sides."""

from __future__ import annotations

from typing import Final

import anyio
import h11

from svir_core.errors import ProtocolError, SvirError, TransportError
from svir_core.http_message import HttpRequest, Origin
from svir_core.limits import HEAD_BYTES
from svir_core.transport_fault import HEAD_TOO_LARGE, head_too_large
from svir_transport.h11.channel import Channel
from svir_transport.h11.fault import translate

INFORMATIONAL_RESPONSES: Final = 64
"""So many 1xx responses before the final one; real servers send one or two, and each restarts the idle clock."""

BOTH_FRAMINGS: Final = frozenset({b"content-length", b"transfer-encoding"})

Event = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class Connection:
    """A channel to ``origin`` on which one request at a time is made."""

    __slots__ = ("_ended", "_h11", "_head_start", "_received", "_trusted", "channel", "idle_since", "origin", "used")

    def __init__(self, origin: Origin, channel: Channel) -> None:
        self.origin = origin
        self.channel = channel
        self.idle_since = 0.0
        self.used = False  # whether it has already carried a request
        # For one chunk's header too. h11 remembers where its search stopped: byte by byte it is linear.
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self._ended = False
        self._trusted = True  # whether the server's framing leaves no doubt where its message ends
        self._received = 0
        self._head_start = 0

    @property
    def ended(self) -> bool:
        """Whether the server has closed its side, and all it sent before was read."""
        return self._ended

    @property
    def reusable(self) -> bool:
        """Whether both sides are done with this message, want another, and nothing else came.

        Not after a response with both framings, which a proxy before the server may have read by the
        other one (RFC 9112, section 6.3).
        """
        done = self._h11.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}
        return done and self._trusted and self._h11.trailing_data == (b"", False)

    def next_cycle(self) -> None:
        """Make ready for another request; only when ``reusable``."""
        self._h11.start_next_cycle()
        self.used = True
        self._received = self._head_start = 0

    def request_head(self, request: HttpRequest) -> bytes:
        """The bytes of the head; ``h11.LocalProtocolError`` when it is not valid HTTP."""
        head = h11.Request(method=request.method, target=request.target, headers=list(request.headers))
        return self._h11.send(head)

    def body_sent(self, block: bytes) -> None:
        """``block`` of the request's body has left."""
        self._h11.send_with_data_passthrough(h11.Data(data=block))  # plain `send` would copy it

    def request_sent(self) -> None:
        """The whole request has left."""
        self._h11.send(h11.EndOfMessage())

    async def receive(self) -> None:
        """Wait for bytes, or for the end of the input, and take them in; raises as the channel does."""
        while True:
            await self.channel.readable()
            data = self.channel.receive_now()
            if data is not None:
                break
        self._received += len(data)
        self._ended = not data
        self._h11.receive_data(data)

    async def receive_within(self, seconds: float) -> bool:
        """As ``receive``; false when nothing came for ``seconds``."""
        with anyio.move_on_after(seconds):
            await self.receive()
            return True
        return False

    async def speaks_within(self, seconds: float) -> bool:
        """Whether the peer sends or closes within ``seconds``, though nothing was asked; takes nothing in."""
        with anyio.move_on_after(seconds):
            try:
                await self.channel.readable()
            except (OSError, anyio.ClosedResourceError):
                return True
            return not self.channel.quiet()
        return False

    def next_event(self) -> Event:
        """What the bytes so far amount to; ``h11.RemoteProtocolError`` when that is not valid HTTP."""
        return self._h11.next_event()

    def head(self) -> h11.Response | h11.InformationalResponse | None:
        """The next head, or ``None`` while it is not all here.

        Raises ``TransportError`` when the input ended before it, ``ResponseLimitError`` when it is larger
        than 256 KiB, in whatever pieces it came, ``ProtocolError`` when it is none.
        """
        failure: SvirError | None = None
        event: Event = h11.NEED_DATA
        try:
            event = self.next_event()
        except h11.RemoteProtocolError as error:
            if self._ended:
                failure = TransportError("the server closed the connection before the response's head was complete")
            elif error.error_status_hint == HEAD_TOO_LARGE:
                failure = head_too_large()
            else:
                failure = translate(error)
        if failure is not None:
            raise failure
        if event is h11.NEED_DATA:
            return None
        if not isinstance(event, h11.Response | h11.InformationalResponse):
            raise ProtocolError("the server switched protocols without being asked")
        end = self._received - len(self._h11.trailing_data[0])
        if end - self._head_start > HEAD_BYTES:
            raise head_too_large()
        self._head_start = end
        self._trusted = not {name for name, _ in event.headers} >= BOTH_FRAMINGS
        return event

    def close(self) -> None:
        """Close at once; idempotent."""
        self.channel.close()

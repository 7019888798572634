"""A reply in memory as the h11 transport reads it: a channel whose other end is the script."""

from __future__ import annotations

from collections import deque

import anyio
import anyio.lowlevel

from svir_client.testing.reply import End, Reply
from svir_client.testing.wait import Wait


class ReplyChannel:
    """A :class:`svir_transport.h11.channel.Channel`: what is written is taken, what is read is the reply.

    Each piece of the reply is one read.
    """

    def __init__(self, reply: Reply) -> None:
        before = () if reply.before_head is None else (reply.before_head,)
        pieces = () if reply.stall_head else (*before, reply.head(), *reply.pieces())
        self._left: deque[bytes | Wait] = deque(piece for piece in pieces if piece != b"")
        self._stalls = reply.stall_head or reply.end is End.STALL
        self._resets = reply.end is End.RESET
        self._waiting: anyio.CancelScope | None = None
        self._closed = False
        self.sent = 0

    def receive_now(self) -> bytes | None:
        """The piece that :meth:`readable` has waited for."""
        if self._left:
            piece = self._left.popleft()
            return piece if isinstance(piece, bytes) else None
        if self._resets:
            raise ConnectionResetError
        return b""

    def send_now(self, data: memoryview) -> int:
        """All of it goes."""
        self.sent += len(data)
        return len(data)

    def flush_now(self) -> bool:
        """Nothing is held."""
        return True

    async def readable(self) -> None:
        """Wait as the reply says; ``anyio.ClosedResourceError`` once it is closed on this side."""
        if self._closed:
            raise anyio.ClosedResourceError
        with anyio.CancelScope() as self._waiting:
            await anyio.lowlevel.checkpoint()
            while self._left and not isinstance(self._left[0], bytes):
                await self._left[0].pass_through()
                self._left.popleft()
            if self._stalls and not self._left:
                await anyio.sleep_forever()
        if self._closed:
            raise anyio.ClosedResourceError

    async def writable(self) -> None:
        """It always is."""
        await anyio.lowlevel.checkpoint()

    def quiet(self) -> bool:
        """A reply is never followed by another."""
        return False

    def close(self) -> None:
        """See :class:`~svir_transport.h11.channel.Channel`."""
        self._closed = True
        if self._waiting is not None:
            self._waiting.cancel()

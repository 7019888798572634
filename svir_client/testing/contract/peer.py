"""A peer that listens and, until it is told otherwise, does nothing else: it accepts no one and reads nothing."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from typing import Self

RECEIVE_BYTES: Final = 64 * 1024
"""The peer's own buffer is kept small, so that an upload soon has nowhere to go."""

CROWD: Final = 8
"""So many connections fill a backlog of none, on every system."""


class MutePeer:
    """``with MutePeer() as peer:`` listens on 127.0.0.1. The kernel completes connections to it; no one serves them."""

    def __init__(self, *, full: bool = False) -> None:
        self._full = full
        self._sockets: list[socket.socket] = []

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._sockets[0].getsockname()[1])

    def __enter__(self) -> Self:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._sockets.append(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        listener.bind(("127.0.0.1", 0))
        listener.listen(0 if self._full else 16)
        listener.setblocking(False)
        for _ in range(CROWD if self._full else 0):
            one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._sockets.append(one)
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", self.port))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for one in self._sockets:
            one.close()

    async def closed(self, say: bytes = b"") -> int:
        """Accept one connection, ``say`` something, and read until the client closes; returns how many bytes came."""
        listener = self._sockets[0]
        await anyio.wait_readable(listener)
        accepted, _ = listener.accept()
        self._sockets.append(accepted)
        accepted.setblocking(False)
        accepted.send(say)
        count = 0
        try:
            while True:
                await anyio.wait_readable(accepted)
                data = accepted.recv(RECEIVE_BYTES)
                if not data:
                    return count
                count += len(data)
        except ConnectionResetError:
            return count

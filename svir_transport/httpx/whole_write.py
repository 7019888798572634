"""Writes that the cancellation of one call does not cut off, on a connection that several calls share.

The libraries' TLS streams take a record out of OpenSSL and pass through the event loop before they hand it to
the socket. A call that is cancelled there would lose the record, and the server end the connection for a bad
one: every call on it would fail for the cancellation of one.
"""

from __future__ import annotations

from typing import Any, Final

import anyio

from svir_transport.httpx.event_loop import EventLoop

GRACE_SECONDS: Final = 0.05
"""A record is with the socket after a few passes through the event loop. A longer wait is for the peer, and ends with
the call that is cancelled."""


def keep_writes_whole(network: Any) -> None:
    """Have each write to ``network``, a connection of the library's, be under way before it can be cancelled."""
    write = network.write
    loop = EventLoop()

    async def whole(buffer: bytes, timeout: float | None = None) -> None:
        if not buffer:  # as the library writes when it has nothing to say
            return
        grace = anyio.CancelScope()
        with anyio.CancelScope(shield=True) as scope:

            async def give_way() -> None:
                with grace:
                    await anyio.sleep(GRACE_SECONDS)
                    scope.shield = False

            loop.start_soon(give_way)
            try:
                await write(buffer, timeout)
            finally:
                grace.cancel()

    network.write = whole

"""How far one request has come: its clocks, and whether a byte of it was written.

The library tells by its ``trace`` extension, step by step. Its own timeouts would not do: one per
step adds up, and over HTTP/2 the read timeout of one call ends all that share the connection.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import anyio

from svir_core.errors import ResponseTimeoutError
from svir_core.transport_fault import idle_timed_out
from svir_transport.httpx.calls import CLOSE_SECONDS
from svir_transport.httpx.whole_write import keep_writes_whole


class Progress:
    """One attempt to send a request and read the head of its response.

    Attributes:
        scope: what the attempt runs in; the clocks move its deadline.
        network: the connection that was made for this attempt, when one was.
        multiplexed: whether that connection speaks HTTP/2.
        headers_written: whether the request's head has left whole.
    """

    def __init__(self, *, deadline: float, connect: float, idle: float) -> None:
        now = anyio.current_time()
        # A client that does not tell of its steps may be connecting or waiting for the head.
        self.scope = anyio.CancelScope(deadline=now + max(connect, idle))
        self.network: Any = None
        self.multiplexed = False
        self.headers_written = False
        self._deadline = deadline
        self._connect = connect
        self._idle = idle
        self._traced = False
        self._sending = False
        left = max(deadline - now, 0.0)
        limit = None if math.isinf(left) else left
        # No step tells of the wait for a slot. A client that does not trace may have clocks of its own.
        timeout = {"pool": limit, "connect": limit, "read": None, "write": None}
        self.extensions: dict[str, object] = {"timeout": timeout, "trace": self._step}

    @property
    def unsent(self) -> bool:
        """Whether it is known that no byte of the request was written."""
        return self._traced and not self._sending

    def timeout(self) -> ResponseTimeoutError:
        """What it means that the scope's deadline has passed."""
        if self.unsent:
            return ResponseTimeoutError(f"no connection within {self._connect:g} s", unsent=True)
        return idle_timed_out(self._idle)

    def touch(self) -> None:
        """Something moved."""
        self.scope.deadline = anyio.current_time() + self._idle

    def pause(self) -> None:
        """From here on the network is not what is waited for."""
        self.scope.deadline = math.inf

    async def hang_up(self) -> None:
        """Close the connection that was being made: the libraries leave it open when a TLS handshake is cancelled."""
        if self.network is not None:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True), contextlib.suppress(Exception):
                await self.network.aclose()

    async def _step(self, name: str, info: dict[str, Any]) -> None:
        """The library begins or ends a step: ``connection.connect_tcp.started`` and the like."""
        _, _, step = name.partition(".")
        if self._sending:
            self.headers_written = self.headers_written or step == "send_request_headers.complete"
        elif step == "send_request_headers.started" and info["request"].method != b"CONNECT":
            self._sending = True
            self.touch()
        else:
            self.scope.deadline = self._deadline
        if step in ("connect_tcp.complete", "start_tls.complete"):
            self.network = info["return_value"]
        if step == "send_connection_init.started":
            self.multiplexed = True
            if self.network is not None:
                keep_writes_whole(self.network)
        self._traced = True

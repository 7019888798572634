"""An open response: its head, and its raw body as it comes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import h11

from svir_core.errors import SvirError, TransportError
from svir_core.http_message import ResponseHead
from svir_core.transport_fault import idle_timed_out, response_closed
from svir_transport.h11.connection import Connection
from svir_transport.h11.event_loop import EventLoop
from svir_transport.h11.fault import FOREIGN, translate
from svir_transport.h11.pool import Lease

if TYPE_CHECKING:
    from typing import Self


class H11Response:
    """A response whose head is here. Iterate it for the body's bytes; call :meth:`aclose` in any case.

    The connection goes back to the pool when the message's end has been read, and is closed on every
    other exit: an error, a cancelled read, ``aclose`` before the end, and, with a ``ResourceWarning``,
    when nobody holds the response any more.
    """

    def __init__(self, lease: Lease, connection: Connection, head: h11.Response, idle_timeout: float) -> None:
        self._lease = lease
        self._loop = EventLoop()
        self._connection = connection
        self._idle = idle_timeout
        self._head = ResponseHead(head.status_code, head.headers)
        self._complete = False
        self._failure: SvirError | None = None
        self._ready = self._parse()

    @property
    def head(self) -> ResponseHead:
        """Status and headers."""
        return self._head

    @property
    def complete(self) -> bool:
        """Whether the message's end has been read; bytes before it may still wait to be iterated."""
        return self._complete

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The next bytes, up to about 64 KiB, never empty.

        Raises, once everything that arrived has been given out: ``TransportError`` for a body that was
        cut off or a connection that failed; ``ConfigError`` when this side closed it; ``ResponseTimeoutError`` when
        nothing came for the idle timeout; ``ProtocolError`` for framing that is not HTTP.
        """
        if self._ready:
            try:
                await anyio.lowlevel.checkpoint()
            except BaseException:
                self._close()
                raise
        while not self._ready:
            if self._complete:
                raise StopAsyncIteration
            if self._failure is not None:
                raise self._failure
            await self._read()
        data, self._ready = self._ready, b""
        return data

    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        """Read to the message's end and throw the rest away, so that the connection can be kept.

        What takes more than ``limit`` bytes or ``seconds`` is closed instead, as is what fails: nothing
        is raised but the caller's own cancellation.
        """
        taken = 0
        with anyio.move_on_after(seconds):
            while not self._complete and self._failure is None and taken <= limit:
                await self._read()
                taken += len(self._ready)
                self._ready = b""
        self._ready = b""
        self._close()

    async def aclose(self) -> None:
        """Close the connection, unless the message's end was read. Waits for nothing; idempotent."""
        self._close()

    def __del__(self) -> None:
        # A collector runs in any thread, and a connection is closed in that of its event loop.
        if self._complete or self._failure is not None:
            return
        if not self._loop.call_soon(self._lease.drop):
            self._lease.discard()  # of a loop that has ended: nobody reads there, and nobody waits for the slot
        warnings.warn(
            "an H11Response was dropped without aclose(): its connection is closed now",
            ResourceWarning,
            stacklevel=2,
            source=self,
        )

    def _close(self) -> None:
        if not self._complete and self._failure is None:
            self._fail(response_closed())
            self._ready = b""

    def _fail(self, failure: SvirError) -> None:
        self._failure = failure
        self._lease.drop()

    async def _read(self) -> None:
        """Take in one read's worth; what goes wrong is kept, to be raised after the bytes before it."""
        failure: SvirError | None = None
        try:
            if not await self._connection.receive_within(self._idle):
                failure = idle_timed_out(self._idle)
        except FOREIGN as error:
            failure = translate(error)
        except BaseException:
            self._close()
            raise
        if failure is None:
            self._ready = self._parse()
        elif self._failure is None:
            self._fail(failure)

    def _parse(self) -> bytes:
        """The body's bytes among what has been received; sees to the end of the message, and to its faults."""
        parts: list[bytes] = []
        failure: SvirError | None = None
        try:
            while True:
                event = self._connection.next_event()
                if isinstance(event, h11.Data):
                    parts.append(event.data)
                    continue
                if isinstance(event, h11.EndOfMessage):
                    self._complete = True
                    self._lease.keep()
                break
        except h11.RemoteProtocolError as error:
            failure = TransportError("the response's body was cut off") if self._connection.ended else translate(error)
        if failure is not None:
            self._fail(failure)
        return b"".join(parts)

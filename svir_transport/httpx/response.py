"""An open response: its head, and its raw body as it comes."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Final

import anyio

from svir_core.errors import SvirError, TransportError
from svir_core.http_message import Origin, ResponseHead
from svir_core.transport_fault import idle_timed_out, response_closed
from svir_transport.httpx.calls import CLOSE_SECONDS, Calls
from svir_transport.httpx.event_loop import EventLoop
from svir_transport.httpx.fault import translate
from svir_transport.httpx.library import Response

if TYPE_CHECKING:
    from typing import Self

ARRIVED_BYTES: Final = 256 * 1024
"""So much of what has arrived is looked through for the message's end: more than the libraries read at once."""


class HttpxResponse:
    """A response whose head is here. Iterate it for the body's bytes; call :meth:`aclose` in any case.

    The connection goes back to the client's pool when the message's end has been read, and is closed on
    every other exit: an error, a cancelled read, ``aclose`` before the end, and, with a ``ResourceWarning``,
    when nobody holds the response any more.
    """

    def __init__(
        self, response: Response, head: ResponseHead, calls: Calls, origin: Origin, idle_timeout: float
    ) -> None:
        self._response = response
        self._loop = EventLoop()
        self._raw = response.aiter_raw()
        self._calls = calls
        self._origin = origin
        self._idle = idle_timeout
        self._head = head
        self._complete = False
        self._running = True  # whether the server may still be at work for this response
        self._raw_ended = False
        self._settled = False
        self._failure: SvirError | None = None
        self._reading: anyio.CancelScope | None = None
        self._read_over = anyio.Event()

    @property
    def head(self) -> ResponseHead:
        """Status and headers."""
        return self._head

    @property
    def complete(self) -> bool:
        """Whether the message's end has been read."""
        return self._complete

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The next bytes, never empty.

        Raises, once everything that arrived has been given out: ``TransportError`` for a body that was
        cut off or a connection that failed; ``ConfigError`` when this side closed it; ``ResponseTimeoutError`` when
        nothing came for the idle timeout; ``ProtocolError`` for framing that is not HTTP.
        """
        if self._reading is not None:
            raise TransportError("another task is reading the same response")
        data = None
        if not self._complete and self._failure is None:
            data = await self._read()
        if data is not None:
            return data
        raise self._failure or StopAsyncIteration

    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        """Read to the message's end and throw the rest away, so that the connection can be kept.

        What takes more than ``limit`` bytes or ``seconds`` is closed instead, as is what fails: nothing
        is raised but the caller's own cancellation.
        """
        taken = 0
        with anyio.move_on_after(seconds):
            while self._reading is None and not self._complete and self._failure is None and taken <= limit:
                taken += len(await self._read() or b"")
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection, unless the message's end was read or is here already. Idempotent.

        Waits for no peer. A task that is reading gets a ``ConfigError``.
        """
        if self._complete or self._failure is not None:
            return
        self._failure = response_closed()
        if self._reading is None:
            await self._settle()
            return
        self._reading.cancel()
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._read_over.wait()

    def __del__(self) -> None:
        # A collector runs in any thread, and a connection is closed in a task of its event loop.
        if self._complete or self._failure is not None:
            return
        self._failure = response_closed()
        self._loop.start_soon(self._settle)
        warnings.warn(
            "an HttpxResponse was dropped without aclose(): its connection is closed now",
            ResourceWarning,
            stacklevel=2,
            source=self,
        )

    async def _read(self) -> bytes | None:
        """The next bytes; ``None`` at the message's end, or when reading failed."""
        data: bytes | None = None
        failure: SvirError | None = None
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._idle) as self._reading:
                try:
                    while not data:
                        data = await self._raw.__anext__()
                except StopAsyncIteration:
                    self._complete, self._running = True, False
                except Exception as error:  # noqa: BLE001 - whatever the library raises, ours is raised
                    self._running = False
                    failure = translate(error, in_body=True)
            if self._reading.cancelled_caught:
                failure = idle_timed_out(self._idle)
        except BaseException:
            failure = response_closed()
            raise
        finally:
            self._reading = None
            self._raw_ended = data is None
            self._failure = self._failure or failure
            if self._complete or self._failure is not None:
                await self._settle()
        return data

    async def _settle(self) -> None:
        """Reading is over: leave nothing open, in a cancelled scope too."""
        if not self._settled:
            self._settled = True
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                if not self._raw_ended:
                    await self._unwind()
                with contextlib.suppress(Exception):  # whatever closing fails of, there is no more to be done
                    await self._response.aclose()
            await self._calls.end(self._origin, abandoned=self._running)
            self._read_over.set()

    async def _unwind(self) -> None:
        """Run the library's generators to their end, through what has arrived and not one byte further.

        A cancelled read is what they close on. ``aclose`` alone would end the outermost of them, and httpx
        leaves the others to the garbage collector.
        """
        taken = 0
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                while taken <= ARRIVED_BYTES:
                    taken += len(await self._raw.__anext__())
            except StopAsyncIteration:
                self._complete, self._running = True, False
            except Exception:  # noqa: BLE001, S110 - a response that is being closed has no more to say
                pass
        with contextlib.suppress(Exception):
            await self._raw.aclose()

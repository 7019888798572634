"""From a connection and a request to the final head of the response, both ways at once.

While a body goes out the response is read, so that an early one is seen; a response that is no
success ends the upload. The task group for this lives inside one call and never across a ``yield``;
its tasks keep what fails to themselves, so that no exception group arises.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import h11

from svir_core.counted_body import CountedBody
from svir_core.errors import ProtocolError, SvirError
from svir_core.http_message import HttpRequest
from svir_core.transport_fault import idle_timed_out
from svir_transport.h11.connection import INFORMATIONAL_RESPONSES, Connection
from svir_transport.h11.fault import FOREIGN, translate


class _IdleClock:
    """Cancels a scope when nothing moved for so long; stands still while the body's source is waited for."""

    def __init__(self, scope: anyio.CancelScope, seconds: float) -> None:
        self._scope = scope
        self._seconds = seconds
        self._paused = False
        self.touch()

    def touch(self) -> None:
        """Something moved."""
        if not self._paused:
            self._scope.deadline = anyio.current_time() + self._seconds

    def pause(self) -> None:
        """From here on the network is not what is waited for."""
        self._paused = True
        self._scope.deadline = math.inf

    def resume(self) -> None:
        """From here on it is again."""
        self._paused = False
        self.touch()


class RoundTrip:
    """One request on one connection, up to the final head of its response."""

    def __init__(self, connection: Connection, upload: CountedBody, idle_timeout: float) -> None:
        self._connection = connection
        self._upload = upload
        self._idle = idle_timeout
        self._before = connection.channel.sent
        self._block = b""
        self._pending = memoryview(b"")
        self._informational = 0
        self._written = False
        self._head: h11.Response | None = None
        self._error: BaseException | None = None  # the body's, or a bug: goes to the caller as it is
        self._write_failure: SvirError | None = None  # not final: the response may be here all the same
        self._read_failure: SvirError | None = None

    @property
    def unsent(self) -> bool:
        """Whether no byte of the request was written."""
        return self._connection.channel.sent == self._before

    def start(self, request: HttpRequest, block: bytes) -> SvirError | None:
        """Write the head and the body's first block, as far as that goes at once.

        Returns what went wrong when no byte could be written: the request may go to another connection.
        """
        try:
            self._block = block
            self._pending = memoryview(self._connection.request_head(request) + block)
            if self._write_now():
                self._block_left()
        except FOREIGN as error:
            self._write_failure = translate(error, unsent=self.unsent)
        return self._write_failure if self.unsent else None

    async def head(self) -> h11.Response:
        """Write the rest, read the head. Raises the transport's errors, and whatever the body raises."""
        if self._written or self._write_failure is not None:
            await self._read_only()
        else:
            await self._both_ways()
        if self._error is not None:
            raise self._error
        if self._head is not None:
            return self._head
        raise self._failure()

    def _failure(self) -> SvirError:
        """What the call ends with. A server that refuses says so and resets: what was read says more than a write."""
        if self._write_failure is not None and self._write_failure.unsent:
            return self._write_failure
        return self._read_failure or self._write_failure or idle_timed_out(self._idle, unsent=self.unsent)

    async def _read_only(self) -> None:
        with anyio.CancelScope() as scope:
            await self._kept(scope, partial(self._read, scope, _IdleClock(scope, self._idle)))

    async def _both_ways(self) -> None:
        async with anyio.create_task_group() as group:
            scope = group.cancel_scope
            clock = _IdleClock(scope, self._idle)
            group.start_soon(self._kept, scope, partial(self._write, clock))
            await self._kept(scope, partial(self._read, scope, clock))

    async def _kept(self, scope: anyio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
        """Do ``work``; what it raises ends the scope, and is kept for the caller as it is."""
        try:
            await work()
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - raised by `head`, outside of the task group
            self._error = error
            scope.cancel()

    async def _read(self, scope: anyio.CancelScope, clock: _IdleClock) -> None:
        """Read up to the final head; end the upload when that is no success, or when there is none."""
        try:
            while (head := self._final_head()) is None:
                await self._connection.receive()
                clock.touch()
            self._head = head
        except FOREIGN as error:
            self._read_failure = translate(error)
        except SvirError as error:
            self._read_failure = error
        if self._head is None or not 200 <= self._head.status_code < 300:
            scope.cancel()

    def _final_head(self) -> h11.Response | None:
        while (head := self._connection.head()) is not None:
            if isinstance(head, h11.Response):
                return head
            self._informational += 1
            if self._informational > INFORMATIONAL_RESPONSES:
                raise ProtocolError(f"more than {INFORMATIONAL_RESPONSES} informational responses")
        return None

    async def _write(self, clock: _IdleClock) -> None:
        """Write what is left of the block under way, then every further block."""
        while await self._write_block(clock) and not self._upload.done:
            clock.pause()
            self._block = await self._upload.pull()
            clock.resume()
            self._pending = memoryview(self._block)

    async def _write_block(self, clock: _IdleClock) -> bool:
        """Write the block under way; false when the connection failed, which leaves the response to be read."""
        try:
            while True:
                await self._connection.channel.writable()
                clock.touch()
                if self._write_now():
                    break
        except FOREIGN as error:
            self._write_failure = translate(error, unsent=self.unsent)
            return False
        self._block_left()
        return True

    def _write_now(self) -> bool:
        """Write what goes at once; true when the block has left whole."""
        while self._pending:
            count = self._connection.channel.send_now(self._pending)
            if not count:
                return False
            self._pending = self._pending[count:]
        return self._connection.channel.flush_now()

    def _block_left(self) -> None:
        self._connection.body_sent(self._block)
        self._block = b""
        if self._upload.done:
            self._connection.request_sent()
            self._written = True

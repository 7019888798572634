"""The connections of one event loop: so many at once, some kept idle for the next request.

Five rules hold for all of it. Whoever holds a :class:`Lease` holds one of ``max_connections`` slots,
and gives it up by ``keep`` or ``drop``, neither of which waits. Slots are handed over in the order
asked. Idle connections count against the same bound: the oldest makes room. A transport is closed in
one thread for all: an idle connection belongs to who takes it out of the dict, which is one step. A
connection is used again only after it was quiet for a moment, since what a server said of keeping it
is no promise: llama.cpp's announces a keep-alive of 5 s and closes 0.1 ms after a streamed answer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from svir_core.http_message import Origin
from svir_core.transport_fault import transport_closed
from svir_transport.h11.connection import Connection

QUIET_SECONDS: Final = 0.002
"""A connection that was idle for less is watched for the rest: a request that crosses the server's close
would be lost, and may not be sent again. Twenty times what llama.cpp's server takes to close."""

EARLY_CLOSE_SECONDS: Final = 0.1
"""A server that has closed a kept connection within this time keeps none: its later ones are closed at once."""


class Slots:
    """A counting semaphore: first come, first served, and a slot handed to a waiter that is cancelled at
    that moment goes on to the next one."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[anyio.Event] = deque()

    async def acquire(self) -> None:
        """Wait for a slot; no checkpoint when one is free."""
        if self._free:
            self._free -= 1
            return
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self.release()
            else:
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give a slot back, or to the first that waits."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1


class Lease:
    """One slot, and the connection made with it. It ends by ``keep`` or ``drop``; both are idempotent."""

    __slots__ = ("_connecting", "_connection", "_pool", "_released")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._connection: Connection | None = None
        self._connecting: anyio.CancelScope | None = None
        self._released = False

    async def take_idle(self, origin: Origin) -> Connection | None:
        """A kept connection to ``origin`` that its peer has not closed, or ``None``; waits 2 ms at the most."""
        while (connection := self._pool.take_idle(origin)) is not None:
            self._connection = connection
            if await self._pool.stays_quiet(connection):
                return connection
            self.discard()
        return None

    async def connect(self, connect: Callable[[], Awaitable[Connection]], deadline: float) -> Connection | None:
        """A new connection, closed when this lease is dropped; ``None`` when ``deadline`` came before it.

        Raises what ``connect`` raises, and ``ConfigError`` when the transport is closed meanwhile.
        """
        if self._released:  # while the call waited for a kept connection to stay quiet
            raise transport_closed()
        self._pool.make_room()
        try:
            with anyio.CancelScope(deadline=deadline) as self._connecting:
                self.hold(await connect())
                return self._connection
        finally:
            self._connecting = None
        if self._released:
            raise transport_closed()
        return None

    def hold(self, connection: Connection) -> None:
        """Put a new connection under this lease; as for ``connect``."""
        if self._released:
            connection.close()
            raise transport_closed()
        self._connection = connection

    def discard(self) -> None:
        """Close the connection and go on holding the slot."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def drop(self) -> None:
        """Close the connection at once and give the slot back."""
        if not self._released:
            self._released = True
            self.discard()
            if self._connecting is not None:
                self._connecting.cancel()
            self._pool.release(self)

    def keep(self) -> None:
        """Keep the connection for the next request when it can carry one, and give the slot back."""
        connection = self._connection
        if self._released or connection is None or not connection.reusable:
            self.drop()
            return
        self._released = True
        self._connection = None
        connection.next_cycle()
        self._pool.put_idle(connection)
        self._pool.release(self)


class Pool:
    """Connections of one event loop. Expiry is looked at when the pool is used: there is no timer."""

    def __init__(
        self, max_connections: int, max_idle: int, idle_expiry: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._slots = Slots(max_connections)
        self._max_connections = max_connections
        self._max_idle = max_idle
        self._idle_expiry = idle_expiry
        self._clock = clock
        self._leases: set[Lease] = set()
        self._idle: dict[Connection, None] = {}  # the latest last
        self._early_closers: set[Origin] = set()
        self._closed = False

    @property
    def leased(self) -> int:
        """How many slots are held."""
        return len(self._leases)

    @property
    def idle(self) -> int:
        """How many connections are kept for the next request."""
        return len(self._idle)

    async def lease(self) -> Lease:
        """Wait for a slot; ``ConfigError`` when the transport was closed meanwhile."""
        await self._slots.acquire()
        if self._closed:
            self._slots.release()
            raise transport_closed()
        lease = Lease(self)
        self._leases.add(lease)
        return lease

    def release(self, lease: Lease) -> None:
        """``lease`` has ended."""
        self._leases.remove(lease)
        self._slots.release()

    def take_idle(self, origin: Origin) -> Connection | None:
        """The connection to ``origin`` that was used last, out of those whose peers have kept quiet."""
        self._expire()
        for connection in reversed(list(self._idle)):
            if connection.origin == origin and self._claim(connection):
                if connection.channel.quiet():
                    return connection
                self._closed_by_peer(connection)
        return None

    async def stays_quiet(self, connection: Connection) -> bool:
        """Whether ``connection``, just taken, has been quiet for 2 ms; waits for what is missing of them."""
        missing = connection.idle_since + QUIET_SECONDS - self._clock()
        if missing <= 0 or not await connection.speaks_within(missing):
            return True
        self._closed_by_peer(connection)
        return False

    def put_idle(self, connection: Connection) -> None:
        """Keep ``connection``; the one idle for longest goes when there are too many."""
        self._expire()
        connection.idle_since = self._clock()
        if connection.origin in self._early_closers:
            connection.close()
            return
        self._idle[connection] = None
        self._close_oldest(len(self._idle) - self._max_idle)
        if self._closed:  # asked last: another thread may close the pool at any moment
            self.close_idle()

    def make_room(self) -> None:
        """Close idle connections until those and the leased ones, made or not, are within the bound."""
        self._close_oldest(len(self._idle) + len(self._leases) - self._max_connections)

    def close(self) -> None:
        """Close what is idle, keep nothing from now on, and lease nothing; needs no event loop."""
        self._closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """Close what is idle; needs no event loop."""
        self._close_oldest(len(self._idle))

    def drop_leases(self) -> None:
        """Close what is in use; only in the pool's own event loop. Who reads there gets a ``ConfigError``."""
        for lease in tuple(self._leases):
            lease.drop()

    def _closed_by_peer(self, connection: Connection) -> None:
        """``connection`` spoke while it was idle, which is nearly always its close."""
        if self._clock() - connection.idle_since < EARLY_CLOSE_SECONDS:
            self._early_closers.add(connection.origin)
        connection.close()

    def _claim(self, connection: Connection) -> bool:
        """Take ``connection`` out of the idle ones; false when another thread was faster."""
        try:
            del self._idle[connection]
        except KeyError:
            return False
        return True

    def _close_oldest(self, count: int) -> None:
        for connection in list(self._idle)[: max(count, 0)]:
            if self._claim(connection):
                connection.close()

    def _expire(self) -> None:
        limit = self._clock() - self._idle_expiry
        self._close_oldest(sum(connection.idle_since <= limit for connection in list(self._idle)))

    def __del__(self) -> None:
        # The event loop or the transport is gone, or this process is a fork's child: no one will ask again.
        self.close_idle()

"""``H11Transport``: opens requests, one pool of connections per event loop."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Callable
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel

from svir_core.check import an, count, seconds
from svir_core.counted_body import CountedBody
from svir_core.errors import ConfigError, ResponseTimeoutError, SvirError
from svir_core.http_message import HttpRequest
from svir_core.limits import BODY_CLOSE_SECONDS
from svir_core.transport_fault import transport_closed
from svir_transport.h11.connection import Connection
from svir_transport.h11.dial import Phase, default_context, dial
from svir_transport.h11.fault import FOREIGN, translate
from svir_transport.h11.pool import Lease, Pool
from svir_transport.h11.response import H11Response
from svir_transport.h11.roundtrip import RoundTrip


class H11Transport:
    """HTTP/1.1 over TCP and TLS, kept alive, for asyncio and trio alike.

    No redirects, no retries, no proxies from the environment. One transport works under several event
    loops, each with connections of its own, and after a fork the child begins with none.

    Args:
        connect_timeout: seconds for the wait for a free slot, name, TCP and TLS together.
        max_connections: connections at once per event loop, those kept idle included.
        max_idle: how many of them are kept for later requests; 0 keeps none.
        idle_expiry: seconds after which a kept one is not used again.
        ssl_context: how to do TLS; by default with the system's trust, checked.

    Raises ``ConfigError`` for a bound that is not positive. Source: 30-client section 1.
    """

    def __init__(
        self,
        *,
        connect_timeout: float = 10.0,
        max_connections: int = 100,
        max_idle: int = 20,
        idle_expiry: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._connect_timeout = seconds(connect_timeout, "connect_timeout")
        self._max_connections = count(max_connections, 1, "max_connections")
        self._max_idle = count(max_idle, 0, "max_idle")
        self._idle_expiry = seconds(idle_expiry, "idle_expiry")
        if ssl_context is not None and not isinstance(ssl_context, ssl.SSLContext):
            raise ConfigError(f"ssl_context must be an ssl.SSLContext, not {an(type(ssl_context))}")
        if ssl_context is not None and ssl_context.protocol is ssl.PROTOCOL_TLS_SERVER:
            raise ConfigError("ssl_context is a server's: it was made with PROTOCOL_TLS_SERVER, or for CLIENT_AUTH")
        self._ssl_context = ssl_context
        self._pools: WeakKeyDictionary[object, Pool] = WeakKeyDictionary()
        self._process = os.getpid()
        self._closed = False

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float | None = None,
    ) -> H11Response:
        """Send ``request`` with ``body`` and read the head of the response.

        ``body`` gives exactly ``content-length`` bytes; it is closed, when it has ``aclose``, before
        this returns or raises. ``idle_timeout`` bounds, in seconds, the wait for the head, each later
        read, and each write that makes no progress; a wait for ``body`` itself counts as none of them.
        ``connect_timeout``: seconds for this call, in place of the transport's.

        Raises ``TransportError`` and ``ResponseTimeoutError``, with ``unsent`` when no byte of the
        request was written; ``ProtocolError`` and ``ResponseLimitError`` for a head that is not HTTP or
        too large; ``AttachmentError`` for a body of another length; ``ConfigError`` for a request that
        is not HTTP; and whatever ``body`` raises, as it is. A call that fails or is cancelled leaves no
        connection open.
        """
        upload = CountedBody(body)
        try:
            response = await self._open(request, upload, idle_timeout, connect_timeout)
        except BaseException:
            await upload.aclose(anyio.move_on_after(BODY_CLOSE_SECONDS, shield=True))
            raise
        try:
            await upload.aclose(anyio.move_on_after(BODY_CLOSE_SECONDS, shield=True))
        except BaseException:
            await response.aclose()
            raise
        return response

    async def aclose(self) -> None:
        """Close the connections of every event loop that are idle, and those of this one that are in use.

        Idempotent, waits for nothing. A later ``open`` is a ``ConfigError``.
        """
        self._closed = True
        self._forget_parent()
        here = anyio.lowlevel.current_token().native_token
        for reference in self._pools.keyrefs():  # a copy: other threads may open their first connection now
            loop = reference()
            pool = None if loop is None else self._pools.get(loop)
            if pool is not None:
                pool.close()
                if loop is here:
                    pool.drop_leases()

    async def _open(
        self, request: HttpRequest, upload: CountedBody, idle_timeout: float, connect_timeout: float | None
    ) -> H11Response:
        idle = seconds(idle_timeout, "idle_timeout", unsent=True)
        limit = self._connect_timeout
        if connect_timeout is not None:
            limit = seconds(connect_timeout, "connect_timeout", unsent=True)
        upload.declare(request)
        # Before the connection: a file that cannot be read costs none, and a short body leaves with the head.
        block = await upload.pull()
        connecting = _Connecting(self._pool(), request, limit)
        lease = await connecting.lease()
        try:
            while True:
                connection = await lease.take_idle(connecting.origin) or await connecting.connect(lease, self._context)
                trip = RoundTrip(connection, upload, idle)
                failure = trip.start(request, block)
                if failure is None:
                    return H11Response(lease, connection, await trip.head(), idle)
                if not connection.used:
                    raise failure
                lease.discard()
        except BaseException:
            lease.drop()
            raise

    def _pool(self) -> Pool:
        """The pool of the running event loop."""
        self._forget_parent()
        loop = anyio.lowlevel.current_token().native_token
        pool = self._pools.get(loop)
        if pool is None:
            pool = self._pools[loop] = Pool(self._max_connections, self._max_idle, self._idle_expiry)
        if self._closed:  # asked last: another thread may close the transport at any moment
            pool.close()
            raise transport_closed()
        return pool

    def _forget_parent(self) -> None:
        """After a fork: let go of the parent's connections, which stay open there."""
        if self._process != os.getpid():
            self._process = os.getpid()
            pools, self._pools = list(self._pools.values()), WeakKeyDictionary()
            for pool in pools:
                pool.close_idle()

    def _context(self) -> ssl.SSLContext:
        if self._ssl_context is None:  # not before it is needed: reading the system's trust takes 10 to 30 ms
            self._ssl_context = default_context()
        return self._ssl_context


class _Connecting:
    """The connect clock of one call: the wait for a slot, name, TCP and TLS share one limit."""

    def __init__(self, pool: Pool, request: HttpRequest, limit: float) -> None:
        self.origin = request.origin
        self._pool = pool
        self._limit = limit
        self._deadline = anyio.current_time() + limit
        self._phase = Phase.SLOT

    async def lease(self) -> Lease:
        """A slot, in turn."""
        with anyio.CancelScope(deadline=self._deadline):
            return await self._pool.lease()
        raise self._late()

    async def connect(self, lease: Lease, context: Callable[[], ssl.SSLContext]) -> Connection:
        """A new connection, held by ``lease``."""

        async def connect() -> Connection:
            tls = context() if self.origin.scheme == "https" else None
            return Connection(self.origin, await dial(self.origin, tls, self._enter))

        try:
            connection = await lease.connect(connect, self._deadline)
            failure = self._late()
        except FOREIGN as error:
            connection = None
            failure = translate(error, unsent=True, handshake=self._phase is Phase.TLS)
        if connection is None:
            raise failure
        return connection

    def _enter(self, phase: Phase) -> None:
        self._phase = phase

    def _late(self) -> SvirError:
        return ResponseTimeoutError(f"{self._phase.value} within {self._limit:g} s", unsent=True)

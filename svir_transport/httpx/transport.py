"""``HttpxTransport``: opens requests over a client of httpx2 or httpx."""

from __future__ import annotations

import contextlib
import importlib.util
import ssl
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio

from svir_core.check import an, count, expect, seconds
from svir_core.counted_body import CountedBody
from svir_core.errors import ConfigError, ProtocolError, SvirError
from svir_core.http_message import HttpRequest, ResponseHead
from svir_core.limits import BODY_CLOSE_SECONDS, HEAD_BYTES
from svir_core.transport_fault import head_too_large, transport_closed
from svir_transport.httpx.blocks import Blocks
from svir_transport.httpx.calls import CLOSE_SECONDS
from svir_transport.httpx.fault import translate, write_failed
from svir_transport.httpx.library import Options, Response, installed, library_of, make_request, send
from svir_transport.httpx.progress import Progress
from svir_transport.httpx.response import HttpxResponse
from svir_transport.httpx.site import GivenSites, MadeSites, Site

HTTP2: Final = b"HTTP/2"

DEFAULTS: Final = Options(max_connections=100, max_idle=20, idle_expiry=30.0, ssl_context=None, http2=False)


class HttpxTransport:
    """A client of httpx2 or httpx as a transport, for asyncio and trio alike.

    Args:
        client: an ``AsyncClient`` of httpx2 or httpx, or one of their async transports. Its proxy,
            protocols and certificates are used; its base URL, headers, parameters, cookies,
            authentication, timeouts and redirects are not. It stays yours to close, and serves the
            event loop that first uses it. By default one is made per event loop, of httpx2 when it
            is installed, else of httpx; after a fork the child makes its own.
        connect_timeout: seconds for the wait for a free slot, proxy, name, TCP and TLS together.
        max_connections: connections at once per event loop, those kept idle included.
        max_idle: how many of them are kept for later requests; 0 keeps none.
        idle_expiry: seconds after which a kept one is not used again.
        ssl_context: how to do TLS; by default with the system's trust, checked.
        http2: whether HTTP/2 is offered to the server.

    The last five are for a client that is made: with a ``client`` of yours they are a ``ConfigError``,
    as are a bound that is not positive and, without a ``client``, that there is no library.
    Source: 30-client section 1.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        connect_timeout: float = 10.0,
        max_connections: int = DEFAULTS.max_connections,
        max_idle: int = DEFAULTS.max_idle,
        idle_expiry: float = DEFAULTS.idle_expiry,
        ssl_context: ssl.SSLContext | None = None,
        http2: bool = False,
    ) -> None:
        self._connect_timeout = seconds(connect_timeout, "connect_timeout")
        if ssl_context is not None and not isinstance(ssl_context, ssl.SSLContext):
            raise ConfigError(f"ssl_context must be an ssl.SSLContext, not {an(type(ssl_context))}")
        if ssl_context is not None and ssl_context.protocol is ssl.PROTOCOL_TLS_SERVER:
            raise ConfigError("ssl_context is a server's: it was made with PROTOCOL_TLS_SERVER, or for CLIENT_AUTH")
        options = Options(
            count(max_connections, 1, "max_connections"),
            count(max_idle, 0, "max_idle"),
            seconds(idle_expiry, "idle_expiry"),
            ssl_context,
            expect(http2, bool, "http2"),
        )
        if client is None:
            if http2 and importlib.util.find_spec("h2") is None:
                raise ConfigError("http2=True needs the package h2: pip install h2")
            self._library = installed()
            self._sites: GivenSites | MadeSites = MadeSites(self._library, options)
        else:
            if options != DEFAULTS:
                raise ConfigError("connections, TLS and HTTP/2 are the given client's own: set them there")
            self._library = library_of(client)
            self._sites = GivenSites(client)
        self._closed = False

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float | None = None,
    ) -> HttpxResponse:
        """Send ``request`` with ``body`` and read the head of the response.

        ``body`` gives exactly ``content-length`` bytes; it is closed, when it has ``aclose``, before
        this returns or raises. ``idle_timeout`` bounds, in seconds, the wait for the head, each later
        read, and each write that makes no progress; a wait for ``body`` itself counts as none of them.
        ``connect_timeout``: seconds for this call, in place of the transport's.

        Raises ``TransportError`` and ``ResponseTimeoutError``, with ``unsent`` when no byte of the
        request was written; ``ProtocolError`` and ``ResponseLimitError`` for a head that is not HTTP or
        too large; ``AttachmentError`` for a body of another length; ``ConfigError`` for a request that
        is not HTTP, and for a given client that is closed or of another event loop; and whatever
        ``body`` raises, as it is. A call that fails or is cancelled leaves no connection open.
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
        """Close the responses of this event loop that are open, and the client that was made for it.

        A given client stays open. Idempotent, waits for no peer. A later ``open`` is a ``ConfigError``.
        Where one transport served several event loops, call it in each of them.
        """
        self._closed = True
        popped = self._sites.pop()
        if popped is None:
            return
        site, client = popped
        for response in list(site.responses):
            await response.aclose()
        if client is not None:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True), contextlib.suppress(Exception):
                await client.aclose()

    async def _open(
        self, request: HttpRequest, upload: CountedBody, idle_timeout: float, connect_timeout: float | None
    ) -> HttpxResponse:
        idle = seconds(idle_timeout, "idle_timeout", unsent=True)
        limit = self._connect_timeout
        if connect_timeout is not None:
            limit = seconds(connect_timeout, "connect_timeout", unsent=True)
        upload.declare(request)
        # Before the connection: a file that cannot be read costs none, and a short body leaves with the head.
        first = await upload.pull()
        if self._closed:
            raise transport_closed()
        site = self._sites.here()
        call = _Call(site, self._library, request, upload, first)
        deadline = anyio.current_time() + limit
        site.calls.begin(call.origin)
        try:
            response = await call.send(deadline, limit, idle)
        except BaseException:
            await site.calls.end(call.origin, abandoned=call.sent)
            raise
        site.responses.add(response)
        return response


class _Call:
    """One request on its way, up to the head of its response.

    Attributes:
        origin: where it goes.
        sent: whether the server may have begun to work on it.
    """

    def __init__(self, site: Site, library: str, request: HttpRequest, upload: CountedBody, first: bytes) -> None:
        self.origin = request.origin
        self._site = site
        self._library = library
        self._request = request
        self._upload = upload
        self._first = first
        self.sent = False

    async def send(self, deadline: float, connect: float, idle: float) -> HttpxResponse:
        """Send it. A connection that was closed here costs an attempt, whose head did not leave."""
        dead = self._site.calls.closed(self.origin)
        while True:
            progress = Progress(deadline=deadline, connect=connect, idle=idle)
            blocks = Blocks(self._upload, self._first, progress)
            response: Response | None = None
            failure: SvirError | None = None
            again = False
            try:
                with progress.scope:
                    response = await self._attempt(progress, blocks)
            except Exception as error:  # noqa: BLE001 - whatever the library raises, ours is raised
                again = dead > 0 and blocks.whole and not progress.headers_written and write_failed(error)
                failure = translate(error, unsent=progress.unsent)
            finally:
                self.sent = not progress.unsent
                if response is None and progress.unsent:
                    await progress.hang_up()
                if progress.multiplexed:
                    self._site.calls.shares(self.origin, progress.network)
            if response is not None:
                return await self._accept(response, idle)
            if blocks.failure is not None:
                raise blocks.as_raised(blocks.failure)
            if not again:
                raise failure or progress.timeout()
            dead -= 1

    async def _attempt(self, progress: Progress, blocks: Blocks) -> Response:
        made = make_request(self._library, self._request, lambda: aiter(blocks), progress.extensions)
        return await send(self._site.client, made)

    async def _accept(self, response: Response, idle: float) -> HttpxResponse:
        """The response, when it is one: its head is read and looked at. Else nothing of it stays open."""
        failure: SvirError | None = None
        try:
            network = response.extensions.get("network_stream")
            if response.extensions.get("http_version") == HTTP2 and network is not None:
                self._site.calls.shares(self.origin, network)
            return HttpxResponse(response, _head(response), self._site.calls, self.origin, idle)
        except SvirError as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - whatever a given transport's response raises, ours is raised
            failure = translate(error)
        with anyio.move_on_after(CLOSE_SECONDS, shield=True), contextlib.suppress(Exception):
            await response.aclose()
        raise failure


def _head(response: Response) -> ResponseHead:
    """Status and headers; raises what a head must not be."""
    if response.status_code < 200:
        raise ProtocolError("the server switched protocols without being asked")
    if sum(len(name) + len(value) for name, value in response.headers.raw) > HEAD_BYTES:
        raise head_too_large()
    return ResponseHead(response.status_code, response.headers.raw)

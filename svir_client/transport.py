"""What the client asks of a transport (00 section 5): one method that opens a request, and a response
whose body is raw bytes. Structural types: a transport knows ``svir_core`` and nothing of the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from svir_core.http_message import HttpRequest, ResponseHead


class TransportResponse(Protocol):
    """An open response: its head, and its body as an async iterator of raw bytes.

    Iterating raises ``TransportError`` when the body was cut off, after every byte that arrived has
    been handed over, ``ResponseTimeoutError`` when nothing came for the idle timeout, and ``ConfigError``
    when this side had closed it, or its transport: nobody cut that off.
    """

    @property
    def head(self) -> ResponseHead:
        """Status and headers."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the message's end has been read, so that the connection may be used again."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The body, as it comes."""
        ...

    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        """Read on to the message's end, for at most ``limit`` bytes and ``seconds``; never raises for
        what the server does."""
        ...

    async def aclose(self) -> None:
        """Give the connection back when the response is ``complete``, else close it at once.

        Idempotent, waits for nothing, and does its work inside a cancelled scope too.
        """
        ...


class Transport(Protocol):
    """Moves the bytes of HTTP requests: no redirects, no retries, no proxies from the environment."""

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float | None = None,
    ) -> TransportResponse:
        """Send ``request`` with ``body`` (of the length its headers declare) and read the response's head.

        ``idle_timeout`` bounds the wait for the head and every later wait for bytes, in seconds;
        ``connect_timeout`` the connecting, ``None`` for the transport's own.

        ``body`` is closed, by its ``aclose`` where it has one, before this returns or raises.

        Raises ``TransportError`` and ``ResponseTimeoutError`` (``unsent`` when the request never reached
        the server), ``ProtocolError`` for a response that is not HTTP, that or ``ResponseLimitError`` for a
        head of more than 256 KiB, ``AttachmentError`` for a body of another length, ``ConfigError`` when body
        and headers contradict each other or the transport is closed, and whatever ``body`` raises, as it is;
        no other exception. A call that failed or was cancelled leaves no connection open, and a response that
        is dropped without being closed gives its connection up.
        ``svir_client.testing.check_transport`` holds a transport to all of this.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...

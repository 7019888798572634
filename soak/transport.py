"""The transports that a soak may run over, by name, and what each tells of its connections."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final, Protocol

import attrs

from svir_client import Transport
from svir_transport.h11 import H11Transport
from svir_transport.httpx import HttpxTransport

CONNECT_SECONDS: Final = 60.0
"""A wait for a slot, or for a busy machine, is no fault here."""

MAX_IDLE: Final = 20


class Pool(Protocol):
    """What is asked of a transport's pool."""

    @property
    def leased(self) -> int:
        """Connections in use."""
        ...

    @property
    def idle(self) -> int:
        """Connections kept."""
        ...


@attrs.frozen
class Tested:
    """A transport, and its pool in the running event loop."""

    transport: Transport
    pool: Callable[[], Pool]


def _h11(connections: int, tls: ssl.SSLContext | None) -> Tested:
    transport = H11Transport(max_connections=connections, max_idle=MAX_IDLE, ssl_context=tls)
    return Tested(transport, transport._pool)


@attrs.frozen
class _Calls:
    """The calls of a transport that keeps no connection, as a pool."""

    transport: HttpxTransport

    @property
    def leased(self) -> int:
        return sum(self.transport._sites.here().calls._under_way.values())

    @property
    def idle(self) -> int:
        return 0


def _httpx2(connections: int, tls: ssl.SSLContext | None) -> Tested:
    # None is kept idle: the library's own pool does not say how many there are.
    transport = HttpxTransport(max_connections=connections, max_idle=0, ssl_context=tls)
    return Tested(transport, lambda: _Calls(transport))


TRANSPORTS: Final[dict[str, Callable[[int, ssl.SSLContext | None], Tested]]] = {"h11": _h11, "httpx2": _httpx2}
"""Made with so many connections at most, and a context for TLS."""

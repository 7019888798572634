"""The transports that a soak may run over, by name, and what each tells of its connections."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final, Protocol

import attrs

from svir_client import Transport
from svir_transport.h11 import H11Transport

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


TRANSPORTS: Final[dict[str, Callable[[int, ssl.SSLContext | None], Tested]]] = {"h11": _h11}
"""Made with so many connections at most, and a context for TLS."""

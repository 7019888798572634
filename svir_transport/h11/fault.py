"""Foreign exceptions, translated: one table, and nothing of them but the class name survives.

Whoever calls :func:`translate` does so inside the ``except`` and raises outside of it, so that
neither ``__cause__`` nor ``__context__`` leads from an error of ours to a request (00 section 3).
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

import anyio
import h11

from svir_core.errors import ConfigError, ProtocolError, ResponseTimeoutError, SvirError, TransportError

TABLE: Final[tuple[tuple[type[Exception], type[SvirError], str], ...]] = (
    (h11.LocalProtocolError, ConfigError, "the request is not valid HTTP"),
    (h11.RemoteProtocolError, ProtocolError, "the response is not valid HTTP"),
    (ssl.SSLCertVerificationError, TransportError, "the server's certificate was not accepted"),
    (ssl.SSLError, TransportError, "TLS failed"),
    (socket.gaierror, TransportError, "the host name could not be resolved"),
    (UnicodeError, ConfigError, "the host name is not valid"),
    (OverflowError, ConfigError, "the port is out of range"),
    (TimeoutError, ResponseTimeoutError, "the operating system gave the connection up"),
    (OSError, TransportError, "the connection failed"),
    (anyio.ClosedResourceError, TransportError, "the connection was closed on this side"),
    (anyio.BusyResourceError, TransportError, "another task is reading the same response"),
)
"""Class of the exception, class of ours, words; the first row that fits counts."""

FOREIGN: Final[tuple[type[Exception], ...]] = tuple(row[0] for row in TABLE)
"""What the network, TLS, h11 and anyio may raise here."""


def translate(error: Exception, *, unsent: bool = False) -> SvirError:
    """The error of ours for ``error``, which is an instance of one of :data:`FOREIGN`.

    ``unsent`` says that no byte of the request was written, so that it never reached the server.
    """
    kind, words = next((kind, words) for foreign, kind, words in TABLE if isinstance(error, foreign))
    return kind(f"{words}: {type(error).__name__}", unsent=unsent)

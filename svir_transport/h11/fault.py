"""Foreign exceptions, translated: tables, and nothing of them but the class name survives.

Whoever calls :func:`translate` does so inside the ``except`` and raises outside of it, so that
neither ``__cause__`` nor ``__context__`` leads from an error of ours to a request (00 section 3).
OpenSSL's own text names hosts; its numbers and constants do not, and say what they say by a table.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

import anyio
import h11

from svir_core.errors import ConfigError, ProtocolError, ResponseTimeoutError, SvirError, TransportError
from svir_core.transport_fault import tls_reason

Row = tuple[type[Exception], type[SvirError], str]

TABLE: Final[tuple[Row, ...]] = (
    (h11.LocalProtocolError, ConfigError, "the request is not valid HTTP"),
    (h11.RemoteProtocolError, ProtocolError, "the response is not valid HTTP"),
    (ssl.SSLCertVerificationError, TransportError, "the server's certificate was not accepted"),
    (ssl.SSLError, TransportError, "TLS failed"),
    (socket.gaierror, TransportError, "the host name could not be resolved"),
    (UnicodeError, ConfigError, "the host name is not valid"),
    (OverflowError, ConfigError, "the port is out of range"),
    (TimeoutError, ResponseTimeoutError, "the operating system gave the connection up"),
    (OSError, TransportError, "the connection failed"),
    (anyio.ClosedResourceError, ConfigError, "the connection was closed on this side"),
    (anyio.BusyResourceError, TransportError, "another task is reading the same response"),
)
"""Class of the exception, class of ours, words; the first row that fits counts."""

HANDSHAKE: Final[tuple[Row, ...]] = (
    (ssl.SSLEOFError, TransportError, "the server closed the connection during the TLS handshake"),
    (ssl.SSLZeroReturnError, TransportError, "the server closed the connection during the TLS handshake"),
    (ConnectionError, TransportError, "the server reset the connection during the TLS handshake"),
)
"""What is looked at first while TLS is agreed on."""

FOREIGN: Final[tuple[type[Exception], ...]] = tuple(row[0] for row in TABLE)
"""What the network, TLS, h11 and anyio may raise here."""

UNTRUSTED: Final = "its authority is not trusted"

CERTIFICATE: Final = {
    9: "it is not valid yet",
    10: "it has expired",
    18: UNTRUSTED,  # signed by itself
    19: UNTRUSTED,  # signed by an authority that was sent along, and is not trusted
    20: UNTRUSTED,
    21: UNTRUSTED,
    23: "it was revoked",
    62: "it is for another host",
    64: "it is for another address",
}
"""OpenSSL's ``X509_V_ERR_*`` numbers, ``SSLCertVerificationError.verify_code``."""


def translate(error: Exception, *, unsent: bool = False, handshake: bool = False) -> SvirError:
    """The error of ours for ``error``, which is an instance of one of :data:`FOREIGN`.

    ``unsent`` says that no byte of the request was written, so that it never reached the server;
    ``handshake`` that TLS was being agreed on.
    """
    rows = HANDSHAKE + TABLE if handshake else TABLE
    kind, words = next((kind, words) for foreign, kind, words in rows if isinstance(error, foreign))
    return kind(f"{words}{_reason(error)}: {type(error).__name__}", unsent=unsent)


def _reason(error: Exception) -> str:
    """What OpenSSL says it was, in brackets, or nothing."""
    if isinstance(error, ssl.SSLCertVerificationError):
        words = CERTIFICATE.get(getattr(error, "verify_code", 0))
    elif type(error) is ssl.SSLError:
        return tls_reason(getattr(error, "reason", None))
    else:
        return ""
    return f" ({words})" if words else ""

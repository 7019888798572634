"""Foreign exceptions, translated: one table over the names of their classes, so that neither library is imported.

Nothing of an exception but its class name survives. Whoever calls :func:`translate` does so inside the
``except`` and raises outside of it, so that neither ``__cause__`` nor ``__context__`` leads from an error
of ours to a request (00 section 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from svir_core.errors import (
    ConfigError,
    ProtocolError,
    ResponseLimitError,
    ResponseTimeoutError,
    SvirError,
    TransportError,
)
from svir_core.transport_fault import HEAD_TOO_LARGE, tls_reason


class Row(NamedTuple):
    """What an exception whose class, or a base of it, is called ``name`` means."""

    name: str
    kind: type[SvirError]
    words: str
    unsent: bool = False  # whether no byte of a request was written when it is raised


TABLE: Final[tuple[Row, ...]] = (
    Row("PoolTimeout", ResponseTimeoutError, "no connection became free in time", unsent=True),
    Row("ConnectTimeout", ResponseTimeoutError, "no connection in time", unsent=True),
    Row("TimeoutException", ResponseTimeoutError, "nothing moved on the connection in time"),
    Row("ConnectError", TransportError, "no connection", unsent=True),
    Row("ProxyError", TransportError, "the proxy refused", unsent=True),
    Row("UnsupportedProtocol", ConfigError, "the client does not take this scheme", unsent=True),
    Row("InvalidURL", ConfigError, "the client does not take this URL", unsent=True),
    Row("RemoteProtocolError", TransportError, "the server ended the connection"),
    Row("InvalidBodyLengthError", TransportError, "the response's body was cut off"),  # h2's
    Row("ProtocolError", ProtocolError, "the response is not valid HTTP"),  # httpx's own, and h2's
    Row("NetworkError", TransportError, "the connection failed"),
    Row("StreamError", ConfigError, "the response was read by a hook of the client"),
    Row("SSLError", TransportError, "TLS failed"),  # a refusal after the handshake, as TLS 1.3 has them
    Row("Exception", TransportError, "the client failed"),
)
"""The first row that fits counts. The last one fits everything: no foreign exception ever gets out."""

TLS: Final = (
    ("SSLCertVerificationError", "the certificate was not accepted"),
    ("SSLError", "TLS failed"),
    ("gaierror", "the host name could not be resolved"),
)
"""What a ``ConnectError`` came from, and the words for it."""

PEER_CLOSED: Final = "closed connection"
"""How h11 says that a message was cut off; its class is the same as for framing that is not HTTP."""


CLOSED_HERE: Final = "ClosedResourceError"
"""What anyio and trio raise for a connection that was closed under its reader: the client was, by its owner."""


def translate(error: BaseException, *, unsent: bool = False, in_body: bool = False) -> SvirError:
    """The error of ours for ``error``; ``unsent`` says that no byte of the request was written, ``in_body`` that the
    head of the response was read."""
    row = next(row for row in TABLE if row.name in _names(error))
    kind, words = row.kind, row.words
    origins = list(_origins(error))
    if row.name == "RemoteProtocolError":
        parser = next((link for link in origins if type(link).__module__.partition(".")[0] == "h11"), None)
        if getattr(parser, "error_status_hint", None) == HEAD_TOO_LARGE and not in_body:
            kind, words = ResponseLimitError, "the response head is too large"
        elif parser is not None and PEER_CLOSED not in str(parser):
            kind, words = ProtocolError, "the response is not valid HTTP"
    elif row.name == "NetworkError" and any(CLOSED_HERE in _names(link) for link in origins):
        kind, words = ConfigError, "the connection was closed on this side"
    elif row.name == "ConnectError":
        links = {name for link in origins for name in _names(link)}
        words = next((words for name, words in TLS if name in links), words)
    if row.name in ("ConnectError", "NetworkError", "SSLError"):
        reason = next((tls_reason(getattr(link, "reason", None)) for link in origins if _is_tls(link)), "")
        words = f"TLS failed{reason}" if reason else words
    return kind(f"{words}: {type(error).__name__}", unsent=unsent or row.unsent)


def write_failed(error: BaseException) -> bool:
    """Whether ``error`` says that a write failed."""
    return "WriteError" in _names(error)


def _is_tls(error: BaseException) -> bool:
    return type(error).__name__ == "SSLError"


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _origins(error: BaseException) -> Iterator[BaseException]:
    """``error`` and what it came from; a ``raise ... from None`` on the way hides none of it."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__

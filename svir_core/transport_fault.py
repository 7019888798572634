"""What every transport says in the same words: errors that are a matter of HTTP, and of no library."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from svir_core.errors import ConfigError, ResponseLimitError, ResponseTimeoutError
from svir_core.limits import HEAD_BYTES

HEAD_TOO_LARGE: Final = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
"""What h11 hints, as ``error_status_hint``, when a head is larger than its buffer."""

_REFUSED: Final = "the server did not accept the client's certificate"

TLS_REASONS: Final = {
    "WRONG_VERSION_NUMBER": "the server does not speak it on this port",
    "UNSUPPORTED_PROTOCOL": "no version in common",
    "TLSV1_ALERT_PROTOCOL_VERSION": "no version in common",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the server refused the handshake: no cipher in common, or no client certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server requires a client certificate",
    "TLSV1_ALERT_UNKNOWN_CA": _REFUSED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_REVOKED": _REFUSED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _REFUSED,
    "TLSV1_UNRECOGNIZED_NAME": "the server does not serve this host",
}
"""``SSLError.reason``; others are shown as they are, when they are one of OpenSSL's constants."""

_CONSTANT: Final = re.compile(r"[A-Z0-9_]{1,80}")


def tls_reason(reason: object) -> str:
    """An ``SSLError.reason`` in words and in brackets, after a blank; nothing for what is none."""
    if not isinstance(reason, str) or not _CONSTANT.fullmatch(reason):
        return ""
    return f" ({TLS_REASONS.get(reason, reason)})"


def idle_timed_out(seconds: float, *, unsent: bool = False) -> ResponseTimeoutError:
    """The idle clock ran out."""
    return ResponseTimeoutError(f"nothing moved on the connection for {seconds:g} s", unsent=unsent)


def head_too_large() -> ResponseLimitError:
    """The head of a response is over its bound."""
    return ResponseLimitError(f"the response head is larger than {HEAD_BYTES} bytes")


def response_closed() -> ConfigError:
    """A response is read that this side closed before its end: the server did not cut it off."""
    return ConfigError("the response was closed before its end")


def transport_closed() -> ConfigError:
    """A transport is asked for a call after it was closed."""
    return ConfigError("the transport is closed", unsent=True)

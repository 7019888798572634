"""What every transport says in the same words: errors that are a matter of HTTP, and of no library."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from svir_core.errors import ConfigError, ResponseLimitError, ResponseTimeoutError
from svir_core.limits import HEAD_BYTES

HEAD_TOO_LARGE: Final = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
"""What h11 hints, as ``error_status_hint``, when a head is larger than its buffer."""


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

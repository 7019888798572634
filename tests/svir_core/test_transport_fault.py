"""The words that every transport uses: kind, what is known of the request, and nothing of a call."""

from __future__ import annotations

from svir_core.errors import ConfigError, ResponseLimitError, ResponseTimeoutError
from svir_core.transport_fault import (
    HEAD_TOO_LARGE,
    head_too_large,
    idle_timed_out,
    response_closed,
    tls_reason,
    transport_closed,
)


def test_kinds_words_and_what_is_unsent() -> None:
    assert idle_timed_out(0.5) == ResponseTimeoutError("nothing moved on the connection for 0.5 s")
    assert idle_timed_out(30, unsent=True) == ResponseTimeoutError(
        "nothing moved on the connection for 30 s", unsent=True
    )
    assert head_too_large() == ResponseLimitError("the response head is larger than 262144 bytes")
    assert response_closed() == ConfigError("the response was closed before its end")
    assert transport_closed() == ConfigError("the transport is closed", unsent=True)
    assert int(HEAD_TOO_LARGE) == 431


def test_what_openssl_says_in_words() -> None:
    assert tls_reason("TLSV13_ALERT_CERTIFICATE_REQUIRED") == " (the server requires a client certificate)"
    assert tls_reason("NO_CIPHERS_AVAILABLE") == " (NO_CIPHERS_AVAILABLE)"
    for nothing in (None, "", "a host name", "A" * 81, 5):
        assert tls_reason(nothing) == ""

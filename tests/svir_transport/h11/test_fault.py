"""The table of foreign exceptions: each row, each subclass, nothing but the class name kept."""

from __future__ import annotations

import socket
import ssl

import anyio
import h11
import pytest

from svir_core.errors import ConfigError, ProtocolError, ResponseTimeoutError, SvirError, TransportError
from svir_transport.h11.fault import FOREIGN, HANDSHAKE, TABLE, translate

CASES: list[tuple[Exception, type[SvirError]]] = [
    (h11.LocalProtocolError("s3cr3t"), ConfigError),
    (h11.RemoteProtocolError("s3cr3t"), ProtocolError),
    (ssl.SSLCertVerificationError("s3cr3t"), TransportError),
    (ssl.SSLEOFError("s3cr3t"), TransportError),
    (ssl.SSLWantReadError("s3cr3t"), TransportError),
    (socket.gaierror(-2, "s3cr3t"), TransportError),
    (UnicodeEncodeError("idna", "s3cr3t", 0, 1, "s3cr3t"), ConfigError),
    (OverflowError("s3cr3t"), ConfigError),
    (TimeoutError(110, "s3cr3t"), ResponseTimeoutError),
    (ConnectionResetError("s3cr3t"), TransportError),
    (PermissionError("s3cr3t"), TransportError),
    (anyio.ClosedResourceError("s3cr3t"), ConfigError),
    (anyio.BusyResourceError("s3cr3t"), TransportError),
]


@pytest.mark.parametrize("unsent", [True, False])
@pytest.mark.parametrize(("error", "kind"), CASES, ids=range(len(CASES)))
def test_translation(error: Exception, kind: type[SvirError], unsent: bool) -> None:
    translated = translate(error, unsent=unsent)
    assert type(translated) is kind
    assert translated.unsent is unsent
    assert translated.detail.endswith(f": {type(error).__name__}")
    assert "s3cr3t" not in repr(translated)


def test_every_row_is_reached_by_a_case() -> None:
    reached = {next(row for row in TABLE if isinstance(error, row[0])) for error, _ in CASES}
    assert reached == set(TABLE)


def test_no_row_hides_a_later_one() -> None:
    for place, kind in enumerate(FOREIGN):
        assert not any(issubclass(kind, earlier) for earlier in FOREIGN[:place])


def openssl(kind: type[ssl.SSLError], **attributes: object) -> ssl.SSLError:
    error = kind("s3cr3t")
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (
            openssl(ssl.SSLError, reason="WRONG_VERSION_NUMBER"),
            "TLS failed (the server does not speak it on this port)",
        ),
        (openssl(ssl.SSLError, reason="BAD_RECORD_TYPE"), "TLS failed (BAD_RECORD_TYPE)"),
        (openssl(ssl.SSLError, reason="to host s3cr3t"), "TLS failed"),
        (openssl(ssl.SSLError, reason=None), "TLS failed"),
        (openssl(ssl.SSLEOFError, reason="UNEXPECTED_EOF_WHILE_READING"), "TLS failed"),
        (
            openssl(ssl.SSLCertVerificationError, verify_code=10, verify_message="s3cr3t", reason="S3CR3T"),
            "the server's certificate was not accepted (it has expired)",
        ),
        (
            openssl(ssl.SSLCertVerificationError, verify_code=99),
            "the server's certificate was not accepted",
        ),
    ],
)
def test_what_openssl_says_it_was(error: ssl.SSLError, detail: str) -> None:
    assert translate(error).detail == f"{detail}: {type(error).__name__}"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ssl.SSLEOFError("s3cr3t"), "the server closed the connection during the TLS handshake"),
        (ssl.SSLZeroReturnError("s3cr3t"), "the server closed the connection during the TLS handshake"),
        (ConnectionResetError("s3cr3t"), "the server reset the connection during the TLS handshake"),
        (PermissionError("s3cr3t"), "the connection failed"),
        (TimeoutError("s3cr3t"), "the operating system gave the connection up"),
    ],
)
def test_in_the_handshake_other_words_come_first(error: Exception, words: str) -> None:
    assert translate(error, unsent=True, handshake=True).detail == f"{words}: {type(error).__name__}"


def test_every_row_of_the_handshake_is_one_that_translate_is_given() -> None:
    assert all(issubclass(kind, FOREIGN) for kind, _, _ in HANDSHAKE)

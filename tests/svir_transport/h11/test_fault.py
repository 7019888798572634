"""The table of foreign exceptions: each row, each subclass, nothing but the class name kept."""

from __future__ import annotations

import socket
import ssl

import anyio
import h11
import pytest

from svir_core.errors import ConfigError, ProtocolError, ResponseTimeoutError, SvirError, TransportError
from svir_transport.h11.fault import FOREIGN, TABLE, translate

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
    (anyio.ClosedResourceError("s3cr3t"), TransportError),
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

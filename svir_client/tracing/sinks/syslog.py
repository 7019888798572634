"""Events for syslog, by RFC 5424 over a datagram socket (30 section 5)."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from typing import Any, Final

from svir_client.tracing.line import line
from svir_client.tracing.record import Level, TraceEvent, timestamp
from svir_client.unique import Unique
from svir_core.check import expect
from svir_core.errors import ConfigError

SEVERITIES: Final[Mapping[Level, int]] = {Level.ERROR: 3, Level.WARNING: 4, Level.INFO: 6}
"""RFC 5424 section 6.2.1."""

USER_FACILITY: Final = 1
"""User-level messages."""

MESSAGE_BYTES: Final = 2048
"""What every receiver should take (RFC 5424 section 6.1). Only the names in an event could make it longer."""

APP_NAME: Final = re.compile(r"[!-~]{1,48}")

Address = str | tuple[str, int]


class SyslogSink(Unique):
    """One datagram per event. Content never goes there."""

    content = False

    def __init__(self, address: Address, name: str, facility: int) -> None:
        self._socket = _connected(address)
        self._name = name
        self._facility = facility

    def write(self, event: TraceEvent) -> None:
        """Send it at once, or not at all. Raises ``OSError`` when the system does not take it."""
        priority = 8 * self._facility + SEVERITIES[event.level]
        header = f"<{priority}>1 {timestamp(event.time)} - {self._name} {os.getpid()} {event.type.value} - "
        self._socket.send((header + line(event)).encode("ascii")[:MESSAGE_BYTES])

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()

    def __del__(self) -> None:
        made = getattr(self, "_socket", None)
        if made is not None:
            made.close()


def syslog(address: Address = "/dev/log", *, name: str = "svir", facility: int = USER_FACILITY) -> SyslogSink:
    """A sink that sends events to the daemon at ``address``: a Unix socket's path, or a host and a UDP port.

    ``name`` is what the messages are said to come from, ``facility`` a number from 0 to 23. A host is looked up now,
    once. Raises ``ConfigError`` when any of it is wrong, and when there is no socket.
    """
    if not APP_NAME.fullmatch(expect(name, str, "syslog: name")):
        raise ConfigError("syslog: name is 1 to 48 visible ASCII characters")
    if isinstance(facility, bool) or not isinstance(facility, int) or not 0 <= facility <= 23:
        raise ConfigError("syslog: facility is a number from 0 to 23")
    return SyslogSink(address, name, facility)


def _connected(address: Address) -> socket.socket:
    """A socket that sends to ``address`` and never waits."""
    family: int
    where: Any
    try:
        if isinstance(address, str):
            family, where = socket.AF_UNIX, address
        else:
            host, port = address
            if not 0 < port < 65_536:  # the system would take it modulo 65536
                raise ValueError
            family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        made = socket.socket(family, socket.SOCK_DGRAM)
        try:
            made.setblocking(False)
            made.connect(where)
        except BaseException:
            made.close()
            raise
        return made
    except (OSError, TypeError, ValueError, AttributeError) as error:  # AttributeError: a system without AF_UNIX
        problem = type(error).__name__
    raise ConfigError(f"syslog has no socket to that address: {problem}")

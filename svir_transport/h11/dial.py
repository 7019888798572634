"""From an origin to a connected channel: name, addresses raced (RFC 8305), TLS agreed on."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

import anyio

from svir_core.errors import ConfigError
from svir_core.http_message import Origin
from svir_transport.h11.channel import Channel, TcpChannel, TlsChannel
from svir_transport.h11.lookup import Address, addresses

RACE_SECONDS: Final = 0.25
"""How long one address is tried before the next is tried beside it (RFC 8305, section 5)."""

ALPN: Final = "http/1.1"

_UNDER_WAY: Final = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK})


class Phase(Enum):
    """What a call waits for before its request is written, in this order; in words, what has not happened yet."""

    SLOT = "no connection became free"
    NAME = "the host name was not resolved"
    TCP = "the server did not take the connection"
    TLS = "TLS was not agreed on"


def default_context() -> ssl.SSLContext:
    """System trust, certificates and host names checked, HTTP/1.1 by ALPN, no renegotiation."""
    context = ssl.create_default_context()
    context.set_alpn_protocols([ALPN])
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


async def dial(origin: Origin, context: ssl.SSLContext | None, enter: Callable[[Phase], None]) -> Channel:
    """Connect to ``origin``; with a ``context`` by TLS. Leaves no socket open when it fails or is cancelled.

    ``enter`` is told each phase as it begins. Raises what :data:`svir_transport.h11.fault.FOREIGN` lists,
    and ``ConfigError`` when the caller's own context made the server choose another protocol than
    HTTP/1.1. It has no clock of its own.
    """
    enter(Phase.NAME)
    found = await addresses(origin.host, origin.port)
    enter(Phase.TCP)
    tcp = TcpChannel(await _connect(found))
    if context is None:
        return tcp
    enter(Phase.TLS)
    try:
        tls = TlsChannel(tcp, context, origin.host.removesuffix("."))  # certificates have no root dot
        await tls.handshake()
        if tls.protocol not in (None, ALPN):
            raise ConfigError(
                "the SSL context offers another protocol than http/1.1, and the server chose it", unsent=True
            )
    except BaseException:
        tcp.close()
        raise
    return tls


async def _connect(found: Sequence[Address]) -> socket.socket:
    """The first of ``found`` that answers; raises the last failure when none does."""
    if len(found) == 1:
        return await _connect_one(found[0])
    race = _Race()
    try:
        await race.run(found)
    except BaseException:
        if race.winner is not None:
            race.winner.close()
        raise
    if race.winner is not None:
        return race.winner
    if race.failure is not None:
        raise race.failure
    raise socket.gaierror(socket.EAI_NONAME, "no address")


class _Race:
    """Attempts side by side; the first to connect ends the others."""

    def __init__(self) -> None:
        self.winner: socket.socket | None = None
        self.failure: BaseException | None = None

    async def run(self, found: Sequence[Address]) -> None:
        async with anyio.create_task_group() as group:

            async def attempt(address: Address, failed: anyio.Event) -> None:
                try:
                    connected = await _connect_one(address)
                except anyio.get_cancelled_exc_class():
                    raise
                except BaseException as error:  # noqa: BLE001 - raised by `_connect`, outside of the task group
                    self.failure = error
                    failed.set()
                    return
                if self.winner is None:
                    self.winner = connected
                    group.cancel_scope.cancel()
                else:
                    connected.close()

            for address in found:
                failed = anyio.Event()
                group.start_soon(attempt, address, failed)
                with anyio.move_on_after(RACE_SECONDS):
                    await failed.wait()


async def _connect_one(address: Address) -> socket.socket:
    connecting = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        code = connecting.connect_ex(address.place)
        if code in _UNDER_WAY:
            await anyio.wait_writable(connecting)
            code = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        # A request is a head and a short body: Nagle would hold the second back for the first's answer.
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        connecting.close()
        raise
    return connecting

"""Addresses of a host name, looked up in a thread that nobody has to wait for.

``anyio.getaddrinfo`` does not serve on asyncio: it uses the loop's few executor threads, so that six
lookups that hang stop every other one, and ``asyncio.run`` waits for a cancelled one before it
returns. A daemon thread for each lookup has neither trouble, and a new connection costs far more.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from typing import NamedTuple

import anyio

from svir_transport.h11.event_loop import EventLoop


class Address(NamedTuple):
    """One place to connect to: its family, and what the operating system calls it, an IPv6 scope included."""

    family: int
    place: tuple[object, ...]

    def __repr__(self) -> str:
        return "Address(<withheld>)"


def ask(host: str, port: int, flags: int = 0) -> list[Address]:
    """What the operating system says; blocks, unless ``flags`` has ``AI_NUMERICHOST``."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    # A Python without IPv6 gives its addresses as bytes, with numbers for names.
    return [Address(family, place) for family, *_, place in found if isinstance(place[0], str)]


class _Lookup:
    """One lookup, its thread and its outcome."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._loop = EventLoop()
        self._done = anyio.Event()
        self._found: list[Address] = []
        self._error: BaseException | None = None

    async def run(self) -> list[Address]:
        try:
            threading.Thread(target=self._work, name="svir name lookup", daemon=True).start()
        except RuntimeError:  # Python's for what the system says when there are too many, and for its own exit
            raise socket.gaierror(socket.EAI_AGAIN, "no thread could be started") from None
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._found

    def _work(self) -> None:
        try:
            self._found = ask(self._host, self._port)
        except BaseException as error:  # noqa: BLE001 - raised by `run`, in the loop that asked
            self._error = error
        self._loop.call_soon(self._done.set)  # false when the loop has ended: then nobody waits


async def addresses(host: str, port: int) -> list[Address]:
    """The addresses of ``host``: the families take turns, in the resolver's order; one for a literal.

    Raises ``socket.gaierror``, also when no thread can be started, and ``UnicodeError``. Cancelled, it returns at
    once; the thread ends by itself.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await _Lookup(host, port).run()
    else:
        found = ask(host, port, socket.AI_NUMERICHOST)  # no lookup: it reads the port, and an IPv6 scope
    first = [address for address in found if address.family == found[0].family]
    other = [address for address in found if address.family != found[0].family]
    turns: list[Address] = []
    for place in range(max(len(first), len(other))):
        turns += first[place : place + 1] + other[place : place + 1]
    return turns

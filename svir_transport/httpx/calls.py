"""The calls of one event loop, and the HTTP/2 connections they share.

Leaving an HTTP/1.1 response early closes its connection, and the server stops. Over HTTP/2 the library
forgets the stream and tells the server nothing, which goes on generating. So the connection is closed
here, as soon as no other call to the same server is under way: the others may be on it.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final
from weakref import WeakSet

import anyio

from svir_core.http_message import Origin

CLOSE_SECONDS: Final = 1.0
"""How long closing may take: it waits for nobody, but it passes through the event loop."""


class Calls:
    """Counts the calls under way by origin, and knows the HTTP/2 connections that they were seen on."""

    def __init__(self) -> None:
        self._under_way: dict[Origin, int] = {}
        self._shared: dict[Origin, WeakSet[Any]] = {}  # the library holds those that are open, and nobody the others
        self._abandoned: set[Origin] = set()
        self._closed: dict[Origin, int] = {}

    def begin(self, origin: Origin) -> None:
        """A call begins."""
        self._under_way[origin] = self._under_way.get(origin, 0) + 1

    def shares(self, origin: Origin, network: Any) -> None:
        """A call to ``origin`` goes over HTTP/2, on the connection ``network``."""
        known = self._shared.setdefault(origin, WeakSet())
        with contextlib.suppress(TypeError):  # an object of a given transport's own that takes no weak reference
            known.add(network)

    def closed(self, origin: Origin) -> int:
        """How many connections to ``origin`` were last closed here. The library learns of it by the next write."""
        return self._closed.get(origin, 0)

    async def end(self, origin: Origin, *, abandoned: bool) -> None:
        """A call ends; ``abandoned`` when the server may still be at work for it. Never waits for a peer."""
        self._under_way[origin] -= 1
        if abandoned and origin in self._shared:
            self._abandoned.add(origin)
        if self._under_way[origin]:
            return
        del self._under_way[origin]
        if origin in self._abandoned:
            self._abandoned.remove(origin)
            networks = list(self._shared.pop(origin))
            self._closed[origin] = len(networks)
            for network in networks:
                with anyio.move_on_after(CLOSE_SECONDS, shield=True), contextlib.suppress(Exception):
                    await network.aclose()

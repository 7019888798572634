"""What one event loop has: a client, the calls under way on it, and the responses that are open."""

from __future__ import annotations

import os
import ssl
import weakref
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import anyio.lowlevel

from svir_core.errors import ConfigError
from svir_transport.httpx.calls import Calls
from svir_transport.httpx.library import Options, make_client
from svir_transport.httpx.response import HttpxResponse


class Site:
    """One client in one event loop."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.calls = Calls()
        self.responses: WeakSet[HttpxResponse] = WeakSet()


class GivenSites:
    """The client that the caller gave: of the event loop and the process that first use it.

    Its idle connections belong to that loop: another would find them unusable, or wait for ever.
    """

    def __init__(self, client: Any) -> None:
        self._site = Site(client)
        self._loop: weakref.ref[Any] | None = None
        self._process = 0

    def here(self) -> Site:
        """The site, which is here; ``ConfigError`` when it belongs to another loop or process."""
        loop = anyio.lowlevel.current_token().native_token
        if self._loop is None:
            self._loop, self._process = weakref.ref(loop), os.getpid()
        if self._process != os.getpid():
            raise ConfigError("a client given to HttpxTransport does not survive a fork: make one here", unsent=True)
        if self._loop() is not loop:
            raise ConfigError("a client given to HttpxTransport belongs to one event loop: make one here", unsent=True)
        if getattr(self._site.client, "is_closed", False):
            raise ConfigError("the client given to HttpxTransport is closed", unsent=True)
        return self._site

    def pop(self) -> tuple[Site, Any] | None:
        """The site when it is here, and no client to close: it is the caller's."""
        loop = anyio.lowlevel.current_token().native_token
        here = self._loop is not None and self._loop() is loop and self._process == os.getpid()
        return (self._site, None) if here else None


class MadeSites:
    """Clients of our own, one per event loop; after a fork the child begins with none."""

    def __init__(self, library: str, options: Options) -> None:
        self._library = library
        self._options = options
        self._context = options.ssl_context
        self._sites: WeakKeyDictionary[Any, Site] = WeakKeyDictionary()
        self._process = os.getpid()

    def here(self) -> Site:
        """The site of the running event loop."""
        self._forget_parent()
        loop = anyio.lowlevel.current_token().native_token
        site = self._sites.get(loop)
        if site is None:
            if (
                self._context is None
            ):  # for every loop: reading the system's trust takes 10 to 80 ms, and no library waits
                self._context = ssl.create_default_context()
            site = self._sites[loop] = Site(make_client(self._library, self._options, self._context))
        return site

    def pop(self) -> tuple[Site, Any] | None:
        """The site of the running event loop and its client, which is to be closed; ``None`` without one."""
        self._forget_parent()
        site = self._sites.pop(anyio.lowlevel.current_token().native_token, None)
        return None if site is None else (site, site.client)

    def _forget_parent(self) -> None:
        # The sockets close with the objects that hold them; those of the parent stay open there.
        if self._process != os.getpid():
            self._process = os.getpid()
            self._sites = WeakKeyDictionary()

"""Over HTTP/2 no error gives anything away either; and which logger does, of its own accord."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trustme

from svir_core.errors import ResponseTimeoutError, SvirError, UnsupportedError
from svir_transport.httpx import HttpxTransport
from tests.secrecy.canary import HEADER, KEY, QUIET, Log, found, leaks
from tests.secrecy.paths import HI, Call, Site, complete, send, stream
from tests.svir_client.chat import SECONDS
from tests.svir_transport.httpx.http2_server import Http2Server, http2_server

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def over_http2(folder: pathlib.Path) -> AsyncGenerator[tuple[Http2Server, Site]]:
    authority: Any = trustme.CA()
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    async with http2_server(authority, folder) as server:
        transport = HttpxTransport(ssl_context=trust, http2=True)
        async with contextlib.aclosing(transport):
            yield server, Site(f"https://127.0.0.1:{server.port}", transport)


@pytest.mark.parametrize("call", [complete, stream, send])
@pytest.mark.parametrize(
    ("target", "error", "options"),
    [("/echo", UnsupportedError, {}), ("/silent", ResponseTimeoutError, {"idle_timeout": 0.1})],
)
async def test_an_error_over_http2_gives_nothing_away(
    tmp_path: pathlib.Path, target: str, error: type[SvirError], options: dict[str, Any], call: Call
) -> None:
    log = Log()
    with anyio.fail_after(SECONDS):
        async with over_http2(tmp_path) as (server, site):
            with log, pytest.raises(error) as caught:
                await call(site.client(endpoint=site.origin + target, **options), HI)
            address = site.origin.partition("://")[2]
            assert server.versions == ["2"]
    assert type(caught.value) is error
    assert leaks(caught.value, log, address) == []


async def test_the_key_is_in_what_hpack_writes_at_debug(tmp_path: pathlib.Path) -> None:
    """So docs/client.md names it; when this fails, the loggers that are quiet here are fewer."""
    with anyio.fail_after(SECONDS):
        async with over_http2(tmp_path) as (_, site):
            client = site.client(endpoint=f"{site.origin}/echo")
            with Log() as log:
                for name in QUIET:
                    logging.getLogger(name).setLevel(logging.DEBUG)
                with pytest.raises(UnsupportedError):
                    await complete(client, HI)
    writers = {name.partition(".")[0] for name, text in log.records if found(text, KEY, HEADER)}
    assert writers == set(QUIET)

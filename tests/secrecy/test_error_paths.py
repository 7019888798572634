"""No error of any kind shows, holds, stores or logs a key, a header value, an address or what the server said."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx
import httpx2
import pytest

from svir_client import Client
from svir_client.sync.loop_thread import loop_thread
from svir_client.testing import MockServer
from svir_client.transport import Transport
from svir_core.errors import ErrorKind, SvirError
from svir_core.wire import openai_chat
from svir_transport.h11 import H11Transport
from svir_transport.httpx import HttpxTransport
from tests.secrecy.canary import HOST, Log, leaks
from tests.secrecy.generation_paths import generations
from tests.secrecy.paths import APIS, ENVIRONMENT, PATHS, ErrorPath, Site, paths_of
from tests.svir_client.chat import SECONDS

pytestmark = pytest.mark.anyio


_TRUST = ssl.create_default_context()
"""The system's trust, read once: that takes longer than a test."""


@asynccontextmanager
async def over_h11() -> AsyncGenerator[Transport]:
    async with contextlib.aclosing(H11Transport(ssl_context=_TRUST)) as transport:
        yield transport


@asynccontextmanager
async def over_httpx(library: Any) -> AsyncGenerator[Transport]:
    async with library.AsyncClient(verify=_TRUST) as client, contextlib.aclosing(HttpxTransport(client)) as transport:
        yield transport


TRANSPORTS: dict[str, Callable[[], AbstractAsyncContextManager[Transport]]] = {
    "h11": over_h11,
    "httpx": lambda: over_httpx(httpx),
    "httpx2": lambda: over_httpx(httpx2),
}

_LOOK_UP = socket.getaddrinfo


def without_the_host(host: Any, *arguments: Any, **options: Any) -> Any:
    """The system's resolver, asked for every name but one: a test does not depend on the network."""
    if host in (HOST, HOST.encode()):
        raise socket.gaierror(socket.EAI_NONAME, f"{HOST} is not known")
    return _LOOK_UP(host, *arguments, **options)


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a path may look at: names, and variables."""
    monkeypatch.setattr(socket, "getaddrinfo", without_the_host)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


EVERY = (*PATHS, *generations(openai_chat.API))
"""The ways to an error of a client of Chat Completions."""


async def nothing_given_away(path: ErrorPath, transport: str, api: str) -> None:
    """Go the path: its error is of this very class, so that it was reached, and shows nothing."""
    log = Log()
    with anyio.fail_after(SECONDS):
        async with TRANSPORTS[transport]() as mover, MockServer(*path.replies, tls=path.tls) as server:
            with log, pytest.raises((path.error, SvirError)) as caught:
                await path.run(Site(server.origin, mover, api=api))
            address = server.origin.partition("://")[2]
        assert type(caught.value) is path.error
        assert leaks(caught.value, log, address) == []


@pytest.mark.parametrize(
    ("path", "transport"),
    [
        pytest.param(path, transport, id=f"{path.name}-{transport}")
        for path in EVERY
        for transport in TRANSPORTS
        if transport != path.not_over
    ],
)
@pytest.mark.usefixtures("surroundings")
async def test_an_error_gives_nothing_away(path: ErrorPath, transport: str) -> None:
    await nothing_given_away(path, transport, "openai")


@pytest.mark.parametrize(
    ("api", "path"),
    [
        pytest.param(api, path, id=f"{path.name}-{api}")
        for api in APIS
        for path in (*paths_of(api), *generations(APIS[api]))
    ],
)
@pytest.mark.usefixtures("surroundings")
async def test_an_error_of_another_api_gives_nothing_away(api: str, path: ErrorPath) -> None:
    await nothing_given_away(path, "h11", api)


def ended_at_once(work: Coroutine[Any, Any, object]) -> None:
    """Run what awaits nothing: a blocking client's call, on a thread without an event loop."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for an event loop")


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in EVERY])
@pytest.mark.usefixtures("surroundings")
def test_an_error_of_the_blocking_client_gives_nothing_away(path: ErrorPath) -> None:
    log = Log()
    transport = H11Transport(ssl_context=_TRUST)
    with MockServer(*path.replies, tls=path.tls).in_thread() as server:
        with log, pytest.raises((path.error, SvirError)) as caught:
            ended_at_once(path.run(Site(server.origin, transport, Client)))
        address = server.origin.partition("://")[2]
        loop_thread().call(transport.aclose)
    assert type(caught.value) is path.error
    assert leaks(caught.value, log, address) == []


def test_every_kind_of_error_has_its_paths() -> None:
    kinds = {path.error.kind for path in EVERY if issubclass(path.error, SvirError)}
    assert kinds == set(ErrorKind)
    assert len({path.name for path in EVERY}) == len(EVERY)

"""Lookups that hang, fail, or end after everybody has left: nobody waits for their threads."""

from __future__ import annotations

import socket
import threading

import anyio
import pytest

from svir_core.errors import ResponseTimeoutError, TransportError
from svir_core.http_message import HttpRequest
from svir_transport.h11 import H11Transport, lookup
from svir_transport.h11.lookup import Address, addresses
from tests.svir_transport.h11.peer import failure, pool_of

V4, V6 = socket.AF_INET, socket.AF_INET6
REQUEST = HttpRequest("GET", "http", "hangs.example", 80, "/secret", (("host", "server.example"),))


class Resolver:
    """Answers some names at once, and others not before it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.threads: list[threading.Thread] = []
        monkeypatch.setattr(lookup, "ask", self.ask)

    def ask(self, host: str, port: int) -> list[Address]:
        if host == "hangs.example":
            self.threads.append(threading.current_thread())
            assert self.go.wait(20)
        return [Address(V4, ("192.0.2.1", port))]

    def end(self) -> None:
        self.go.set()
        for thread in self.threads:
            thread.join(5)
            assert not thread.is_alive()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_lookup_that_hangs_ends_with_the_connect_limit_and_keeps_no_loop_from_ending(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = Resolver(monkeypatch)

    async def call() -> None:
        transport = H11Transport(connect_timeout=0.05, max_connections=1)
        with anyio.fail_after(10):
            for _ in range(2):
                error = await failure(transport.open(REQUEST, None))
                assert isinstance(error, ResponseTimeoutError)
                assert error.unsent
                assert error.detail == "the host name was not resolved within 0.05 s"
                assert pool_of(transport).leased == 0
        await transport.aclose()

    anyio.run(call, backend=backend)
    assert [thread.is_alive() for thread in resolver.threads] == [True, True]
    assert all(thread.daemon for thread in resolver.threads)  # nor does the process wait
    resolver.end()


@pytest.mark.anyio
async def test_lookups_that_hang_are_in_nobodys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = Resolver(monkeypatch)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(addresses, "hangs.example", 80)
            await anyio.wait_all_tasks_blocked()
            assert await addresses("answers.example", 80) == [Address(V4, ("192.0.2.1", 80))]
            group.cancel_scope.cancel()
    resolver.end()


@pytest.mark.anyio
@pytest.mark.parametrize("error", [socket.gaierror(socket.EAI_NONAME, "x"), UnicodeError("x")])
async def test_what_a_lookup_raises_is_raised_where_it_was_asked(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def ask(host: str, port: int) -> list[Address]:
        raise error

    monkeypatch.setattr(lookup, "ask", ask)
    with anyio.fail_after(5), pytest.raises(type(error)) as caught:
        await addresses("name.example", 80)
    assert caught.value is error


@pytest.mark.anyio
async def test_a_thread_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    transport = H11Transport(max_connections=1)
    with monkeypatch.context() as patch, anyio.fail_after(5):
        patch.setattr(threading.Thread, "start", no_more)
        for _ in range(2):
            error = await failure(transport.open(REQUEST, None))
            assert error == TransportError("the host name could not be resolved: gaierror", unsent=True)
            assert error.__context__ is None
    assert pool_of(transport).leased == 0
    await transport.aclose()


@pytest.mark.anyio
async def test_a_literal_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object, **__: object) -> None:
        raise AssertionError("a thread for a literal")

    monkeypatch.setattr(threading, "Thread", no_thread)
    assert await addresses("127.0.0.1", 80) == [Address(V4, ("127.0.0.1", 80))]
    assert await addresses("::1", 80) == [Address(V6, ("::1", 80, 0, 0))]


@pytest.mark.anyio
async def test_the_scope_of_an_address_is_kept() -> None:
    names = [name for _, name in socket.if_nameindex()]
    if not names:
        pytest.skip("this machine has no network interface")
    (address,) = await addresses(f"fe80::1%{names[0]}", 80)
    assert address.place[3] == socket.if_nametoindex(names[0])

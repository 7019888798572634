"""One transport under several event loops, and in a forked process."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from svir_core.errors import ConfigError
from svir_core.http_message import HttpRequest
from svir_transport.h11 import H11Response, H11Transport
from svir_transport.h11 import transport as module
from svir_transport.h11.pool import Pool
from tests.svir_transport.h11.peer import OK, Web, echo, pool_of, read


class Listener:
    """Answers by hand, in whatever event loop it is called; its connections outlive the loop."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        self.peers: list[socket.socket] = []

    def request(self) -> HttpRequest:
        return HttpRequest("GET", "http", "127.0.0.1", self.listening.getsockname()[1], "/", (("host", "h"),))

    async def accept(self) -> None:
        await anyio.wait_readable(self.listening)
        peer, _ = self.listening.accept()
        peer.setblocking(False)
        self.peers.append(peer)

    async def answer(self, peer: socket.socket, answer: bytes = OK) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            await anyio.wait_readable(peer)
            received += peer.recv(65536)
        peer.sendall(answer)

    def close(self) -> None:
        for opened in (*self.peers, self.listening):
            opened.close()


async def one_call(transport: H11Transport, listener: Listener, *, new: bool) -> None:
    async def serve() -> None:
        if new:
            await listener.accept()
        await listener.answer(listener.peers[-1])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            assert await read(await transport.open(listener.request(), None)) == b"ok"


def ended(peer: socket.socket) -> bool:
    """Whether the client has closed its side."""
    try:
        return peer.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


def test_one_loop_after_the_other() -> None:
    listener = Listener()
    transport = H11Transport()
    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(lambda: one_call(transport, listener, new=True), backend=backend)
    assert len(listener.peers) == 3

    anyio.run(transport.aclose)
    listener.close()


def test_closing_in_one_loop_closes_what_is_idle_in_another() -> None:
    listener = Listener()
    transport = H11Transport()
    with asyncio.Runner() as runner:
        runner.run(one_call(transport, listener, new=True))
        runner.run(one_call(transport, listener, new=False))
        assert not ended(listener.peers[0])
        anyio.run(transport.aclose, backend="trio")
        assert ended(listener.peers[0])
    listener.close()


def test_a_transport_that_is_dropped_closes_what_it_kept() -> None:
    listener = Listener()
    with asyncio.Runner() as runner:
        transport = H11Transport()
        runner.run(one_call(transport, listener, new=True))
        del transport
        assert ended(listener.peers[0])
    listener.close()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_response_that_outlives_its_loop_closes_its_connection_where_it_is_dropped(backend: str) -> None:
    listener = Listener()
    transport = H11Transport()
    responses: list[H11Response] = []

    async def call() -> None:
        async def serve() -> None:
            await listener.accept()
            await listener.answer(listener.peers[-1], OK[:-1])

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(serve)
                responses.append(await transport.open(listener.request(), None))

    anyio.run(call, backend=backend)
    assert not ended(listener.peers[0])
    with pytest.warns(ResourceWarning, match="dropped without aclose"):
        responses.clear()
    assert ended(listener.peers[0])
    listener.close()


def test_a_response_that_a_new_process_drops_is_closed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener()
    transport = H11Transport()

    async def call() -> H11Response:
        opening = asyncio.ensure_future(transport.open(listener.request(), None))
        async with asyncio.timeout(5):
            await listener.accept()
            await listener.answer(listener.peers[-1], OK[:-1])
        return await asyncio.wait_for(opening, 5)

    with asyncio.Runner() as runner:
        responses = [runner.run(call())]
        child = os.getpid() + 1
        monkeypatch.setattr(os, "getpid", lambda: child)
        with pytest.warns(ResourceWarning, match="dropped without aclose"):
            responses.clear()
        assert ended(listener.peers[0])
    listener.close()


def test_two_loops_at_once() -> None:
    transport = H11Transport()
    failures: list[BaseException] = []
    together = threading.Barrier(2, timeout=10)

    async def many() -> None:
        async with Web(None).serve(echo) as site:
            together.wait()
            for _ in range(50):
                assert await read(await transport.open(site.get(), None)) == b""
            assert len(site.talks) == 1
            pool_of(transport).close_idle()

    def run(backend: str) -> None:
        try:
            anyio.run(many, backend=backend)
        except BaseException as error:  # noqa: BLE001 - looked at below, in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(backend,)) for backend in ("asyncio", "trio")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failures == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_transport_that_another_thread_closes_while_its_pool_is_made_opens_nothing(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(Pool):
        def __init__(self, *bounds: Any) -> None:
            super().__init__(*bounds)
            closing = threading.Thread(target=anyio.run, args=(transport.aclose,))
            closing.start()
            closing.join()

    listener = Listener()
    transport = H11Transport()
    monkeypatch.setattr(module, "Pool", Closed)

    async def call() -> None:
        with pytest.raises(ConfigError, match="the transport is closed"):
            await transport.open(listener.request(), None)

    anyio.run(call, backend=backend)
    with pytest.raises(BlockingIOError):
        listener.listening.accept()
    listener.close()


def test_a_new_process_forgets_the_connections_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener()
    transport = H11Transport()
    with asyncio.Runner() as runner:
        runner.run(one_call(transport, listener, new=True))
        child = os.getpid() + 1
        monkeypatch.setattr(os, "getpid", lambda: child)
        runner.run(one_call(transport, listener, new=True))
        runner.run(one_call(transport, listener, new=False))
        monkeypatch.undo()
        runner.run(transport.aclose())
    assert len(listener.peers) == 2
    listener.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
# Trio keeps the thread of an earlier name lookup for some seconds; the child here starts none and waits for none.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_fork(backend: str) -> None:
    listener = Listener()
    transport = H11Transport()
    with asyncio.Runner() as runner:
        runner.run(one_call(transport, listener, new=True))
        pid = os.fork()
        if pid == 0:
            os._exit(_in_child(lambda: anyio.run(_call_and_close, transport, backend=backend)))
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert not ended(listener.peers[0])
        runner.run(one_call(transport, listener, new=False))
        runner.run(transport.aclose())
    listener.close()


async def _call_and_close(transport: H11Transport) -> None:
    listener = Listener()
    await one_call(transport, listener, new=True)
    await transport.aclose()
    listener.close()


def _in_child(work: Callable[[], None]) -> int:
    try:
        work()
    except BaseException:  # noqa: BLE001 - a forked child must not run on into the test session
        return 1
    return 0

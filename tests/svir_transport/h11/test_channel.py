"""Channels over socket pairs: bytes whole, ends, closing, and TLS as far as its buffers reach."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
import trustme

from svir_core.errors import ConfigError
from svir_core.http_message import Origin
from svir_transport.h11.channel import READ_BYTES, Channel, TcpChannel, TlsChannel
from svir_transport.h11.dial import default_context, dial
from tests.svir_transport.h11.peer import UNHEARD, Script, Talk, Web, silent, trust

pytestmark = pytest.mark.anyio


def pair() -> tuple[TcpChannel, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    return TcpChannel(ours), theirs


async def send_all(channel: Channel, data: bytes) -> None:
    view = memoryview(data)
    while view or not channel.flush_now():
        await channel.writable()
        view = view[channel.send_now(view) :] if view else view


async def receive(channel: Channel) -> bytes:
    while True:
        await channel.readable()
        data = channel.receive_now()
        if data is not None:
            return data


@asynccontextmanager
async def dialled(web: Web, script: Script) -> AsyncGenerator[Channel]:
    async with web.serve(script) as site:
        channel = await dial(Origin(site.scheme, "127.0.0.1", site.port), site.context, UNHEARD)
        try:
            yield channel
        finally:
            channel.close()


async def test_nothing_yet_is_not_the_end() -> None:
    channel, theirs = pair()
    assert channel.receive_now() is None
    assert channel.quiet()
    theirs.send(b"x")
    assert not channel.quiet()
    assert channel.receive_now() == b"x"
    assert channel.quiet()
    theirs.close()
    assert not channel.quiet()
    assert channel.receive_now() == b""
    channel.close()


async def test_a_full_buffer_takes_nothing_more() -> None:
    channel, theirs = pair()
    data = memoryview(bytes(1024 * 1024))
    while channel.send_now(data):
        pass
    assert channel.sent > 0
    received = 0
    while received < channel.sent:
        received += len(theirs.recv(65536))
    channel.close()
    theirs.close()


async def test_closing_wakes_who_waits_and_refuses_the_rest() -> None:
    channel, theirs = pair()
    data = memoryview(bytes(1024 * 1024))
    while channel.send_now(data):
        pass
    woken: list[str] = []

    async def reader() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await channel.readable()
        woken.append("reader")

    async def writer() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await channel.writable()
        woken.append("writer")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(reader)
            group.start_soon(writer)
            await anyio.wait_all_tasks_blocked()
            channel.close()
            channel.close()
    assert sorted(woken) == ["reader", "writer"]
    assert not channel.quiet()
    with pytest.raises(anyio.ClosedResourceError):
        channel.receive_now()
    with pytest.raises(anyio.ClosedResourceError):
        channel.send_now(data)
    with pytest.raises(anyio.ClosedResourceError):
        await channel.readable()
    theirs.close()


async def test_large_data_both_ways(web: Web) -> None:
    data = bytes(range(256)) * 16384

    async def mirror(talk: Talk) -> None:
        await talk.send(await talk.exactly(len(data)))
        await talk.closed()

    async with dialled(web, mirror) as channel:
        received = bytearray()

        async def read_back() -> None:
            while len(received) < len(data):
                piece = await receive(channel)
                assert 0 < len(piece) <= READ_BYTES
                received.extend(piece)

        async with anyio.create_task_group() as group:
            group.start_soon(read_back)
            await send_all(channel, data)
        assert received == data


async def test_many_records_in_one_read(tls: Web) -> None:
    async def burst(talk: Talk) -> None:
        await talk.send(*[b"%05d" % number for number in range(2000)])
        await talk.closed()

    async with dialled(tls, burst) as channel:
        received = b""
        while len(received) < 10_000:
            received += await receive(channel)
        assert received == b"".join(b"%05d" % number for number in range(2000))
        assert channel.quiet()


async def test_a_bare_close_is_the_end_of_the_input(web: Web) -> None:
    async def leave(talk: Talk) -> None:
        await talk.send(b"bye")

    async with dialled(web, leave) as channel:
        assert await receive(channel) == b"bye"
        assert await receive(channel) == b""
        assert await receive(channel) == b""
        assert not channel.quiet()


async def test_a_closing_handshake_is_the_end_of_the_input(authority: trustme.CA) -> None:
    with anyio.fail_after(10):
        channel, server, theirs = await handshaken(authority)
        with pytest.raises(ssl.SSLWantReadError):
            server.unwrap()
        theirs.send(server.outgoing.read())
        assert not channel.quiet()
        assert await receive(channel) == b""
        channel.close()
        theirs.close()


class Server:
    """TLS by hand on the far end of a socket pair."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.object = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def unwrap(self) -> None:
        self.object.unwrap()


async def handshaken(authority: trustme.CA, *, full: bool = False) -> tuple[TlsChannel, Server, socket.socket]:
    """A TLS channel and its peer; with ``full``, one whose buffer was full when the handshake began."""
    web = Web(authority)
    assert web.server is not None
    assert web.client is not None
    tcp, theirs = pair()
    while full and tcp.send_now(memoryview(bytes(65536))):
        pass
    rubbish = tcp.sent
    server = Server(web.server)
    channel = TlsChannel(tcp, web.client, "localhost")

    async def answer() -> None:
        nonlocal rubbish
        await anyio.wait_all_tasks_blocked()
        while rubbish:
            rubbish -= len(theirs.recv(min(rubbish, 65536)))
        while True:
            await anyio.wait_readable(theirs)
            server.incoming.write(theirs.recv(65536))
            try:
                server.object.do_handshake()
            except ssl.SSLWantReadError:
                theirs.send(server.outgoing.read())
                continue
            theirs.send(server.outgoing.read())
            return

    async with anyio.create_task_group() as group:
        group.start_soon(answer)
        await channel.handshake()
    return channel, server, theirs


async def test_a_handshake_waits_for_room(authority: trustme.CA) -> None:
    with anyio.fail_after(10):
        channel, server, theirs = await handshaken(authority, full=True)
        server.object.write(b"hello")
        theirs.send(server.outgoing.read())
        assert await receive(channel) == b"hello"
        channel.close()
        theirs.close()


async def test_half_a_record_is_nothing_yet(authority: trustme.CA) -> None:
    with anyio.fail_after(10):
        channel, server, theirs = await handshaken(authority)
        while channel.receive_now() is not None:  # the session tickets
            pass
        server.object.write(b"secret words")
        record = server.outgoing.read()
        theirs.send(record[:10])
        assert channel.receive_now() is None
        theirs.send(record[10:])
        assert not channel.quiet()
        assert channel.receive_now() == b"secret words"
        assert channel.quiet()
        server.object.write(b"12")
        server.object.write(b"34")
        theirs.send(server.outgoing.read())
        assert channel.receive_now() == b"1234"
        channel.close()
        theirs.close()


async def test_a_read_that_stops_at_its_limit_needs_no_further_bytes(authority: trustme.CA) -> None:
    with anyio.fail_after(10):
        channel, server, theirs = await handshaken(authority)
        data = bytes(16384)
        received = 0
        for _ in range(5):
            server.object.write(data)
        pending = memoryview(server.outgoing.read())
        while received < 5 * len(data):
            if pending:
                with suppress(BlockingIOError):
                    pending = pending[theirs.send(pending) :]
            received += len(await receive(channel))
        assert received == 5 * len(data)
        channel.close()
        theirs.close()


async def test_what_was_encrypted_leaves_before_more_is_taken(authority: trustme.CA) -> None:
    with anyio.fail_after(10):
        channel, server, theirs = await handshaken(authority)
        data = memoryview(bytes(1024 * 1024))
        taken = 0
        while count := channel.send_now(data):
            taken += count
        assert not channel.flush_now()
        received = 0
        while received < taken:
            if not channel.flush_now():
                await anyio.wait_readable(theirs)
            server.incoming.write(theirs.recv(65536))
            try:
                while True:
                    received += len(server.object.read(65536))
            except ssl.SSLWantReadError:
                continue
        assert received == taken
        channel.close()
        theirs.close()


async def test_a_server_that_chose_another_protocol(tls: Web) -> None:
    assert tls.server is not None
    assert tls.client is not None
    tls.server.set_alpn_protocols(["h2"])
    tls.client.set_alpn_protocols(["h2"])
    async with tls.serve(silent) as site:
        with pytest.raises(ConfigError, match="another protocol"):
            await dial(Origin("https", "127.0.0.1", site.port), site.context, UNHEARD)


async def test_the_default_context_checks_and_offers_http_1_1(tls: Web, authority: trustme.CA) -> None:
    context = default_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert tls.server is not None
    tls.server.set_alpn_protocols(["h2", "http/1.1"])
    async with tls.serve(silent) as site:
        trust(authority, context)
        channel = await dial(Origin("https", "127.0.0.1", site.port), context, UNHEARD)
        assert isinstance(channel, TlsChannel)
        assert channel.protocol == "http/1.1"
        channel.close()

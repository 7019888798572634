"""Requests over real sockets: connections kept, counted, given up; both schemes, both backends."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import anyio
import anyio.abc
import pytest

from svir_core.errors import ConfigError, ResponseTimeoutError, TransportError
from svir_core.http_message import HttpRequest
from svir_transport.h11 import H11Transport, lookup
from svir_transport.h11.channel import TcpChannel
from svir_transport.h11.lookup import Address
from tests.svir_transport.h11.peer import OK, Body, Talk, Web, blocks, echo, failure, pool_of, read, silent

pytestmark = pytest.mark.anyio


async def test_a_request_and_its_answer(web: Web) -> None:
    async with web.serve(echo) as site:
        transport = site.transport()
        response = await transport.open(site.post(5), blocks(b"ab", b"", b"cde"))
        assert response.head.status == 200
        assert response.head.get("X-NAME") == "caf\xe9"
        assert await read(response) == b"abcde"
        assert response.complete
        await response.aclose()
        assert site.talks[0].heads == [
            b"POST /secret/path?q=1 HTTP/1.1\r\nhost: server.example\r\nx-secret: s3cr3t\r\ncontent-length: 5"
        ]


async def test_get_without_a_body(web: Web) -> None:
    async with web.serve(echo) as site:
        transport = site.transport()
        response = await transport.open(site.get(), None)
        assert await read(response) == b""
        assert response.complete
        assert site.talks[0].heads[0].startswith(b"GET ")


async def test_a_connection_is_kept_after_a_whole_answer_and_used_last_in_first_out(web: Web) -> None:
    go = anyio.Event()

    async def held(talk: Talk) -> None:
        await talk.request()
        await talk.send(OK[:-1])
        await go.wait()
        await talk.send(OK[-1:])
        await echo(talk)

    async with web.serve(held) as site:
        transport = site.transport()
        first = await transport.open(site.get(), None)
        second = await transport.open(site.get(), None)
        assert not first.complete
        go.set()
        assert await read(second) == b"ok"
        assert await read(first) == b"ok"
        assert pool_of(transport).idle == 2
        for block in (b"1", b"2"):
            assert await read(await transport.open(site.post(1), blocks(block))) == block
        assert sorted(len(talk.heads) for talk in site.talks) == [1, 3]


async def test_other_origins_have_other_connections(plain: Web) -> None:
    async with plain.serve(echo) as site:
        transport = site.transport()
        await read(await transport.open(site.get(), None))
        await read(await transport.open(site.get(host="localhost"), None))
        assert len(site.talks) == 2
        assert pool_of(transport).idle == 2


async def test_an_answer_not_read_to_its_end_closes_the_connection(web: Web) -> None:
    closed = anyio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart")
        await talk.closed()
        closed.set()

    async with web.serve(script) as site:
        transport = site.transport()
        response = await transport.open(site.get(), None)
        async for data in response:
            assert data == b"part"
            break
        assert not response.complete
        await response.aclose()
        await response.aclose()
        await closed.wait()
        error = await failure(anext(response))
        assert isinstance(error, ConfigError)
        assert pool_of(transport).idle == 0


async def test_a_peer_that_closed_is_noticed_before_the_connection_is_used(web: Web) -> None:
    async def once(talk: Talk) -> None:
        await talk.request()
        await talk.send(OK)

    async with web.serve(once, echo) as site:
        transport = site.transport()
        await read(await transport.open(site.get(), None))
        (kept,) = pool_of(transport)._idle
        await kept.channel.readable()
        response = await transport.open(site.post(2), blocks(b"hi"))
        assert await read(response) == b"hi"
        assert len(site.talks) == 2


async def test_bytes_after_the_answer_make_a_connection_stale(web: Web) -> None:
    async def chatty(talk: Talk) -> None:
        await talk.request()
        await talk.send(OK + b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        await talk.closed()

    async with web.serve(chatty, echo) as site:
        transport = site.transport()
        assert await read(await transport.open(site.get(), None)) == b"ok"
        assert pool_of(transport).idle == 0
        assert await read(await transport.open(site.get(), None)) == b""


async def test_a_kept_connection_that_fails_before_a_byte_is_replaced(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def once(talk: Talk) -> None:
        await talk.request()
        await talk.send(OK)
        await talk.exactly(1)

    def always(channel: TcpChannel) -> bool:
        return True

    async with web.serve(once, echo) as site:
        transport = site.transport()
        await read(await transport.open(site.get(), None))
        (kept,) = pool_of(transport)._idle
        await site.talks[0].reset()
        await kept.channel.readable()
        monkeypatch.setattr(TcpChannel, "quiet", always)
        assert await read(await transport.open(site.post(2), blocks(b"hi"))) == b"hi"
        assert [len(talk.heads) for talk in site.talks] == [1, 1]


async def test_once_a_byte_is_written_nothing_is_sent_again(web: Web) -> None:
    async def twice(talk: Talk) -> None:
        await talk.request()
        await talk.send(OK)
        await talk.request()

    async with web.serve(twice) as site:
        transport = site.transport()
        await read(await transport.open(site.get(), None))
        error = await failure(transport.open(site.get(), None))
        assert isinstance(error, TransportError)
        assert not error.unsent
        assert [len(talk.heads) for talk in site.talks] == [2]


async def test_the_first_connection_that_fails_before_a_byte_is_an_unsent_error(
    plain: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(channel: TcpChannel, data: memoryview) -> int:
        raise BrokenPipeError("to http://127.0.0.1 s3cr3t")

    monkeypatch.setattr(TcpChannel, "send_now", broken)
    async with plain.serve(silent) as site:
        error = await failure(site.transport().open(site.get(), None))
        assert isinstance(error, TransportError)
        assert error.unsent
        assert "BrokenPipeError" in error.detail


async def test_a_refused_connection_is_unsent(plain: Web) -> None:
    async with plain.serve(silent) as site:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        closed_port = listener.extra(anyio.abc.SocketAttribute.local_port)
        await listener.aclose()
        body = blocks(b"x")
        headers = (("host", "h"), ("content-length", "1"))
        request = HttpRequest("POST", "http", "127.0.0.1", closed_port, "/secret", headers)
        error = await failure(site.transport().open(request, body))
        assert isinstance(error, TransportError)
        assert error.unsent
        assert error.detail == "the connection failed: ConnectionRefusedError"


async def test_a_name_that_is_not_found_is_unsent(plain: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(host: str, port: int) -> list[Address]:
        raise socket.gaierror(socket.EAI_NONAME, "name.invalid not known")

    monkeypatch.setattr(lookup, "ask", not_found)
    async with plain.serve(silent) as site:
        error = await failure(site.transport().open(site.get(host="name.invalid"), None))
        assert error.unsent
        assert error.detail == "the host name could not be resolved: gaierror"


async def test_a_certificate_that_is_not_trusted_is_unsent(tls: Web) -> None:
    tls.client = ssl.create_default_context()
    async with tls.serve(echo) as site:
        error = await failure(site.transport().open(site.get(), None))
        assert isinstance(error, TransportError)
        assert error.unsent
        assert (
            error.detail
            == "the server's certificate was not accepted (its authority is not trusted): SSLCertVerificationError"
        )


async def test_plain_text_where_tls_is_spoken_is_unsent(plain: Web, tls: Web) -> None:
    async def hello(talk: Talk) -> None:
        await talk.send(b"220 mail ready\r\n")
        await talk.closed()

    async with plain.serve(hello) as site:
        site.scheme = "https"
        error = await failure(site.transport().open(site.get(), None))
        assert error.unsent
        assert error.detail.startswith("TLS failed (the server does not speak it on this port): ")


async def test_a_handshake_that_is_never_answered_ends_with_the_connect_limit(plain: Web) -> None:
    closed = anyio.Event()

    async def mute(talk: Talk) -> None:
        await talk.closed()
        closed.set()

    async with plain.serve(mute) as site:
        site.scheme = "https"
        transport = site.transport(connect_timeout=0.05)
        error = await failure(transport.open(site.get(), None))
        assert isinstance(error, ResponseTimeoutError)
        assert error.unsent
        assert error.detail == "TLS was not agreed on within 0.05 s"
        await closed.wait()


async def partial(talk: Talk) -> None:
    await talk.request()
    await talk.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart")
    await talk.closed()


async def test_waiting_for_a_slot_ends_with_the_connect_limit(web: Web) -> None:
    async with web.serve(partial) as site:
        transport = site.transport(max_connections=1)
        response = await transport.open(site.get(), None)
        body = Body(b"y")
        error = await failure(transport.open(site.post(1), body, connect_timeout=0.05))
        assert isinstance(error, ResponseTimeoutError)
        assert error.unsent
        assert error.detail == "no connection became free within 0.05 s"
        assert body.closed == 1
        await response.aclose()


async def test_who_waits_for_a_slot_gets_it_when_one_is_given_up(web: Web) -> None:
    async with web.serve(partial, echo) as site:
        transport = site.transport(max_connections=1)
        response = await transport.open(site.get(), None)
        answers: list[bytes] = []

        async def wait() -> None:
            answers.append(await read(await transport.open(site.post(1), blocks(b"x"))))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert len(site.talks) == 1
            await response.aclose()
        assert answers == [b"x", b"x", b"x"]
        assert len(site.talks) == 2


async def test_never_more_connections_than_allowed_idle_ones_included(plain: Web) -> None:
    async with plain.serve(echo) as site:
        transport = site.transport(max_connections=2)
        pool = pool_of(transport)
        for host in ("127.0.0.1", "localhost", "LOCALHOST", "127.0.0.1"):
            response = await transport.open(site.get(host=host), None)
            assert pool.leased + pool.idle <= 2
            assert await read(response) == b""
        assert pool.idle == 2


async def test_idle_connections_expire(web: Web) -> None:
    async with web.serve(echo) as site:
        transport = site.transport(idle_expiry=1e-9)
        for _ in range(2):
            await read(await transport.open(site.get(), None))
        assert len(site.talks) == 2


async def test_no_idle_connections_when_none_are_wanted(web: Web) -> None:
    async with web.serve(echo) as site:
        transport = site.transport(max_idle=0)
        await read(await transport.open(site.get(), None))
        assert pool_of(transport).idle == 0


async def test_closing_the_transport_ends_what_is_in_use(web: Web) -> None:
    async with web.serve(partial, echo) as site:
        transport = site.transport(max_connections=2)
        response = await transport.open(site.get(), None)
        await read(await transport.open(site.get(), None))
        errors: list[str] = []

        async def reader() -> None:
            assert await anext(response) == b"part"
            errors.append((await failure(anext(response))).detail)

        async def waiter() -> None:
            errors.append((await failure(transport.open(site.get(), None))).detail)

        second = await transport.open(site.get(), None)
        assert second.complete
        other = await pool_of(transport).lease()
        async with anyio.create_task_group() as group:
            group.start_soon(reader)
            group.start_soon(waiter)
            await anyio.wait_all_tasks_blocked()
            await transport.aclose()
            await transport.aclose()
        other.drop()
        assert sorted(errors) == [
            "the connection was closed on this side: ClosedResourceError",
            "the transport is closed",
        ]
        error = await failure(transport.open(site.get(), None))
        assert isinstance(error, ConfigError)


async def test_closing_the_transport_while_it_connects_leaves_nothing(plain: Web) -> None:
    async with plain.serve(silent) as site:
        site.scheme = "https"
        transport = site.transport()
        errors: list[bool] = []
        pool = pool_of(transport)

        async def opener() -> None:
            errors.append((await failure(transport.open(site.get(), None))).unsent)

        async with anyio.create_task_group() as group:
            group.start_soon(opener)
            await anyio.wait_all_tasks_blocked()
            await transport.aclose()
            for talk in site.talks:
                await talk.close()
        assert errors == [True]
        assert pool.leased == 0


@pytest.mark.parametrize("value", [0, -1, float("nan"), True, "1"])
@pytest.mark.parametrize("name", ["connect_timeout", "max_connections", "max_idle", "idle_expiry"])
async def test_bounds_that_are_none(name: str, value: object) -> None:
    if (name, value) == ("max_idle", 0):
        H11Transport(max_idle=0)
        return
    options: dict[str, Any] = {name: value}
    with pytest.raises(ConfigError, match=name):
        H11Transport(**options)


async def test_an_ssl_context_that_is_none() -> None:
    context: Any = "system"
    with pytest.raises(ConfigError, match=r"ssl_context must be an ssl\.SSLContext, not a str"):
        H11Transport(ssl_context=context)


@pytest.mark.parametrize("name", ["idle_timeout", "connect_timeout"])
async def test_clocks_of_a_call_that_are_none(plain: Web, name: str) -> None:
    async with plain.serve(silent) as site:
        body = Body(b"x")
        options = {name: 0.0}
        error = await failure(site.transport().open(site.post(1), body, **options))
        assert isinstance(error, ConfigError)
        assert body.closed == 1
        assert site.talks == []

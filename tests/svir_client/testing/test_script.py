"""Replies from a function, and what is remembered of a long run."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from svir_client.testing import Answer, Framing, MockServer, RecordedRequest, Reply
from svir_core.errors import ConfigError
from tests.svir_client.testing.test_server import REQUEST, connect, read_all

pytestmark = pytest.mark.anyio


def echo(request: RecordedRequest) -> Reply:
    return Reply(200, (), (request.body,), framing=Framing.LENGTH)


async def slow_echo(request: RecordedRequest) -> Reply:
    await anyio.lowlevel.checkpoint()
    return echo(request)


async def ask(server: MockServer, count: int) -> bytes:
    async with await connect(server) as stream:
        expected = server.request_count + count
        await stream.send(REQUEST * count)
        await server.wait_requests(expected)
        await stream.send_eof()
        return await read_all(stream)


@pytest.mark.parametrize("answer", [echo, slow_echo])
async def test_the_function_is_asked_once_the_script_is_over(answer: Answer) -> None:
    with anyio.fail_after(5):
        async with MockServer(Reply(204, framing=Framing.LENGTH), answer=answer) as server:
            data = await ask(server, 3)
            assert data.startswith(b"HTTP/1.1 204")
            assert data.count(b'{"a":1}') == 2
            assert (server.request_count, server.unscripted) == (3, 0)


async def test_the_latest_are_remembered_and_the_counts_are_exact() -> None:
    with anyio.fail_after(20):
        async with MockServer(answer=echo, remember=3) as server:
            for _ in range(5):
                await ask(server, 10)
            await server.wait_closed()
            assert (server.request_count, server.connection_count, server.open_connections) == (50, 5, 0)
            assert [request.connection for request in server.requests] == [4, 4, 4]
            assert [connection.number for connection in server.connections] == [2, 3, 4]


async def ask_and_fail(answer: Answer) -> None:
    async with MockServer(answer=answer) as server:
        await ask(server, 1)
        raise KeyError("of the test")


async def test_what_the_function_raises_fails_the_test() -> None:
    def broken(request: RecordedRequest) -> Reply:
        raise LookupError(request.target)

    with anyio.fail_after(5):
        with pytest.raises(LookupError, match="/v1/x"):
            async with MockServer(answer=broken) as server:
                assert b"500 Internal Server Error" in await ask(server, 1)
        with pytest.raises(KeyError) as caught:
            await ask_and_fail(broken)
        assert caught.value.__notes__ == ["the server raised LookupError('/v1/x')"]


@pytest.mark.parametrize("remember", [-1, True, "3"])
async def test_remember_is_a_number(remember: int) -> None:
    with pytest.raises(ConfigError, match="remember"):
        MockServer(remember=remember)


def test_a_recorded_request_shows_no_credential() -> None:
    shown = repr(RecordedRequest("GET", "/v1/x?key=canary", (("api-key", "canary"),), b"canary"))
    assert "/v1/x?key=<withheld>" in shown
    assert "canary" not in shown

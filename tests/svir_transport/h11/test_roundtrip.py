"""Both ways at once: uploads, early answers, interim ones, and the idle clock."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest

from svir_core.errors import (
    AttachmentError,
    ConfigError,
    ProtocolError,
    ResponseTimeoutError,
    TransportError,
)
from svir_core.http_message import HttpRequest
from tests.svir_transport.h11.peer import OK, Body, Talk, Web, blocks, echo, failure, pool_of, read, silent

pytestmark = pytest.mark.anyio

BIG = bytes(range(256)) * 4096
TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 9\r\n\r\ntoo large"


class Endless:
    """A body that gives one block, and then nothing, for ever."""

    def __init__(self, block: bytes = b"x") -> None:
        self._blocks = [block]
        self.waiting = anyio.Event()
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._blocks:
            return self._blocks.pop()
        self.waiting.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize("block", [1, 4, 8])
async def test_a_large_body_arrives_whole(web: Web, block: int) -> None:
    async with web.serve(echo) as site:
        transport = site.transport()
        body = Body(*[BIG * block] * (8 // block))
        response = await transport.open(site.post(8 * len(BIG)), body)
        assert await read(response) == BIG * 8
        assert body.closed == 1
        assert pool_of(transport).idle == 1


async def test_a_body_in_many_pieces_arrives_whole_and_in_order(web: Web) -> None:
    async with web.serve(echo) as site:
        pieces = [BIG[:size] for size in range(400)]
        response = await site.transport().open(site.post(sum(map(len, pieces))), Body(*pieces))
        assert await read(response) == b"".join(pieces)


async def test_a_body_of_no_bytes(web: Web) -> None:
    async with web.serve(echo) as site:
        for body in (Body(), Body(b"")):
            assert await read(await site.transport().open(site.post(0), body)) == b""
            assert body.closed == 1


async def test_an_early_error_ends_the_upload_and_is_given(web: Web) -> None:
    closed = anyio.Event()
    body = Endless()

    async def refuse(talk: Talk) -> None:
        await talk.head()
        await body.waiting.wait()
        await talk.send(TOO_LARGE)
        await talk.closed()
        closed.set()

    async with web.serve(refuse) as site:
        transport = site.transport()
        response = await transport.open(site.post(100), body)
        assert response.head.status == 413
        assert body.closed
        assert await read(response) == b"too large"
        assert response.complete
        await closed.wait()
        assert pool_of(transport).idle == 0


async def test_an_early_error_is_given_while_a_write_is_stuck(web: Web) -> None:
    async def refuse(talk: Talk) -> None:
        await talk.head()
        await talk.send(TOO_LARGE)
        await anyio.sleep_forever()

    async with web.serve(refuse) as site:
        body = Body(*[BIG * 8] * 8)
        response = await site.transport().open(site.post(64 * len(BIG)), body)
        assert response.head.status == 413
        assert await read(response) == b"too large"
        assert body.closed == 1


@pytest.mark.parametrize("attempt", range(5))
async def test_an_early_error_before_a_reset_is_still_read(plain: Web, attempt: int) -> None:
    async def refuse(talk: Talk) -> None:
        await talk.head()
        await talk.send(TOO_LARGE)
        await talk.close()  # with bytes unread: the client's writes are answered by a reset

    async with plain.serve(refuse) as site:
        body = Body(*[BIG] * 64)
        response = await site.transport().open(site.post(64 * len(BIG)), body)
        assert response.head.status == 413
        assert await read(response) == b"too large"
        assert body.closed == 1


async def test_a_connection_that_fails_during_the_upload(web: Web) -> None:
    async def vanish(talk: Talk) -> None:
        await talk.head()
        await talk.reset()

    async with web.serve(vanish) as site:
        body = Body(*[BIG] * 64)
        error = await failure(site.transport().open(site.post(64 * len(BIG)), body))
        assert isinstance(error, TransportError)
        assert not error.unsent
        assert body.closed == 1


async def test_an_early_success_lets_the_upload_finish(web: Web) -> None:
    received: list[bytes] = []

    async def eager(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n")
        received.append(await talk.exactly(4 * len(BIG)))
        await talk.send(b"0\r\n\r\n")
        await echo(talk)

    async with web.serve(eager) as site:
        transport = site.transport()
        response = await transport.open(site.post(4 * len(BIG)), Body(*[BIG] * 4))
        assert await read(response) == b"hi"
        assert received == [BIG * 4]
        assert pool_of(transport).idle == 1
        assert await read(await transport.open(site.post(1), blocks(b"x"))) == b"x"


async def test_an_early_success_and_then_a_reset(plain: Web) -> None:
    async def eager(talk: Talk) -> None:
        await talk.head()
        await talk.send(OK)
        await talk.close()

    async with plain.serve(eager) as site:
        transport = site.transport()
        response = await transport.open(site.post(64 * len(BIG)), Body(*[BIG] * 64))
        assert await read(response) == b"ok"
        assert pool_of(transport).idle == 0


async def test_interim_responses_are_skipped(web: Web) -> None:
    async def chatty(talk: Talk) -> None:
        await talk.head()
        await talk.send(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        await talk.exactly(6)
        await talk.send(b"HTTP/1.1 102 Processing\r\n\r\n" + OK)
        await talk.closed()

    async with web.serve(chatty) as site:
        response = await site.transport().open(site.post(6), blocks(b"abc", b"def"))
        assert response.head.status == 200
        assert await read(response) == b"ok"


async def test_interim_responses_without_end(web: Web) -> None:
    async def endless(talk: Talk) -> None:
        await talk.request()
        while True:
            await talk.send(b"HTTP/1.1 102 Processing\r\n\r\n")

    async with web.serve(endless) as site:
        error = await failure(site.transport().open(site.get(), None))
        assert isinstance(error, ProtocolError)
        assert error.detail == "more than 64 informational responses"


async def test_a_switch_of_protocols_nobody_asked_for(web: Web) -> None:
    async def switch(talk: Talk) -> None:
        await talk.request()
        await talk.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n")
        await talk.closed()

    async with web.serve(switch) as site:
        request = site.get()
        error = await failure(site.transport().open(request, None))
        assert isinstance(error, ProtocolError)
        upgrading = HttpRequest(
            "GET", site.scheme, request.host, request.port, "/", (*request.headers, ("upgrade", "h2c"))
        )
        error = await failure(site.transport().open(upgrading, None))
        assert error.detail == "the server switched protocols without being asked"


@pytest.mark.parametrize("length", [0, 2, 4])
async def test_a_body_of_another_length_is_an_error_before_it_makes_a_request(web: Web, length: int) -> None:
    async with web.serve(silent) as site:
        for data in ([b"abc"], [b"a", b"bc"], [b"a", b"b", b"c"]):
            body = Body(*data)
            error = await failure(site.transport().open(site.post(length), body))
            assert isinstance(error, AttachmentError)
            assert body.closed == 1
        words = "the body ended 1 bytes before its content-length"
        assert error.detail == (words if length == 4 else "the body is longer than its content-length")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ((), True),
        ((("content-length", "1"), ("content-length", "1")), True),
        ((("content-length", "+1"),), True),
        ((("content-length", "1"),), False),
        ((("transfer-encoding", "chunked"),), True),
    ],
)
async def test_headers_and_body_that_do_not_fit(plain: Web, headers: tuple[tuple[str, str], ...], body: bool) -> None:
    async with plain.serve(silent) as site:
        request = HttpRequest("POST", "http", "127.0.0.1", site.port, "/", (("host", "h"), *headers))
        source = Body(b"x")
        error = await failure(site.transport().open(request, source if body else None))
        assert isinstance(error, ConfigError)
        assert source.closed == (1 if body else 0)
        assert site.talks == []


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("kind", [AttachmentError, ZeroDivisionError, OSError])
async def test_what_a_body_raises_comes_out_as_it_is(web: Web, kind: type[Exception], place: int) -> None:
    closed = anyio.Event()

    async def script(talk: Talk) -> None:
        await talk.closed()
        closed.set()

    async with web.serve(script) as site:
        raised = kind("it broke")
        body = Body(*[b"a", b"b"][:place], raised)
        with pytest.raises(kind) as caught:
            await site.transport().open(site.post(3), body)
        assert caught.value is raised
        assert raised.__cause__ is None
        assert raised.__context__ is None
        assert body.closed == 1
        if place:
            await closed.wait()
        else:
            assert site.talks == []


async def test_a_body_whose_closing_fails(web: Web) -> None:
    closed = anyio.Event()

    class Failing(Body):
        async def aclose(self) -> None:
            raise ZeroDivisionError

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(OK[:-1])
        await talk.closed()
        closed.set()

    async with web.serve(script) as site:
        with pytest.raises(ZeroDivisionError):
            await site.transport().open(site.post(1), Failing(b"x"))
        await closed.wait()


async def test_no_head_within_the_idle_timeout(web: Web) -> None:
    closed = anyio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(b"HTTP/1.1 200 OK\r\n")
        await talk.closed()
        closed.set()

    async with web.serve(script) as site:
        error = await failure(site.transport().open(site.get(), None, idle_timeout=0.05))
        assert isinstance(error, ResponseTimeoutError)
        assert not error.unsent
        assert error.detail == "nothing moved on the connection for 0.05 s"
        await closed.wait()


async def test_a_write_that_makes_no_progress_within_the_idle_timeout(web: Web) -> None:
    async def script(talk: Talk) -> None:
        await talk.head()  # and nothing after it: from here on the peer's buffers fill
        await anyio.sleep_forever()

    async with web.serve(script) as site:
        body = Body(*[BIG * 8] * 8)
        error = await failure(site.transport().open(site.post(64 * len(BIG)), body, idle_timeout=0.05))
        assert isinstance(error, ResponseTimeoutError)
        assert body.closed == 1


async def test_the_clock_stands_still_while_the_body_is_waited_for(web: Web) -> None:
    deadlines: list[float] = []

    class Watched(Body):
        async def __anext__(self) -> bytes:
            await anyio.lowlevel.checkpoint()
            deadlines.append(anyio.current_effective_deadline())
            return await super().__anext__()

    async def script(talk: Talk) -> None:
        await talk.send(b"HTTP/1.1 102 Processing\r\n\r\n")
        await echo(talk)

    async with web.serve(script) as site:
        before = anyio.current_effective_deadline()
        response = await site.transport().open(site.post(3), Watched(b"a", b"b", b"c"), idle_timeout=5)
        assert await read(response) == b"abc"
        assert before != math.inf
        assert deadlines == [before] * 4


async def test_no_answer_but_an_end(web: Web) -> None:
    async def script(talk: Talk) -> None:
        await talk.request()

    async with web.serve(script) as site:
        error = await failure(site.transport().open(site.get(), None))
        assert isinstance(error, TransportError)
        assert not error.unsent
        assert error.detail == "the server closed the connection before the response's head was complete"


async def test_an_end_inside_the_upload(web: Web) -> None:
    async def script(talk: Talk) -> None:
        await talk.head()

    async with web.serve(script) as site:
        error = await failure(site.transport().open(site.post(2), Endless()))
        assert isinstance(error, TransportError)
        assert not error.unsent

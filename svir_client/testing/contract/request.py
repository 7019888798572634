"""Clauses about the request: it leaves as it was given, and its body as it is read."""

from __future__ import annotations

from typing import Final

import anyio

from svir_client.testing.contract.bench import (
    AMPLE,
    SHORT,
    Bench,
    Blocks,
    answer,
    expect,
    raw,
    read,
    soon,
)
from svir_client.testing.contract.peer import MutePeer
from svir_client.testing.reply import End, Reply
from svir_client.testing.server import MockServer
from svir_client.testing.wait import Gate
from svir_core.errors import AttachmentError, ConfigError, ResponseTimeoutError, SvirError

TARGET: Final = "/v1//a%2Fb/%7Ec/chat?api-version=1&q=a%20b+c&empty="
HEADERS: Final = (
    ("host", "server.example:8080"),
    ("x-second", "a  b, c"),
    ("accept", "text/event-stream"),
    ("accept-encoding", "identity"),
    ("user-agent", "svir/contract"),
    ("authorization", "Bearer withheld"),
    ("a-last", "1"),
)
BARE: Final = (("host", "server.example"),)
BLOCK: Final = bytes(range(256)) * 256
PULLED: Final = 64 * 1024 * 1024
"""Far more than socket buffers hold, and as much as a transport may ever read ahead of a peer that takes nothing."""
OK: Final = answer(b"ok")
EARLY: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def request_is_sent_as_given(bench: Bench) -> None:
    """Request line, header values and their order, and the body's bytes are those given."""
    async with MockServer(OK) as server:
        await bench.whole(server, body=Blocks(b"ab", b"", b"c\r\n"), length=5, headers=HEADERS, target=TARGET)
        (request,) = server.requests
        expect((request.method, request.target) == ("POST", TARGET), f"{request.method} {request.target}")
        expect(request.headers == (*HEADERS, ("content-length", "5")), f"the headers {request.headers}")
        expect(request.body == b"abc\r\n", f"the body {request.body!r}")


async def nothing_is_added_to_a_request(bench: Bench) -> None:
    """No header is added: no user-agent, no accept, no accept-encoding, no connection."""
    async with MockServer(OK, OK) as server:
        await bench.whole(server, headers=BARE)
        await bench.whole(server, headers=BARE, body=Blocks(b"x"), length=1)
        get, post = server.requests
        expect(get.headers == BARE, f"the headers {get.headers}")
        expect(post.headers == (*BARE, ("content-length", "1")), f"the headers {post.headers}")


async def nothing_is_kept_between_calls(bench: Bench) -> None:
    """A cookie, or anything else that a response says, does not show in the next request."""
    cookies = (("set-cookie", "a=b; Path=/"), ("alt-svc", 'h3=":443"'))
    async with MockServer(answer(b"ok", headers=cookies), OK) as server:
        await bench.whole(server, headers=BARE)
        await bench.whole(server, headers=BARE)
        expect(server.requests[1].headers == BARE, f"the headers {server.requests[1].headers}")


async def body_of_no_bytes_is_sent(bench: Bench) -> None:
    """A body of length 0 is a whole request with ``content-length: 0``."""
    async with MockServer(OK) as server:
        await bench.whole(server, headers=BARE, body=Blocks(), length=0)
        (request,) = server.requests
        expect(request.headers == (*BARE, ("content-length", "0")), f"the headers {request.headers}")
        expect(request.complete and not request.body, "a body")


async def large_body_is_sent_exactly(bench: Bench) -> None:
    """A body larger than any socket buffer arrives byte for byte, however it is cut."""
    data = BLOCK * 128
    cuts = [data[:1], data[1:70_000], data[70_000:70_001], data[70_001:4_000_000], data[4_000_000:]]
    async with MockServer(OK) as server:
        await bench.whole(server, body=Blocks(*cuts), length=len(data))
        expect(server.requests[0].body == data, f"{len(server.requests[0].body)} bytes that differ")


async def body_is_sent_as_it_is_read(bench: Bench) -> None:
    """The first blocks are on their way before the later ones exist."""
    gate = Gate()

    async def arrived() -> None:
        with soon("the request's head reaches the server while its body is still being made"):
            await server.wait_requests(1)
        gate.open()

    async with MockServer(raw(gate, EARLY, before_body=True)) as server:
        expect(await bench.whole(server, body=Blocks(b"one", b"two", arrived, b"three"), length=11) == b"ok", "no ok")


class _Endless:
    """A body of 128 MiB, made as it is asked for."""

    LENGTH = 2 * PULLED

    def __init__(self) -> None:
        self.pulled = 0

    def __aiter__(self) -> _Endless:
        return self

    async def __anext__(self) -> bytes:
        if self.pulled == self.LENGTH:
            raise StopAsyncIteration
        self.pulled += len(BLOCK)
        return BLOCK


async def body_is_not_read_ahead(bench: Bench) -> None:
    """When the peer takes nothing, the body is not read further, and its memory is not used."""
    body = _Endless()
    with MutePeer() as peer:
        call = bench.open(peer.port, body, length=body.LENGTH, idle_timeout=SHORT)
        await bench.failure(call, ResponseTimeoutError)
        expect(body.pulled < PULLED, f"{body.pulled >> 20} MiB were read ahead")


async def body_is_closed_after_success(bench: Bench) -> None:
    """``aclose`` of the body is called before ``open`` returns."""
    async with MockServer(OK) as server:
        body = Blocks(b"x")
        await bench.open(server, body, length=1)
        expect(body.closed > 0, "the body was not closed")


async def body_is_closed_after_failure(bench: Bench) -> None:
    """``aclose`` of the body is called before ``open`` raises: for silence, a lost or a refused connection."""
    async with MockServer(Reply.silence(), raw(end=End.RESET)) as server:
        port = server.port
        for idle_timeout in (SHORT, AMPLE):
            body = Blocks(b"x")
            await bench.failure(bench.open(port, body, length=1, idle_timeout=idle_timeout), SvirError)
            expect(body.closed > 0, "the body was not closed")
    body = Blocks(b"x")
    await bench.failure(bench.open(port, body, length=1), SvirError)
    expect(body.closed > 0, "the body was not closed after a refused connection")


async def body_s_own_exception_passes(bench: Bench) -> None:
    """What the body raises reaches the caller as it is; the request never becomes whole, and its connection closes."""
    for before in (0, 1, 3):
        failure = LookupError("the body's own")
        body = Blocks(*[BLOCK] * before, failure, BLOCK)
        async with MockServer(OK) as server:
            raised: BaseException | None = None
            try:
                await bench.open(server, body, length=4 * len(BLOCK))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
                raised = error
            expect(raised is failure, f"after {before} blocks the caller got {raised!r}")
            expect(body.closed > 0, "the body was not closed")
            with soon("the connection of a request whose body failed is closed"):
                await server.wait_closed()
            expect(not server.requests, "the server got a whole request")


async def body_that_is_too_short(bench: Bench) -> None:
    """A body that ends before its content-length is an ``AttachmentError``; the request never becomes whole."""
    for blocks in ((), (b"abc",), (BLOCK, b"abc")):
        await _misfit(bench, Blocks(*blocks), len(BLOCK) + 4)


async def body_that_is_too_long(bench: Bench) -> None:
    """A body that goes on after its content-length is an ``AttachmentError``; the request never becomes whole."""
    for blocks in ((b"abcdef",), (b"abcde", b"f"), (b"abc", b"def"), (b"a", b"b", b"cde", b"", b"f")):
        await _misfit(bench, Blocks(*blocks), 5)


async def _misfit(bench: Bench, body: Blocks, length: int) -> None:
    async with MockServer(OK) as server:
        await bench.failure(bench.open(server, body, length=length), AttachmentError)
        expect(body.closed > 0, "the body was not closed")
        with soon("the connection of a request whose body does not fit is closed"):
            await server.wait_closed()
        expect(not server.requests, "the server got a whole request")


async def body_and_length_that_contradict(bench: Bench) -> None:
    """A body without a content-length, or the other way round, is a ``ConfigError`` and costs no request."""
    async with MockServer(OK) as server:
        body = Blocks(b"x")
        await bench.failure(bench.open(server, body), ConfigError)
        expect(body.closed > 0, "the body was not closed")
        await bench.failure(bench.open(server, None, length=3), ConfigError)
        await anyio.wait_all_tasks_blocked()
        expect(not server.requests, "the server got a request")


async def early_error_is_the_response(bench: Bench) -> None:
    """An error response that comes while the body is being sent is the call's response, body and all."""
    blocks = [BLOCK] * 256
    early = answer(b"too many", status=429, before_body=True, headers=(("retry-after", "1"),))
    async with MockServer(early) as server:
        body = Blocks(*blocks)
        response = await bench.open(server, body, length=len(BLOCK) * len(blocks))
        expect(response.head.status == 429, f"status {response.head.status}")
        expect(response.head.get("retry-after") == "1", "a header is missing")
        data = await read(response)
        expect(data == b"too many", f"the body {data!r}")
        expect(body.closed > 0, "the request's body was not closed")


CLAUSES: Final = (
    request_is_sent_as_given,
    nothing_is_added_to_a_request,
    nothing_is_kept_between_calls,
    body_of_no_bytes_is_sent,
    large_body_is_sent_exactly,
    body_is_sent_as_it_is_read,
    body_is_not_read_ahead,
    body_is_closed_after_success,
    body_is_closed_after_failure,
    body_s_own_exception_passes,
    body_that_is_too_short,
    body_that_is_too_long,
    body_and_length_that_contradict,
    early_error_is_the_response,
)

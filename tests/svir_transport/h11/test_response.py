"""Bodies as they come: every framing, every cut, drained, stalled, cut off."""

from __future__ import annotations

import gc
import time
import warnings
from itertools import pairwise

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svir_core.counted_body import CountedBody
from svir_core.errors import (
    ConfigError,
    ProtocolError,
    ResponseLimitError,
    ResponseTimeoutError,
    SvirError,
    TransportError,
)
from svir_core.http_message import HttpRequest, Origin
from svir_transport.h11.connection import Connection
from svir_transport.h11.pool import Pool
from svir_transport.h11.response import H11Response
from svir_transport.h11.roundtrip import RoundTrip
from tests.svir_transport.h11.peer import Talk, Web, blocks, echo, failure, pool_of, read

pytestmark = pytest.mark.anyio

PAYLOAD = b'data: {"a": 1}\n\ndata: [DONE]\n\n' * 3
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)


WIRE = {
    "length": HEAD + b"content-length: %d\r\n\r\n" % len(PAYLOAD) + PAYLOAD,
    "chunked": HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunked(PAYLOAD[:7], PAYLOAD[7:]) + b"0\r\nx: y\r\n\r\n",
    "extensions": HEAD + b"transfer-encoding: chunked\r\n\r\n%x;a=b\r\n" % len(PAYLOAD) + PAYLOAD + b"\r\n0;c\r\n\r\n",
    "close": HEAD + b"\r\n" + PAYLOAD,
    "http/1.0": HEAD.replace(b"1.1", b"1.0") + b"\r\n" + PAYLOAD,
    "interim": b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"content-length: %d\r\n\r\n" % len(PAYLOAD) + PAYLOAD,
}


class Scripted:
    """A channel that hands out pieces, and then the end of the input."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.sent = 0
        self.closed = False

    def receive_now(self) -> bytes | None:
        return self.pieces.pop(0) if self.pieces else b""

    def send_now(self, data: memoryview) -> int:
        self.sent += len(data)
        return len(data)

    def flush_now(self) -> bool:
        return True

    async def readable(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def writable(self) -> None:
        await anyio.lowlevel.checkpoint()

    def quiet(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


async def outcome(pieces: list[bytes], *, method: str = "GET") -> tuple[int, bytes, bool, str | None]:
    """Status, body, whether the end was read, and the error, of a response that comes in these pieces."""
    pool = Pool(1, 1, 30.0)
    lease = await pool.lease()
    connection = Connection(Origin("http", "h", 80), Scripted(pieces))
    lease.hold(connection)
    trip = RoundTrip(connection, CountedBody(None), 5.0)
    assert trip.start(HttpRequest(method, "http", "h", 80, "/", (("host", "h"),)), b"") is None
    try:
        head = await trip.head()
    except SvirError as error:
        lease.drop()
        return 0, b"", False, repr(error)
    response = H11Response(lease, connection, head, 5.0)
    body = b""
    words: str | None = None
    try:
        async for data in response:
            assert data
            body += data
    except SvirError as error:
        words = repr(error)
    await response.aclose()
    assert pool.leased == 0
    assert response.complete == (words is None)
    return response.head.status, body, response.complete, words


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % len(data) for place in places} - {0}), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("framing", WIRE)
@given(places=st.lists(st.integers(0, 1000), max_size=30))
@settings(max_examples=25)
async def test_any_cut_gives_the_same_bytes(framing: str, places: list[int]) -> None:
    assert await outcome(cut(WIRE[framing], places)) == (200, PAYLOAD, True, None)


@pytest.mark.parametrize("framing", WIRE)
async def test_byte_by_byte(framing: str) -> None:
    assert await outcome([bytes([byte]) for byte in WIRE[framing]]) == (200, PAYLOAD, True, None)


@pytest.mark.parametrize("framing", ["length", "chunked"])
@given(end=st.integers(1, 500), places=st.lists(st.integers(0, 1000), max_size=5))
@settings(max_examples=40)
async def test_a_response_that_is_cut_off_gives_what_came_and_then_an_error(
    framing: str, end: int, places: list[int]
) -> None:
    wire = WIRE[framing]
    end = min(end, len(wire) - 1)
    head = wire.index(b"\r\n\r\n") + 4
    status, body, complete, words = await outcome(cut(wire[:end], places))
    assert not complete
    if end < head:
        assert words is not None
        assert "before the response's head was complete" in words
        return
    assert status == 200
    assert words == """TransportError("the response's body was cut off")"""
    assert PAYLOAD.startswith(body)
    whole = wire[head:end] if framing == "length" else None
    assert whole is None or body == whole


@pytest.mark.parametrize(
    ("tail", "body"),
    [
        (b"zz\r\nabc\r\n", b""),
        (b"3\r\nabcd\r\n", b"abc"),
        (b"3\r\nabc\r\n-1\r\n", b"abc"),
        (chunked(b"abc") + b"f" * 300_000, b"abc"),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
async def test_framing_that_is_none(tail: bytes, body: bytes, whole: bool) -> None:
    wire = HEAD + b"transfer-encoding: chunked\r\n\r\n" + tail
    pieces = [wire] if whole else [wire[:1000][place : place + 1] for place in range(len(wire[:1000]))] + [wire[1000:]]
    status, received, complete, words = await outcome([piece for piece in pieces if piece])
    assert (status, received, complete) == (200, body, False)
    assert words == "ProtocolError('the response is not valid HTTP: RemoteProtocolError')"


@pytest.mark.parametrize(
    "wire",
    [
        b"220 mail ready\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
    ],
)
async def test_a_head_that_is_none(wire: bytes) -> None:
    _, _, _, words = await outcome([wire])
    assert words is not None
    assert words.startswith("ProtocolError(")


@pytest.mark.parametrize("size", [1, 1000, 65536, 10**6])
async def test_a_head_up_to_its_bound_is_read_and_a_larger_one_is_not(size: int) -> None:
    start, end = HEAD + b"x: ", b"\r\ncontent-length: 2\r\n\r\n"
    room = 256 * 1024 - len(start) - len(end)

    def pieces(filler: int) -> list[bytes]:
        wire = start + b"y" * filler + end + b"ok"
        if size == 1:  # the first bytes one by one, so that the test stays short
            return (
                [wire[place : place + 1] for place in range(100)]
                + [wire[100:-100]]
                + [wire[place : place + 1] for place in range(len(wire) - 100, len(wire))]
            )
        return [wire[place : place + size] for place in range(0, len(wire), size)]

    assert await outcome(pieces(room)) == (200, b"ok", True, None)
    for excess in (1, 500_000):
        _, _, _, words = await outcome(pieces(room + excess))
        assert words == repr(ResponseLimitError("the response head is larger than 262144 bytes"))


class ByteByByte(Scripted):
    """A channel that gives one byte per read and never gives way, so that only the parsing is measured."""

    def __init__(self, wire: bytes) -> None:
        super().__init__([])
        self.bytes = iter(wire)

    def receive_now(self) -> bytes | None:
        return bytes([next(self.bytes)])

    async def readable(self) -> None:
        pass


async def test_a_head_that_comes_byte_by_byte_takes_linear_work() -> None:
    async def work(size: int) -> float:
        line = b"x: " + b"y" * 59 + b"\r\n"
        wire = HEAD + line * (size // len(line) - 2) + b"\r\n"
        connection = Connection(Origin("http", "h", 80), ByteByByte(wire))
        connection.request_head(HttpRequest("GET", "http", "h", 80, "/", (("host", "h"),)))
        connection.request_sent()
        start = time.process_time()
        while connection.head() is None:
            await connection.receive()
        return time.process_time() - start

    small, large = [min([await work(size) for _ in range(2)]) for size in (32 * 1024, 256 * 1024)]
    assert large < 24 * small  # linear: 8 times; quadratic: 64 times


async def test_each_interim_head_has_the_bound_for_itself() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nx: " + b"y" * 150_000 + b"\r\n\r\n"
    wire = interim * 3 + WIRE["length"]
    assert (await outcome([wire]))[1] == PAYLOAD
    assert (await outcome([wire[place : place + 5000] for place in range(0, len(wire), 5000)]))[1] == PAYLOAD


@pytest.mark.parametrize("status", [204, 304])
async def test_statuses_without_a_body(status: int) -> None:
    assert await outcome([b"HTTP/1.1 %d X\r\n\r\n" % status]) == (status, b"", True, None)


async def test_a_head_request_has_no_body() -> None:
    assert await outcome([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"], method="HEAD") == (200, b"", True, None)


async def test_reads_are_at_most_64_kib_and_one_read_is_one_item(web: Web) -> None:
    size = 4 * 1024 * 1024

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(HEAD + b"transfer-encoding: chunked\r\n\r\n", chunked(*[b"z" * 300] * (size // 300)))
        await talk.send(b"0\r\n\r\n")
        await talk.closed()

    async with web.serve(script) as site:
        response = await site.transport().open(site.get(), None)
        pieces = [data async for data in response]
        assert b"".join(pieces) == b"z" * (size // 300 * 300)
        assert max(map(len, pieces)) <= 64 * 1024
        assert len(pieces) < size // 1000


async def test_drip_by_drip_no_clock_runs_out(web: Web) -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        for byte in WIRE["chunked"]:
            await talk.send(bytes([byte]))
        await talk.closed()

    async with web.serve(script) as site:
        response = await site.transport().open(site.get(), None, idle_timeout=5)
        assert await read(response) == PAYLOAD


async def test_a_stall_inside_the_body_is_a_timeout_after_what_came(web: Web) -> None:
    closed = anyio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(WIRE["length"][:-1])
        await talk.closed()
        closed.set()

    async with web.serve(script) as site:
        transport = site.transport()
        response = await transport.open(site.get(), None)
        received = b""
        while len(received) < len(PAYLOAD) - 1:
            received += await anext(response)
        response._idle = 0.05  # only now: what came before must not depend on this machine's speed
        error = await failure(anext(response))
        assert isinstance(error, ResponseTimeoutError)
        assert received == PAYLOAD[:-1]
        assert not error.unsent
        await closed.wait()
        assert pool_of(transport).leased == 0
        assert await failure(anext(response)) is error


async def test_a_reset_inside_the_body(web: Web) -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(WIRE["length"][:-5])
        await talk.exactly(1)

    async with web.serve(script) as site:
        response = await site.transport().open(site.get(), None)
        received = await anext(response)
        while len(received) < len(PAYLOAD) - 5:
            received += await anext(response)
        await site.talks[0].reset()
        error = await failure(anext(response))
        assert isinstance(error, TransportError)
        assert not isinstance(error, ProtocolError)
        assert received == PAYLOAD[:-5]


async def test_drain_reads_a_short_rest_and_keeps_the_connection(web: Web) -> None:
    go = anyio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(WIRE["length"][:-3])
        await go.wait()
        await talk.send(WIRE["length"][-3:])
        await talk.closed()

    async with web.serve(script) as site:
        transport = site.transport()
        response = await transport.open(site.get(), None)
        go.set()
        await response.drain(seconds=5)
        assert response.complete
        assert pool_of(transport).idle == 1
        await response.aclose()
        assert [data async for data in response] == []


@pytest.mark.parametrize("what", ["stall", "cut", "long"])
async def test_drain_gives_up_without_an_error(web: Web, what: str) -> None:
    closed = anyio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(HEAD + b"content-length: 10000000\r\n\r\nx")
        if what == "long":
            await talk.send(b"x" * 500_000)
        if what != "cut":
            await talk.closed()
        closed.set()

    async with web.serve(script) as site:
        transport = site.transport()
        response = await transport.open(site.get(), None)
        await response.drain(limit=65536, seconds=5 if what != "stall" else 0.05)
        assert not response.complete
        await closed.wait()
        assert pool_of(transport).leased == 0
        assert pool_of(transport).idle == 0
        assert isinstance(await failure(anext(response)), TransportError if what == "cut" else ConfigError)


async def test_closing_from_another_task_ends_the_read(web: Web) -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(HEAD + b"\r\n")
        await talk.closed()

    async with web.serve(script) as site:
        response = await site.transport().open(site.get(), None)
        details: list[str] = []

        async def reader() -> None:
            details.append((await failure(anext(response))).detail)

        async with anyio.create_task_group() as group:
            group.start_soon(reader)
            await anyio.wait_all_tasks_blocked()
            await response.aclose()
        assert details == ["the response was closed before its end"]


async def test_nothing_secret_in_a_repr(web: Web) -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(b"HTTP/1.1 200 OK\r\nset-cookie: s3cr3t\r\n\r\n")

    async with web.serve(script) as site:
        transport = site.transport()
        response = await transport.open(site.get(), None)
        assert await read(response) == b""
        for text in (repr(response), repr(response.head), repr(transport)):
            assert "s3cr3t" not in text
            assert "127.0.0.1" not in text


async def test_a_response_with_both_framings_is_read_and_its_connection_closed(plain: Web) -> None:
    async def both(talk: Talk) -> None:
        await talk.request()
        await talk.send(
            HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n" + chunked(b"ok") + b"0\r\n\r\n"
        )
        await talk.closed()

    async with plain.serve(both) as site:
        transport = site.transport()
        assert await read(await transport.open(site.get(), None)) == b"ok"
        assert pool_of(transport).idle == 0


async def stall(talk: Talk) -> None:
    await talk.request()
    await talk.send(HEAD + b"\r\n")
    await talk.closed()


async def drop(responses: list[H11Response]) -> None:
    responses.clear()


DROPPED = "dropped without aclose"


@pytest.mark.parametrize("thread", [True, False])
async def test_a_response_that_is_dropped_without_being_closed_gives_its_slot_back(web: Web, thread: bool) -> None:
    closed = anyio.Event()

    async def first(talk: Talk) -> None:
        await stall(talk)
        closed.set()

    async with web.serve(first, echo) as site:
        transport = site.transport(max_connections=1)
        responses = [await transport.open(site.get(), None)]
        answers: list[bytes] = []

        async def wait() -> None:
            answers.append(await read(await transport.open(site.post(2), blocks(b"hi"))))

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            with pytest.warns(ResourceWarning, match=DROPPED) as told:
                await (anyio.to_thread.run_sync(responses.clear) if thread else drop(responses))
            told.clear()  # a warning holds what it is about
            await closed.wait()
        assert answers == [b"hi"]
        assert pool_of(transport).leased == 0


async def test_a_response_in_a_cycle_is_closed_by_the_collector(plain: Web) -> None:
    closed = anyio.Event()

    async def script(talk: Talk) -> None:
        await stall(talk)
        closed.set()

    async with plain.serve(script) as site:
        transport = site.transport(max_connections=1)
        cycle: list[object] = [await transport.open(site.get(), None)]
        cycle.append(cycle)
        del cycle
        with pytest.warns(ResourceWarning, match=DROPPED):
            gc.collect()
        await closed.wait()
        assert pool_of(transport).leased == 0


async def test_of_a_response_that_is_done_nothing_is_told(plain: Web) -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.send(WIRE["length"])
        await stall(talk)

    async with plain.serve(script) as site:
        transport = site.transport()
        whole = await transport.open(site.get(), None)
        assert await read(whole) == PAYLOAD
        left = await transport.open(site.get(), None)
        await left.aclose()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            del whole, left
        assert told == []

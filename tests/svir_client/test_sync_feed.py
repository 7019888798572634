"""The border between the threads: bounded, in order, one step a read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio.lowlevel

from svir_client import Client
from svir_client.sync.feed import READS_AHEAD
from svir_client.sync.loop_thread import loop_thread
from svir_client.testing import Framing, Reply
from svir_core.event import TextDelta
from svir_core.http_message import HttpRequest, ResponseHead
from tests.svir_client.blocking import connected
from tests.svir_client.chat import DONE, FINISH, REQUEST, text

HEAD = ResponseHead(200, [("content-type", "text/event-stream")])


class Endless:
    """A transport and its one response: every read gives two events at once, without end."""

    head = HEAD
    complete = False

    def __init__(self) -> None:
        self.reads = 0
        self.closed = False

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float | None = None,
    ) -> Endless:
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        self.reads += 1
        return text(f"{self.reads}a") + text(f"{self.reads}b")

    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


def let_the_loop_run() -> None:
    """So many turns of the loop that a reader without a bound would have read far beyond it."""

    async def turns() -> None:
        for _ in range(50 * READS_AHEAD):
            await anyio.lowlevel.checkpoint()

    loop_thread().call(turns)


def test_a_slow_reader_holds_the_server_back() -> None:
    endless = Endless()
    with Client.openai("http://127.0.0.1:1", transport=endless) as client, client.stream(REQUEST) as stream:
        let_the_loop_run()
        assert READS_AHEAD - 1 <= endless.reads <= READS_AHEAD  # it stops once, before or after the head was taken
        expected = [TextDelta(f"{number}{half}") for number in range(1, 4 * READS_AHEAD) for half in "ab"]
        assert [next(stream) for _ in expected] == expected
        let_the_loop_run()
        assert 4 * READS_AHEAD <= endless.reads < 6 * READS_AHEAD
    assert endless.closed


def test_leaving_a_stream_that_is_held_back_closes_it() -> None:
    endless = Endless()
    with Client.openai("http://127.0.0.1:1", transport=endless) as client:
        with client.stream(REQUEST):
            let_the_loop_run()
        assert endless.closed
        with client.send(REQUEST) as raw:
            endless.closed = False
            assert next(raw).startswith(b"data: ")
        assert endless.closed


def test_a_long_answer_arrives_whole_and_in_order_however_it_is_cut() -> None:
    pieces = [text(f"{number} " * (number % 50)) for number in range(1, 3000)]
    reply = Reply.stream(*pieces, FINISH, DONE, framing=Framing.CHUNKED)
    expected = "".join(f"{number} " * (number % 50) for number in range(1, 3000))
    with connected(reply, reply) as (_, client):
        with client.stream(REQUEST) as stream:
            assert "".join(stream.text()) == expected
        assert stream.completion.text == expected
        with client.send(REQUEST) as raw:
            assert b"".join(raw) == b"".join([*pieces, FINISH, DONE])


def test_one_step_takes_what_came_in_one_read() -> None:
    endless = Endless()
    with Client.openai("http://127.0.0.1:1", transport=endless) as client, client.stream(REQUEST) as stream:
        feed = stream._feed
        assert feed is not None
        assert feed.take() == [TextDelta("1a"), TextDelta("1b")]
        assert feed.take() == [TextDelta("2a"), TextDelta("2b")]

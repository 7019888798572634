"""Calls that end before their answer does: cancelled at any await, or left in any way. The server is told at once."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import AsyncClient, RawStream, Stream
from svir_client.testing import End, Framing, MockServer, Pause, Reply, cancelled_at_every_await
from svir_core.errors import ConfigError, ErrorKind, SvirError
from svir_core.event import Completed
from svir_core.http_message import ResponseHead
from svir_core.message import Message, TextFile
from svir_core.request import Request
from svir_transport.h11 import H11Transport
from tests.svir_client.chat import HELLO, REQUEST, SECONDS, cancelled_everywhere, hello, text, until

pytestmark = pytest.mark.anyio

MOMENT = 0.005
"""A pause of the server, in seconds: long enough that the client waits there."""

REFUSAL = Reply.document({"error": {"message": "unknown field"}}, status=400)
SLOW_REFUSAL = Reply(500, {}, (b"{", Pause(MOMENT), b"}"), framing=Framing.LENGTH)
SLOW_UNKNOWN_FIELD = Reply(400, {}, (b'{"error":{"message":', Pause(MOMENT), b'"no"}}'), framing=Framing.LENGTH)

SCRIPTS: dict[str, Callable[[], list[Reply]]] = {
    "a head that is waited for": lambda: [hello(before_head=Pause(MOMENT))],
    "events that are waited for": lambda: [Reply.stream(HELLO[0], Pause(MOMENT), *HELLO[1:], framing=Framing.CHUNKED)],
    "an end that is waited for": lambda: [Reply.stream(*HELLO, Pause(MOMENT), b": bye\n\n", framing=Framing.CHUNKED)],
    "an error body that is waited for": lambda: [SLOW_REFUSAL],
    "an error body, then the lean retry": lambda: [SLOW_UNKNOWN_FIELD, hello(framing=Framing.CHUNKED)],
    "an error in the stream": lambda: [Reply.stream(HELLO[0], b'data: {"error":{"message":"no"}}\n\n')],
    "a reset": lambda: [Reply.stream(HELLO[0], end=End.RESET)],
}
"""What the server says, each with another wait in it."""


async def complete(client: AsyncClient) -> None:
    with contextlib.suppress(SvirError):
        await client.complete(REQUEST)


async def stream(client: AsyncClient) -> None:
    with contextlib.suppress(SvirError):
        async with client.stream(REQUEST) as events:
            async for _ in events:
                await anyio.lowlevel.checkpoint()


async def send(client: AsyncClient) -> None:
    with contextlib.suppress(SvirError):
        async with client.send(REQUEST) as raw:
            async for _ in raw:
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("call", [complete, stream, send])
@pytest.mark.parametrize("script", SCRIPTS)
async def test_cancelled_at_any_await(script: str, call: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    assert await cancelled_everywhere(SCRIPTS[script], call) > 3


@pytest.mark.parametrize(
    "reply", [Reply.models("m", before_head=Pause(MOMENT)), SLOW_REFUSAL], ids=["listed", "refused"]
)
async def test_a_listing_cancelled_at_any_await(reply: Reply) -> None:
    async def work(client: AsyncClient) -> None:
        with contextlib.suppress(SvirError):
            await client.list_models()

    assert await cancelled_everywhere(lambda: [reply], work) >= 3


@pytest.mark.parametrize("call", ["complete", "stream", "send"])
async def test_an_upload_from_disk_cancelled_at_any_await(call: str, tmp_path: pathlib.Path) -> None:
    """The key is asked for, the file is measured and read in threads, and read again for the lean retry."""
    path = tmp_path / "notes.txt"
    path.write_text("notes\n" * 300_000)
    request = Request("m").message(Message.user("Read.", TextFile.path(path)))

    async def key() -> str:
        await anyio.lowlevel.checkpoint()
        return "sk-0"

    async def work(client: AsyncClient) -> None:
        if call == "complete":
            await client.complete(request)
            return
        async with client.stream(request) if call == "stream" else client.send(request) as response:
            async for _ in response:
                pass

    assert await cancelled_everywhere(lambda: [REFUSAL, hello()], work, api_key=key) > 6


# --- one read inside a block that lives on -------------------------------------------------------


@pytest.mark.parametrize("call", ["stream", "send"])
async def test_one_read_cancelled_at_any_await(call: str) -> None:
    """The server sees the close at once; what had come stays, and reading on says what happened."""
    transport = H11Transport(max_connections=1)
    opened: Stream | RawStream | None = None

    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        nonlocal opened
        with anyio.fail_after(SECONDS):
            async with MockServer(Reply.stream(text("Hel"), Pause(MOMENT), text("lo"), end=End.STALL)) as server:
                client = AsyncClient.openai(server.origin, transport=transport)
                async with client.stream(REQUEST) if call == "stream" else client.send(REQUEST) as response:
                    opened = response
                    await anext(response)
                    yield read()
                    with anyio.fail_after(1):
                        await server.wait_closed()
                    assert transport._pool().leased == 0
                    for _ in range(2):
                        with pytest.raises(
                            ConfigError, match=r"an earlier read of the .* was cancelled, which ended it"
                        ):
                            await anext(response)
                    if isinstance(response, Stream):
                        assert response.error is not None
                        assert response.error.partial is not None
                        assert response.error.partial.text in ("Hel", "Hello")

    async def read() -> None:
        assert opened is not None
        with anyio.CancelScope() as scope:
            await anext(opened)
            scope.cancel()
            await anext(opened)

    assert await cancelled_at_every_await(attempt) >= 2
    await transport.aclose()


class Endless:
    """A response that never says a word, and that a cancelled read does not close; its transport too."""

    head = ResponseHead(200, [("content-type", "text/event-stream")])
    complete = False
    closed = False

    async def open(self, *_: object, **__: object) -> Endless:
        return self

    def __aiter__(self) -> Endless:
        return self

    async def __anext__(self) -> bytes:
        await anyio.sleep_forever()
        return b""

    async def drain(self, limit: int = 0, seconds: float = 0) -> None:
        raise AssertionError("nothing is waited for after a read that was cancelled")

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize("call", ["stream", "send"])
async def test_a_cancelled_read_closes_over_any_transport(call: str) -> None:
    endless = Endless()
    client = AsyncClient.openai("http://127.0.0.1:1", transport=endless)
    async with client.stream(REQUEST) if call == "stream" else client.send(REQUEST) as response:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(response)
        assert endless.closed
        with pytest.raises(ConfigError, match="was cancelled"):
            await anext(response)


# --- left in any way -----------------------------------------------------------------------------


class Mine(Exception):
    """An exception of the caller."""


async def by_break(response: Stream | RawStream) -> None:
    async for _ in response:
        break


async def by_exception(response: Stream | RawStream) -> None:
    await anext(response)
    raise Mine


async def by_cancellation(response: Stream | RawStream) -> None:
    await anext(response)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anyio.lowlevel.checkpoint()


async def by_aclose(response: Stream | RawStream) -> None:
    await anext(response)
    await response.aclose()


async def by_doing_nothing(response: Stream | RawStream) -> None:
    """Leave before the first read."""


WAYS: list[Callable[[Stream | RawStream], Awaitable[None]]] = [
    by_break,
    by_exception,
    by_cancellation,
    by_aclose,
    by_doing_nothing,
]


@contextlib.asynccontextmanager
async def left(reply: Reply) -> AsyncGenerator[tuple[MockServer, AsyncClient, H11Transport]]:
    """A server and a client; on leaving, within a second, no connection is in use, and the server has none but what is
    kept."""
    with anyio.fail_after(SECONDS):
        async with MockServer(reply, hello()) as server:
            transport = H11Transport()
            yield server, AsyncClient.openai(server.origin, transport=transport), transport
            with anyio.fail_after(1):
                await until(lambda: transport._pool().leased == 0)
                await until(lambda: server.open_connections == transport._pool().idle)
            await transport.aclose()
            await server.wait_closed()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", ["stream", "send"])
async def test_an_answer_that_goes_on_is_closed(
    call: str, way: Callable[[Stream | RawStream], Awaitable[None]]
) -> None:
    async with left(Reply.stream(text("Hel"), end=End.STALL, framing=Framing.CHUNKED)) as (_, client, transport):
        with contextlib.suppress(Mine):
            async with client.stream(REQUEST) if call == "stream" else client.send(REQUEST) as response:
                await way(response)
        assert transport._pool().idle == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", ["stream", "send"])
async def test_a_block_that_is_cancelled_is_closed(
    call: str, way: Callable[[Stream | RawStream], Awaitable[None]]
) -> None:
    """The whole call, by the scope around it, in whatever way its block was being left."""
    async with left(Reply.stream(text("Hel"), end=End.STALL, framing=Framing.CHUNKED)) as (_, client, transport):
        with anyio.CancelScope() as scope, contextlib.suppress(Mine):
            async with client.stream(REQUEST) if call == "stream" else client.send(REQUEST) as response:
                scope.cancel()
                await way(response)
        assert transport._pool().idle == 0


@pytest.mark.parametrize("way", WAYS[:2])
async def test_an_answer_whose_message_had_arrived_is_kept(
    way: Callable[[Stream | RawStream], Awaitable[None]],
) -> None:
    async with left(Reply.stream(b"".join(HELLO), framing=Framing.LENGTH)) as (server, client, transport):
        with contextlib.suppress(Mine):
            async with client.stream(REQUEST) as response:
                await way(response)
        assert transport._pool().idle == 1
        await client.complete(REQUEST)
        assert [request.connection for request in server.requests] == [0, 0]


@pytest.mark.parametrize("framing", list(Framing))
async def test_an_answer_read_to_completed_is_given_back(framing: Framing) -> None:
    async with left(hello(framing=framing)) as (_, client, transport):
        async with client.stream(REQUEST) as stream:
            async for event in stream:
                if isinstance(event, Completed):
                    break
        assert transport._pool().idle == (framing is not Framing.CLOSE)


@pytest.mark.parametrize(
    ("piece", "kind"),
    [
        (b'data: {"error":{"message":"no"}}\n\n', ErrorKind.SERVER),
        (b"data: {broken\n\n", ErrorKind.PROTOCOL),
        (b"data: " + b"x" * 300_000, ErrorKind.RESPONSE_LIMIT),
    ],
    ids=["failure", "broken", "too long"],
)
async def test_an_error_in_the_stream_closes_before_the_block_is_left(piece: bytes, kind: ErrorKind) -> None:
    async with left(Reply.stream(text("Hel"), piece, end=End.STALL)) as (server, client, _):
        async with client.stream(REQUEST) as stream:
            with pytest.raises(SvirError) as caught:
                async for _ in stream:
                    pass
            with anyio.fail_after(1):
                await server.wait_closed()
        assert caught.value.kind is kind

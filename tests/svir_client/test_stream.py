"""Streams over real sockets: what is delivered, what is raised, and when the connection is closed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, RateLimit, Stream
from svir_client.testing import End, Framing, Gate, MockServer, Reply
from svir_core.errors import (
    ConfigError,
    ProtocolError,
    ResponseLimitError,
    ResponseTimeoutError,
    ServerError,
    SvirError,
    TruncatedStreamError,
)
from svir_core.event import Completed, Event, TextDelta
from svir_core.limits import Limits
from svir_core.response import Usage
from tests.svir_client.chat import DONE, FINISH, HELLO, REQUEST, SECONDS, USAGE, cancelled_everywhere, hello, text

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def connected(*replies: Reply, **options: Any) -> AsyncGenerator[tuple[MockServer, AsyncClient]]:
    with anyio.fail_after(SECONDS):
        async with MockServer(*replies) as server, AsyncClient.openai(server.origin, **options) as client:
            yield server, client


async def read(stream: Stream) -> tuple[list[Event], SvirError | None]:
    events: list[Event] = []
    try:
        async for event in stream:
            events.append(event)
    except SvirError as error:
        return events, error
    return events, None


# --- what is delivered ---------------------------------------------------------------------------


async def test_events_then_the_completion() -> None:
    async with connected(Reply.stream(text("Hel"), text("lo"), FINISH, USAGE, DONE)) as (_, client):
        async with client.stream(REQUEST) as stream:
            with pytest.raises(ConfigError, match="not read to its end"):
                _ = stream.completion
            events, error = await read(stream)
        assert error is None
        assert events[:2] == [TextDelta("Hel"), TextDelta("lo")]
        answer = stream.completion
        assert events[2:] == [Completed(answer)]
        assert (answer.text, answer.usage) == ("Hello", Usage(3, 2, 5))


async def test_events_come_as_the_server_sends_them() -> None:
    gate = Gate()
    async with (
        connected(Reply.stream(text("a"), gate, text("b"), FINISH, DONE)) as (_, client),
        client.stream(REQUEST) as stream,
    ):
        assert await anext(stream) == TextDelta("a")
        gate.open()
        assert await anext(stream) == TextDelta("b")
        assert isinstance(await anext(stream), Completed)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_text_alone_may_begin_at_any_event() -> None:
    async with connected(Reply.stream(b"".join(HELLO))) as (_, client):
        async with client.stream(REQUEST) as stream:
            assert await anext(stream) == TextDelta("Hel")
            assert [piece async for piece in stream.text()] == ["lo"]
        assert stream.completion.text == "Hello"


async def test_text_raises_what_the_stream_raises() -> None:
    async with connected(Reply.stream(text("Hel"))) as (_, client), client.stream(REQUEST) as stream:
        pieces = stream.text()
        assert await anext(pieces) == "Hel"
        with pytest.raises(TruncatedStreamError):
            await anext(pieces)


async def test_the_head() -> None:
    headers = {
        "content-type": "text/event-stream",
        "X-Request-Id": "req-7",
        "x-ratelimit-remaining-tokens": "12",
    }
    async with connected(Reply(200, headers, HELLO), hello()) as (_, client):
        async with client.stream(REQUEST) as stream:
            assert (stream.status, stream.request_id) == (200, "req-7")
            assert stream.rate_limit == RateLimit(remaining_tokens=12)
            assert stream.head.get("x-request-id") == "req-7"
        async with client.stream(REQUEST) as stream:
            assert (stream.request_id, stream.rate_limit) == (None, None)


async def test_the_head_of_a_refusal_stays_readable() -> None:
    reply = Reply.document({"error": {"message": "no"}}, status=404, headers={"x-request-id": "req-8"})
    async with connected(reply) as (_, client):
        stream = client.stream(REQUEST)
        with pytest.raises(ConfigError, match="no response yet"):
            _ = stream.status
        with pytest.raises(SvirError):
            await stream.__aenter__()
        assert (stream.status, stream.request_id) == (404, "req-8")
        assert repr(stream) == "<Stream closed>"


# --- errors --------------------------------------------------------------------------------------


async def test_what_came_before_an_error_is_delivered_first_and_the_error_stays() -> None:
    broken = Reply.stream(text("Hel") + text("lo") + b"data: {broken\n\n" + DONE, end=End.STALL)
    async with connected(broken) as (server, client):
        async with client.stream(REQUEST) as stream:
            events, error = await read(stream)
            assert events == [TextDelta("Hel"), TextDelta("lo")]
            assert isinstance(error, ProtocolError)
            assert error.partial is not None
            assert error.partial.text == "Hello"
            assert stream.error is error
            await server.wait_closed()
            assert await read(stream) == ([], error)
        with pytest.raises(ProtocolError):
            _ = stream.completion


@pytest.mark.parametrize(
    "reply",
    [
        Reply.stream(text("Hel")),
        Reply.stream(text("Hel"), end=End.RESET),
        Reply.stream(text("Hel"), FINISH),
        Reply.stream(text("Hel"), text("lo"), framing=Framing.CHUNKED, cut=len(text("Hel"))),
        Reply.stream(text("Hel"), text("lo"), framing=Framing.LENGTH, cut=len(text("Hel"))),
        Reply.stream(text("Hel"), framing=Framing.CHUNKED, end=End.RESET),
    ],
    ids=["closed", "reset", "no_done", "cut_chunked", "cut_length", "reset_chunked"],
)
async def test_a_body_that_is_cut_off_is_truncated_with_what_came(reply: Reply) -> None:
    async with connected(reply) as (server, client):
        async with client.stream(REQUEST) as stream:
            events, error = await read(stream)
        # a reset may overtake the bytes that were sent before it
        assert events == [TextDelta("Hel")] or (reply.end is End.RESET and not events)
        assert isinstance(error, TruncatedStreamError)
        assert error.partial is not None
        assert error.partial.text == "".join(event.text for event in events if isinstance(event, TextDelta))
        await server.wait_closed()


async def test_an_answer_is_whole_though_its_message_is_cut_after_it() -> None:
    reply = Reply.stream(*HELLO, b": more", framing=Framing.CHUNKED, cut=sum(map(len, HELLO)))
    async with connected(reply) as (_, client):
        assert (await client.complete(REQUEST)).text == "Hello"


async def test_a_last_done_without_its_line_end_is_whole() -> None:
    async with connected(Reply.stream(*HELLO[:-1], b"data: [DONE]")) as (_, client):
        assert (await client.complete(REQUEST)).text == "Hello"


async def test_silence_is_a_timeout_with_what_came() -> None:
    async with connected(Reply.stream(text("Hel"), end=End.STALL), idle_timeout=0.2) as (server, client):
        async with client.stream(REQUEST) as stream:
            events, error = await read(stream)
        assert events == [TextDelta("Hel")]
        assert isinstance(error, ResponseTimeoutError)
        assert isinstance(error, TimeoutError)
        assert error.partial is not None
        assert error.partial.text == "Hel"
        await server.wait_closed()


async def test_a_head_that_never_comes_is_a_timeout() -> None:
    async with connected(Reply.silence()) as (server, client):
        with pytest.raises(ResponseTimeoutError):
            await client.stream(REQUEST, idle_timeout=0.2).__aenter__()
        await server.wait_closed()


async def test_a_failure_in_the_stream() -> None:
    async with connected(Reply.stream(text("Hel"), b'data: {"error":{"message":"kaput"}}\n\n')) as (_, client):
        async with client.stream(REQUEST) as stream:
            events, error = await read(stream)
        assert events == [TextDelta("Hel")]
        assert isinstance(error, ServerError)
        assert error.server_message() == "kaput"
        assert "kaput" not in f"{error} {error!r} {stream!r}"


async def test_a_limit_is_a_typed_error_and_closes() -> None:
    reply = Reply.stream(text("Hel"), text("x" * 4096), end=End.STALL)
    async with connected(reply, limits=Limits(event_bytes=1024)) as (server, client):
        with pytest.raises(ResponseLimitError):
            await client.complete(REQUEST)
        await server.wait_closed()


# --- closing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [HELLO, (b"".join(HELLO[:2]),)], ids=["a read each", "one read"])
async def test_a_break_closes_at_once(pieces: tuple[bytes, ...]) -> None:
    async with connected(Reply.stream(*pieces, end=End.STALL)) as (server, client):
        async with client.stream(REQUEST) as stream:
            async for _ in stream:
                break
        with anyio.fail_after(1):
            await server.wait_closed()
        with pytest.raises(ConfigError, match="not read to its end"):
            _ = stream.completion


async def test_an_exception_closes_at_once_and_passes_through() -> None:
    async with connected(Reply.stream(text("Hel"), end=End.STALL)) as (server, client):

        async def reader() -> None:
            async with client.stream(REQUEST) as stream:
                await anext(stream)
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await reader()
        with anyio.fail_after(1):
            await server.wait_closed()


async def test_a_cancelled_reader_closes_at_once() -> None:
    gate = Gate()
    async with connected(Reply.stream(text("Hel"), gate, text("lo"))) as (server, client):

        async def reader(scope: anyio.CancelScope) -> None:
            with scope:
                async with client.stream(REQUEST) as stream:
                    async for _ in stream:
                        pass

        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(reader, scope)
            await gate.reached()
            scope.cancel()
        with anyio.fail_after(1):
            await server.wait_closed()


REFUSAL = Reply.document({"error": {"message": "unknown field"}}, status=400)
SCRIPTS: dict[str, Callable[[], list[Reply]]] = {
    "whole": lambda: [hello()],
    "kept open": lambda: [hello(end=End.STALL)],
    "cut": lambda: [Reply.stream(text("Hel"), text("lo"))],
    "refused": lambda: [Reply.document({}, status=500)],
    "retried": lambda: [REFUSAL, hello()],
}


@pytest.mark.parametrize("script", SCRIPTS)
async def test_cancelled_everywhere_nothing_stays_open(script: str) -> None:
    async def work(client: AsyncClient) -> None:
        with contextlib.suppress(SvirError):
            async with client.stream(REQUEST) as stream:
                async for _ in stream:
                    await anyio.lowlevel.checkpoint()

    assert await cancelled_everywhere(SCRIPTS[script], work) > 3


async def test_a_read_that_is_cancelled_inside_the_block_closes() -> None:
    async with connected(Reply.stream(text("Hel"), end=End.STALL)) as (server, client):
        async with client.stream(REQUEST) as stream:
            await anext(stream)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await anext(stream)
            await server.wait_closed()
            events, error = await read(stream)
            assert await read(stream) == ([], error)
        assert events == []
        assert isinstance(error, ConfigError)
        assert error.detail == "an earlier read of the Stream was cancelled, which ended it"
        assert error.partial is not None
        assert error.partial.text == "Hel"
        with pytest.raises(ConfigError, match="was cancelled"):
            _ = stream.completion


async def test_a_connection_is_kept_when_the_message_has_ended() -> None:
    async with connected(hello(framing=Framing.CHUNKED), hello(framing=Framing.LENGTH), hello()) as (server, client):
        for _ in range(2):
            await client.complete(REQUEST)
        async with client.stream(REQUEST) as stream:
            async for event in stream:
                if isinstance(event, Completed):
                    break
        assert [request.connection for request in server.requests] == [0, 0, 0]


async def test_a_connection_whose_message_does_not_end_is_closed_soon() -> None:
    gate = Gate()
    async with connected(Reply.stream(*HELLO, gate, framing=Framing.CHUNKED), hello()) as (server, client):
        with anyio.fail_after(1):
            assert (await client.complete(REQUEST)).text == "Hello"
            await server.wait_closed()
        await client.complete(REQUEST)
        assert [request.connection for request in server.requests] == [0, 1]


async def test_a_connection_with_too_much_after_the_answer_is_closed() -> None:
    more = Reply.stream(*HELLO, b": " + b"x" * 200_000, framing=Framing.CHUNKED)
    async with connected(more, hello()) as (server, client):
        await client.complete(REQUEST)
        await server.wait_closed()
        await client.complete(REQUEST)
        assert [request.connection for request in server.requests] == [0, 1]


async def test_an_aclose_by_another_task_ends_the_reader() -> None:
    gate = Gate()
    async with connected(Reply.stream(text("Hel"), gate)) as (server, client):
        caught: list[SvirError] = []

        async def reader(stream: Stream) -> None:
            try:
                await anext(stream)
            except SvirError as error:
                caught.append(error)

        async with client.stream(REQUEST) as stream:
            await anext(stream)
            async with anyio.create_task_group() as group:
                group.start_soon(reader, stream)
                await anyio.wait_all_tasks_blocked()
                await stream.aclose()
                await stream.aclose()
            await server.wait_closed()
        assert len(caught) == 1
        assert isinstance(caught[0], ConfigError)


async def test_a_client_that_is_closed_ends_the_reader() -> None:
    async with connected(Reply.stream(text("Hel"), end=End.STALL)) as (server, client):
        seen: list[tuple[list[Event], SvirError | None]] = []

        async def reader(stream: Stream) -> None:
            seen.append(await read(stream))

        async with client.stream(REQUEST) as stream:
            await anext(stream)
            async with anyio.create_task_group() as group:
                group.start_soon(reader, stream)
                await anyio.wait_all_tasks_blocked()
                await client.aclose()
            await server.wait_closed()
        ((events, error),) = seen
        assert events == []
        assert isinstance(error, ConfigError)
        assert error.detail == "the connection was closed on this side: ClosedResourceError"
        assert error.partial is not None
        assert error.partial.text == "Hel"


async def test_an_aclose_while_it_is_opened_ends_the_opening() -> None:
    gate = Gate()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    reply = Reply(body=(gate, head, text("Hel")), raw=b"", end=End.STALL)
    async with connected(reply) as (server, client):
        stream = client.stream(REQUEST)

        async def opener() -> None:
            with pytest.raises(ConfigError, match="while it was being opened"):
                await stream.__aenter__()

        async with anyio.create_task_group() as group:
            group.start_soon(opener)
            await gate.reached()
            await stream.aclose()
            gate.open()
        await server.wait_closed()


# --- misuse --------------------------------------------------------------------------------------


async def test_a_stream_is_entered_once() -> None:
    async with connected(hello()) as (_, client):
        stream = client.stream(REQUEST)
        async with stream:
            with pytest.raises(ConfigError, match="entered once"):
                await stream.__aenter__()
            assert (await anext(stream)) == TextDelta("Hel")
        with pytest.raises(ConfigError, match="entered once"):
            await stream.__aenter__()


async def test_a_stream_is_read_inside_its_block() -> None:
    async with connected(hello()) as (server, client):
        stream = client.stream(REQUEST)
        with pytest.raises(ConfigError, match="before it was entered"):
            await anext(stream)
        assert server.connections == ()
        async with stream:
            await anext(stream)
        with pytest.raises(ConfigError, match="after it was closed"):
            await anext(stream)
        with pytest.raises(ConfigError, match="not read to its end"):
            _ = stream.completion


async def test_a_stream_closed_before_it_was_entered() -> None:
    async with connected(hello()) as (server, client):
        stream = client.stream(REQUEST)
        await stream.aclose()
        with pytest.raises(ConfigError, match="entered once"):
            await stream.__aenter__()
        assert server.connections == ()


async def test_two_tasks_cannot_read_one_stream() -> None:
    gate = Gate()
    async with (
        connected(Reply.stream(gate, *HELLO)) as (_, client),
        client.stream(REQUEST) as stream,
        anyio.create_task_group() as group,
    ):
        group.start_soon(anext, stream)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ConfigError, match="two tasks"):
            await anext(stream)
        gate.open()


async def test_its_repr_says_its_state_alone() -> None:
    async with connected(hello()) as (_, client):
        stream = client.stream(REQUEST, headers={"x-tenant": "acme"})
        assert repr(stream) == "<Stream new>"
        async with stream:
            assert repr(stream) == "<Stream open>"
        assert repr(stream) == "<Stream closed>"

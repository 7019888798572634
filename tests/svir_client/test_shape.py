"""What anyone may ask of a stream: clocks, inspectors, a look ahead, a call at its end; blocking ones too."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from svir_client import AsyncClient, Client, Next, Stream, SyncStream
from svir_client.testing import End, Gate, MockServer, Reply
from svir_core.errors import ConfigError, ResponseTimeoutError, ServerError, TransportError, TruncatedStreamError
from svir_core.event import Completed, Event, TextDelta
from svir_core.request import Request
from tests.svir_client.chat import DONE, FINISH, HELLO, REQUEST, SECONDS, hello, text
from tests.svir_client.layers.calls import Clock, opened, scripted, streaming

pytestmark = pytest.mark.anyio

SHORT = 0.05
"""Seconds of real time that a clock may take to run out: nothing comes before it does."""


class Mine(Exception):
    """An exception of a callback."""


def refuse(_: object) -> None:
    raise Mine


# --- peek ----------------------------------------------------------------------------------------


async def test_peek_takes_nothing() -> None:
    async with streaming(Reply.stream(b"".join(HELLO[:2]), *HELLO[2:])) as stream:
        seen: list[Event | None] = []
        for _ in range(3):
            for _ in range(3):
                seen.append(await stream.peek())
            assert await anext(stream) == seen[-1]
        assert seen[:6] == [TextDelta("Hel")] * 3 + [TextDelta("lo")] * 3
        assert isinstance(seen[6], Completed)
        assert await stream.peek() is None
        assert stream.completion.text == "Hello"


async def test_an_answer_that_was_looked_at_is_not_yet_handed_over() -> None:
    async with streaming(Reply.stream(FINISH, DONE)) as stream:
        assert isinstance(await stream.peek(), Completed)
        with pytest.raises(ConfigError, match="not read to its end"):
            _ = stream.completion


async def test_peek_raises_what_iterating_would() -> None:
    async with streaming(Reply.stream(text("Hel"))) as stream:
        assert await stream.peek() == TextDelta("Hel")
        await anext(stream)
        for _ in range(2):
            with pytest.raises(TruncatedStreamError):
                await stream.peek()
        with pytest.raises(TruncatedStreamError):
            await anext(stream)
        assert isinstance(stream.error, TruncatedStreamError)


async def test_peek_outside_the_block() -> None:
    async with scripted(hello()) as (_, client):
        stream = client.stream(REQUEST)
        with pytest.raises(ConfigError, match="before it was entered"):
            await stream.peek()
        async with stream:
            async for _ in stream:
                pass
        with pytest.raises(ConfigError, match="after it was closed"):
            await stream.peek()


# --- clocks --------------------------------------------------------------------------------------


def clocks(stream: Stream | SyncStream, clock: Clock) -> list[Callable[[], None]]:
    return [
        lambda: stream.first_token_by(clock.now + 5, clock=clock),
        lambda: stream.complete_by(clock.now + 5, clock=clock),
    ]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("when", ["before", "inside"])
async def test_a_deadline_of_anyone(number: int, when: str) -> None:
    clock = Clock()
    async with scripted(hello()) as (_, client):
        stream = client.stream(REQUEST)
        if when == "before":
            clocks(stream, clock)[number]()
        async with stream:
            if when == "inside":
                clocks(stream, clock)[number]()
            clock.now += 5
            with pytest.raises(ResponseTimeoutError, match="in time") as caught:
                await anext(stream)
        assert caught.value.partial is not None
        assert stream.error is caught.value


async def test_a_deadline_that_has_passed_as_the_answer_is_whole() -> None:
    clock = Clock()
    async with streaming(hello()) as stream:
        stream.complete_by(clock.now + 5, clock=clock)
        async for event in stream:
            if isinstance(event, Completed):
                clock.now += 9
        assert stream.completion.text == "Hello"


async def test_the_time_of_day_does_not_matter_by_default() -> None:
    async with streaming(hello()) as stream:
        stream.first_token_by(time.monotonic() + SECONDS)
        stream.complete_by(math.inf)
        stream.idle_timeout(SECONDS)
        stream.stalled_after(SECONDS)
        assert [piece async for piece in stream.text()] == ["Hel", "lo"]


@pytest.mark.parametrize("shape", ["idle_timeout", "stalled_after"])
async def test_a_silence_of_anyone(shape: str) -> None:
    async with streaming(Reply.stream(text("Hel"), end=End.STALL)) as stream:
        getattr(stream, shape)(SHORT)
        getattr(stream, shape)(SECONDS)
        assert await anext(stream) == TextDelta("Hel")
        with pytest.raises(ResponseTimeoutError, match=r"for 0\.05 s") as caught:
            await anext(stream)
        assert caught.value.partial is not None
        assert caught.value.partial.text == "Hel"


async def test_the_server_sees_that_a_clock_ran_out() -> None:
    with anyio.fail_after(SECONDS):
        async with (
            MockServer(Reply.stream(text("Hel"), end=End.STALL)) as server,
            AsyncClient.openai(server.origin) as client,
            client.stream(REQUEST) as stream,
        ):
            stream.idle_timeout(SHORT)
            with pytest.raises(ResponseTimeoutError):
                async for _ in stream:
                    pass
            await server.wait_closed()


@pytest.mark.parametrize(
    ("method", "value", "options"),
    [
        ("first_token_by", "soon", {}),
        ("complete_by", math.nan, {}),
        ("complete_by", True, {}),
        ("complete_by", 1.0, {"clock": 1.0}),
        ("stalled_after", 1.0, {"clock": None}),
        ("idle_timeout", 0, {}),
        ("idle_timeout", -1, {}),
        ("stalled_after", math.nan, {}),
        ("inspect", None, {}),
        ("on_close", "print", {}),
    ],
)
async def test_wrong_values(method: str, value: object, options: dict[str, object]) -> None:
    async with scripted() as (_, client):
        with pytest.raises(ConfigError):
            getattr(client.stream(REQUEST), method)(value, **options)


async def test_what_was_asked_before_it_was_entered_holds_behind_layers() -> None:
    """The layer looked ahead: what it read is new to the inspectors of the caller."""

    async def looking(request: Request, next: Next) -> Stream:
        stream = await next(request)
        stream.inspect(lambda event: seen.append(("layer", event)))
        stream.on_close(lambda _: ended.append("layer"))
        await stream.peek()
        return stream

    clock = Clock()
    seen: list[tuple[str, Event]] = []
    ended: list[str] = []
    async with scripted(Reply.stream(HELLO[0] + HELLO[1], *HELLO[2:]), layers=[looking]) as (_, client):
        stream = client.stream(REQUEST)
        stream.inspect(lambda event: seen.append(("caller", event)))
        stream.on_close(lambda _: ended.append("caller"))
        stream.complete_by(clock.now + 5, clock=clock)
        async with stream:
            first, second = TextDelta("Hel"), TextDelta("lo")
            assert seen == [("layer", first), ("layer", second), ("caller", first), ("caller", second)]
            assert [await anext(stream), await anext(stream)] == [first, second]
            clock.now += 5
            with pytest.raises(ResponseTimeoutError, match="not whole in time"):
                await anext(stream)
    assert ended == ["layer", "caller"]


async def test_what_a_layer_asks_of_a_stream_that_it_gave_on_is_asked_of_the_callers() -> None:
    kept: list[Stream] = []

    async def keeping(request: Request, next: Next) -> Stream:
        kept.append(await next(request))
        return kept[0]

    clock = Clock()
    seen: list[Event] = []
    async with streaming(Reply.stream(b"".join(HELLO[:2]), end=End.STALL), layers=[keeping]) as stream:
        assert await anext(stream) == TextDelta("Hel")
        kept[0].inspect(seen.append)
        assert seen == [TextDelta("lo")]
        kept[0].first_token_by(clock.now - 1, clock=clock)
        kept[0].complete_by(clock.now, clock=clock)
        assert await anext(stream) == TextDelta("lo")
        with pytest.raises(ResponseTimeoutError, match="not whole in time") as caught:
            await anext(stream)
    assert kept[0].error is caught.value


# --- inspect -------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "inside", "later"])
async def test_an_inspector_sees_every_event_that_is_not_yet_handed_over(when: str) -> None:
    seen: list[Event] = []
    async with scripted(Reply.stream(b"".join(HELLO))) as (_, client):
        stream = client.stream(REQUEST)
        if when == "before":
            stream.inspect(seen.append)
        async with stream:
            if when == "inside":
                stream.inspect(seen.append)
            first = await anext(stream)
            if when == "later":
                stream.inspect(seen.append)
                assert len(seen) == 2
            rest = [event async for event in stream]
    assert seen == ([first] if when != "later" else []) + rest


async def test_events_are_told_before_they_are_handed_over() -> None:
    seen: list[Event] = []
    async with streaming(Reply.stream(HELLO[0] + HELLO[1], *HELLO[2:])) as stream:
        stream.inspect(seen.append)
        assert await anext(stream) == TextDelta("Hel")
        assert seen == [TextDelta("Hel"), TextDelta("lo")]


async def test_what_came_before_an_error_is_told() -> None:
    seen: list[Event] = []
    async with streaming(Reply.stream(text("Hel") + b'data: {"error":{"message":"kaput"}}\n\n')) as stream:
        stream.inspect(seen.append)
        with pytest.raises(ServerError):
            async for _ in stream:
                pass
    assert seen == [TextDelta("Hel")]


async def test_an_inspector_that_raises_ends_the_stream() -> None:
    async with scripted(Reply.stream(*HELLO[:2], end=End.STALL)) as (transport, client):
        async with client.stream(REQUEST) as stream:
            assert await anext(stream) == TextDelta("Hel")
            stream.inspect(refuse)
            with pytest.raises(Mine):
                await anext(stream)
            assert transport.open_connections == 0
            for _ in range(2):
                with pytest.raises(ConfigError, match="an inspector of the Stream raised"):
                    await anext(stream)
        assert stream.error is not None
        assert stream.error.partial is not None
        assert stream.error.partial.text == "Hello"


async def test_an_inspector_that_raises_at_once() -> None:
    async with streaming(Reply.stream(b"".join(HELLO))) as stream:
        await stream.peek()
        with pytest.raises(Mine):
            stream.inspect(refuse)


# --- on_close ------------------------------------------------------------------------------------


async def by_break(stream: Stream) -> None:
    async for _ in stream:
        break


async def by_reading(stream: Stream) -> None:
    async for _ in stream:
        pass


async def by_exception(stream: Stream) -> None:
    raise ZeroDivisionError


async def by_aclose(stream: Stream) -> None:
    await stream.aclose()
    await stream.aclose()


async def by_cancellation(stream: Stream) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anext(stream)


@pytest.mark.parametrize("way", [by_break, by_reading, by_exception, by_aclose, by_cancellation])
async def test_called_once_when_it_is_closed(way: Callable[[Stream], Any]) -> None:
    ended: list[object] = []
    async with scripted(hello()) as (_, client):
        stream = client.stream(REQUEST)
        stream.on_close(ended.append)
        with contextlib.suppress(ZeroDivisionError):
            async with stream:
                stream.on_close(lambda _: ended.append("inside"))
                assert ended == []
                await way(stream)
        assert ended == [stream, "inside"]
        stream.on_close(lambda _: ended.append("late"))
        assert ended == [stream, "inside", "late"]


async def test_called_when_it_could_not_be_opened() -> None:
    ended: list[object] = []
    async with scripted(TransportError("reset")) as (_, client):
        stream = client.stream(REQUEST)
        stream.on_close(ended.append)
        with pytest.raises(TransportError):
            await opened(stream)
    assert ended == [stream]


async def test_what_a_callback_raises_comes_after_the_last() -> None:
    ended: list[object] = []
    async with scripted(Reply.stream(text("Hel"), end=End.STALL)) as (transport, client):
        stream = client.stream(REQUEST)
        stream.on_close(refuse)
        stream.on_close(ended.append)
        with pytest.raises(Mine):
            async with stream:
                pass
        assert ended == [stream]
        assert transport.open_connections == 0
        await stream.aclose()


# --- the blocking twin ---------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def blocking(*replies: Reply, **options: Any) -> AsyncGenerator[Callable[[Callable[[SyncStream], Any]], Any]]:
    """Runs a function with a new stream of a blocking client, in a thread."""
    with anyio.fail_after(SECONDS):
        async with MockServer(*replies) as server:

            def work(use: Callable[[SyncStream], Any]) -> Any:
                with Client.openai(server.origin, **options) as client:
                    return use(client.stream(REQUEST))

            async def run(use: Callable[[SyncStream], Any]) -> Any:
                return await anyio.to_thread.run_sync(work, use)

            yield run


async def test_a_blocking_stream_is_looked_at_and_watched_by_its_own_thread() -> None:
    threads: set[int] = set()
    seen: list[Event] = []
    ended: list[SyncStream] = []

    def watch(event: Event) -> None:
        threads.add(threading.get_ident())
        seen.append(event)

    def use(stream: SyncStream) -> list[Event]:
        stream.inspect(watch)
        stream.on_close(ended.append)
        with stream:
            assert stream.peek() == stream.peek() == TextDelta("Hel")
            events = list(stream)
            assert stream.peek() is None
            assert threads == {threading.get_ident()}
            assert ended == []
        assert ended == [stream]
        stream.on_close(ended.append)
        assert ended == [stream, stream]
        return events

    async with blocking(hello()) as run:
        assert await run(use) == seen
    assert len(seen) == 3


@pytest.mark.parametrize("number", [0, 1])
async def test_a_deadline_of_a_blocking_stream(number: int) -> None:
    def use(stream: SyncStream) -> None:
        clock = Clock()
        clocks(stream, clock)[number]()
        clock.now += 5
        with stream, pytest.raises(ResponseTimeoutError, match="in time"):
            next(stream)

    async with blocking(hello()) as run:
        await run(use)


@pytest.mark.parametrize("shape", ["idle_timeout", "stalled_after"])
async def test_a_silence_of_a_blocking_stream(shape: str) -> None:
    def use(stream: SyncStream) -> None:
        getattr(stream, shape)(SHORT)
        with stream:
            assert next(stream) == TextDelta("Hel")
            with pytest.raises(ResponseTimeoutError, match=r"for 0\.05 s"):
                stream.peek()

    async with blocking(Reply.stream(text("Hel"), end=End.STALL)) as run:
        await run(use)


async def test_an_inspector_that_raises_ends_a_blocking_stream() -> None:
    def use(stream: SyncStream) -> None:
        stream.inspect(refuse)
        with stream:
            with pytest.raises(Mine):
                next(stream)
            with pytest.raises(ConfigError, match="after it was closed"):
                next(stream)

    async with blocking(Reply.stream(text("Hel"), end=End.STALL)) as run:
        await run(use)


async def test_a_blocking_stream_that_could_not_be_opened_is_closed() -> None:
    ended: list[SyncStream] = []

    def use(stream: SyncStream) -> None:
        stream.on_close(ended.append)
        with pytest.raises(TransportError), stream:
            pass
        assert ended == [stream]

    async with blocking(Reply.document({}, status=503)) as run:
        await run(use)


async def test_an_event_that_comes_late_is_looked_at() -> None:
    gate = Gate()
    async with streaming(Reply.stream(text("Hel"), gate, *HELLO[1:])) as stream:
        assert await anext(stream) == TextDelta("Hel")
        found: list[Event | None] = []
        async with anyio.create_task_group() as tasks:

            async def look() -> None:
                found.append(await stream.peek())

            tasks.start_soon(look)
            await gate.reached()
            with pytest.raises(ConfigError, match="two tasks read"):
                await anext(stream)
            gate.open()
        assert found == [TextDelta("lo")]

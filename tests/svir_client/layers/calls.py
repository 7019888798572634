"""What the tests of layers share: a client in memory, a clock that stands still, and what a call came to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio
import anyio.lowlevel

from svir_client import AsyncClient, Next, Stream
from svir_client.testing import Reply, ScriptedTransport
from svir_core.errors import ServerError, SvirError
from svir_core.event import Event
from svir_core.request import Request
from tests.svir_client.chat import REQUEST, SECONDS

Outcome = Reply | SvirError
LayerFunction = Callable[[Request, Next], Any]
URL = "http://127.0.0.1:1"


class Clock:
    """Seconds that pass only in ``sleep``, and as a test says. ``waits`` are what was asked of ``sleep``."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await anyio.lowlevel.checkpoint()
        self.now += seconds


@contextlib.asynccontextmanager
async def scripted(
    *outcomes: Outcome, layers: Any = (), **options: Any
) -> AsyncGenerator[tuple[ScriptedTransport, AsyncClient]]:
    """A client without sockets; on leaving, every response is closed and every reply was asked for."""
    with anyio.fail_after(SECONDS):
        async with (
            contextlib.aclosing(ScriptedTransport(*outcomes)) as transport,
            AsyncClient.openai(URL, transport=transport, layers=layers, **options) as client,
        ):
            yield transport, client
            assert transport.open_connections == 0
            assert (transport.unscripted, transport.unasked) == (0, 0)


async def read(client: AsyncClient, request: Request = REQUEST) -> tuple[list[Event], BaseException | None]:
    """The events of a call, and what it raised, wherever."""
    events: list[Event] = []
    try:
        async with client.stream(request) as stream:
            async for event in stream:
                events.append(event)
    except Exception as error:  # noqa: BLE001 - what was raised is what a test looks at
        return events, error
    return events, None


async def opened(stream: Stream) -> Stream:
    return await stream.__aenter__()


async def became(client: AsyncClient, whole: str) -> str:
    """What a layer made of a call: raised its error, gave its broken stream on, or else ``whole``."""
    stream = client.stream(REQUEST)
    try:
        async with stream:
            text = "".join([piece async for piece in stream.text()])
    except SvirError as error:
        return "given on" if stream.error is error else "raised"
    return whole if text == "Hello" else f"an answer of {text!r}"


@contextlib.asynccontextmanager
async def streaming(*outcomes: Outcome, layers: Any = ()) -> AsyncGenerator[Stream]:
    """The stream of one call, inside its block."""
    async with scripted(*outcomes, layers=layers) as (_, client), client.stream(REQUEST) as stream:
        yield stream


async def inspected(request: Request, next: Next) -> Stream:
    """A layer whose inspector raises at the first event what may be repeated and falls back."""
    stream = await next(request)

    def refuse(event: Event) -> None:
        raise ServerError("refused by an inspector", retryable=True)

    stream.inspect(refuse)
    return stream


async def read_whole(request: Request, next: Next) -> Stream:
    """A layer that reads the whole answer before it gives it on."""
    stream = await next(request)
    async for _ in stream:
        pass
    return stream


async def read_one(request: Request, next: Next) -> Stream:
    """A layer that takes the first event, and gives the rest on."""
    stream = await next(request)
    await anext(stream)
    return stream


async def repeated_inside(request: Request, next: Next) -> Stream:
    """A layer that reads an answer and then asks for another by itself."""
    await anext(await next(request))
    return await next(request)

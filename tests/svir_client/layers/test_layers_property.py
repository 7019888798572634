"""Any layers, in any order, before any server: one answer at most is told, and nothing is left open."""

from __future__ import annotations

import contextlib
from typing import Any

import anyio
from hypothesis import given
from hypothesis import strategies as st

from svir_client import AsyncClient, Fallback, Layer, Limit, Next, Retry, Stream, Timeout
from svir_client.testing import End, Reply, ScriptedTransport
from svir_core.errors import ConfigError, RateLimitedError, SvirError, TransportError
from svir_core.event import Completed, TextDelta
from svir_core.request import Request
from tests.svir_client.chat import REQUEST, SECONDS, hello, text
from tests.svir_client.layers.calls import URL, Clock

OUTCOMES: dict[str, Any] = {
    "whole": hello(),
    "unsent": TransportError("refused", unsent=True),
    "reset": TransportError("reset"),
    "down": Reply.document({}, status=503, headers={"retry-after": "3"}),
    "limited": Reply.document({}, status=429, headers={"retry-after": "9"}),
    "denied": Reply.document({}, status=401),
    "broken": Reply.stream(b": hold on\n\n", end=End.RESET),
    "cut": Reply.stream(text("Hel"), end=End.RESET),
    "kaput": Reply.stream(text("Hel"), b'data: {"error":{"message":"kaput"}}\n\n'),
    "odd": Reply.stream(b"data: {\n\n"),
    "config": ConfigError("mine"),
    "exhausted": hello(headers={"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "7s"}),
}
LAYERS = ("connect", "transient", "first event", "clocks", "limit", "rate", "fallback", "peek", "twice", "first")


async def peeking(request: Request, next: Next) -> Stream:
    stream = await next(request)
    await stream.peek()
    return stream


async def second(request: Request, next: Next) -> Stream:
    with contextlib.suppress(RateLimitedError):
        await next(request)
    return await next(request)


async def first(request: Request, next: Next) -> Stream:
    stream = await next(request)
    with contextlib.suppress(SvirError):
        await next(request)
    return stream


def made(name: str, clock: Clock, spare: AsyncClient) -> Layer:
    again: dict[str, Any] = {"sleep": clock.sleep, "random": lambda: 0.5}
    layers: dict[str, Layer] = {
        "connect": Retry.connect(2, **again),
        "transient": Retry.transient(2, **again),
        "first event": Retry.transient(2, until="first_event", clock=clock, within=60, **again),
        "clocks": Timeout.total(1e6, clock=clock),
        "limit": Limit(concurrency=1, clock=clock, sleep=clock.sleep),
        "rate": Limit(rate=(1, 5.0), clock=clock, sleep=clock.sleep),
        "fallback": Fallback(spare, until="first_event"),
        "peek": peeking,
        "twice": second,
        "first": first,
    }
    return layers[name]


@given(
    st.lists(st.sampled_from(LAYERS), max_size=4, unique=True),
    st.lists(st.sampled_from(list(OUTCOMES)), max_size=12),
    st.sampled_from(["asyncio", "trio"]),
    st.sampled_from(["read", "break", "cancel"]),
)
def test_one_answer_and_nothing_left(names: list[str], outcomes: list[str], backend: str, way: str) -> None:
    if {"twice", "first"} & set(names):
        names = [name for name in names if name != "limit"]  # a second stream beside the first waits for its slot

    async def work() -> None:
        clock = Clock()
        script = iter(outcomes)
        with anyio.fail_after(SECONDS):
            async with (
                contextlib.aclosing(ScriptedTransport(answer=lambda _: OUTCOMES[next(script, "whole")])) as transport,
                contextlib.aclosing(ScriptedTransport(answer=lambda _: hello())) as other,
            ):
                spare = AsyncClient.openai(URL, transport=other)
                layers = [made(name, clock, spare) for name in names]
                client = AsyncClient.openai(URL, transport=transport, layers=layers)
                closed: list[Stream] = []
                told: list[str] = []
                stream = client.stream(REQUEST)
                stream.on_close(closed.append)
                with contextlib.suppress(SvirError), anyio.CancelScope() as scope:
                    async with stream:
                        async for event in stream:
                            if isinstance(event, TextDelta):
                                told.append(event.text)
                            if way == "cancel":
                                scope.cancel()
                            if way == "break":
                                break
                            assert not isinstance(event, Completed) or told == ["Hel", "lo"]
                assert told == ["Hel", "lo"][: len(told)]
                assert closed == [stream]
                assert (transport.open_connections, other.open_connections) == (0, 0)
                for layer in layers:
                    if isinstance(layer, Limit):
                        assert layer._turn._free == 1
                        assert layer._slots is None or layer._slots._free == 1

    anyio.run(work, backend=backend)

"""What the scripted server says in the client's tests, and a task that is cancelled at a chosen await."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import anyio

from svir_client import AsyncClient
from svir_client.testing import MockServer, Reply
from svir_core.request import Request
from svir_transport.h11 import H11Transport

REQUEST = Request("m").user("hi")
SECONDS = 20
"""The limit of every wait: long enough for a busy machine, and never reached by a test that passes."""


def chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> bytes:
    document = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def text(piece: str) -> bytes:
    return chunk({"content": piece})


DONE = b"data: [DONE]\n\n"
FINISH = chunk({}, "stop")
HELLO = (text("Hel"), text("lo"), FINISH, DONE)
"""An answer of two deltas, a read each."""

USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'


def hello(**settings: Any) -> Reply:
    return Reply.stream(*HELLO, **settings)


class Steps:
    """Awaits something and cancels ``scope`` as it suspends for the ``cancel_at``-th time, counted from 0."""

    def __init__(self, work: Coroutine[Any, Any, Any], scope: anyio.CancelScope, cancel_at: int) -> None:
        self._work = work
        self._scope = scope
        self._cancel_at = cancel_at
        self.taken = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work
        resume: Callable[[Any], Any] = steps.send
        argument: Any = None
        while True:
            try:
                wanted = resume(argument)
            except StopIteration as stop:
                return stop.value
            if self.taken == self._cancel_at:
                self._scope.cancel()
            self.taken += 1
            try:
                argument = yield wanted
                resume = steps.send
            except BaseException as error:  # noqa: BLE001 - whatever the event loop throws goes on to the coroutine
                argument, resume = error, steps.throw


async def cancelled_at_every_await(script: Callable[[], list[Reply]], work: Callable[[AsyncClient], Any]) -> int:
    """Run ``work`` again and again, cancelled one await later each time, until it gets through.

    Each time the server must see its connections closed, and the only slot of the transport's pool must
    be free for another call. Returns how many awaits there were. A reply that ends with its connection
    is asked for, since a connection whose message has ended is rightly kept.
    """
    step = 0
    while True:
        async with MockServer(*script()) as server, MockServer(hello()) as other:
            transport = H11Transport(max_connections=1)
            with anyio.fail_after(SECONDS):
                with anyio.CancelScope() as scope:
                    await Steps(work(AsyncClient.openai(server.origin, transport=transport)), scope, step)
                await server.wait_closed()
                client = AsyncClient.openai(other.origin, transport=transport)
                assert (await client.complete(REQUEST)).text == "Hello"
            await transport.aclose()
        if not scope.cancelled_caught:
            return step
        step += 1

"""What the scripted server says in the client's tests, and a call that is cancelled at each of its awaits."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel

from soak import measure
from svir_client import AsyncClient
from svir_client.testing import MockServer, Reply, cancelled_at_every_await
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


async def cancelled_everywhere(
    script: Callable[[], list[Reply]], work: Callable[[AsyncClient], Coroutine[Any, Any, object]], **options: Any
) -> int:
    """Cancel ``work`` at each of its awaits, with a server that says ``script`` each time; returns how many there are.

    Each time no slot is held, the server has no connection but the kept one, and the only slot serves another call;
    when all is closed, there are as many file descriptors and tasks as before.
    """
    await anyio.wait_all_tasks_blocked()
    descriptors, tasks = measure.open_descriptors(), measure.tasks()

    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        with anyio.fail_after(SECONDS):
            async with MockServer(*script()) as server, MockServer(hello()) as other:
                transport = H11Transport(max_connections=1)
                pool = transport._pool()
                yield work(AsyncClient.openai(server.origin, transport=transport, **options))
                await until(lambda: pool.leased == 0 and server.open_connections == pool.idle)
                client = AsyncClient.openai(other.origin, transport=transport)
                assert (await client.complete(REQUEST)).text == "Hello"
                await transport.aclose()
            await until(lambda: (measure.open_descriptors(), measure.tasks()) == (descriptors, tasks))

    return await cancelled_at_every_await(attempt)


async def until(holds: Callable[[], bool]) -> None:
    """Pass through the event loop until ``holds``; the limit is the caller's."""
    while not holds():
        await anyio.lowlevel.checkpoint()

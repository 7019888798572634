"""What a strict type checker says of layers: checked by mypy and pyright in ``make check``, never run."""

from __future__ import annotations

from typing import assert_type

from svir_client import AsyncClient, Client, Fallback, Layer, Limit, Next, Retry, Stream, SyncStream, Timeout, wrap
from svir_core.event import Event
from svir_core.request import Request


@wrap
async def decorated(request: Request, next: Next) -> Stream:
    assert_type(next.sent, int)
    stream = await next(request)
    assert_type(stream, Stream)
    assert_type(await stream.peek(), Event | None)
    return stream


async def plain(request: Request, next: Next) -> Stream:
    return await next(request)


class Counting:
    """A layer by its shape alone."""

    async def __call__(self, request: Request, next: Next) -> Stream:
        return await next(request)


def layers(spare: AsyncClient) -> None:
    assert_type(decorated, Layer)
    inferred = [Retry.connect(3), Timeout.first_token(120), Limit(concurrency=8, rate=(60, 60.0)), Fallback(spare)]
    AsyncClient.openai("http://127.0.0.1:1", layers=[*inferred, decorated, plain, Counting()])
    Client.openai("http://127.0.0.1:1", layers=(Retry.transient(3, until="first_event", within=60),))
    AsyncClient.from_env(layers=[Timeout.idle(30), Timeout.total(60), Timeout.stalled(9)])


def shapes(stream: Stream, blocking: SyncStream) -> None:
    assert_type(stream.inspect(lambda event: assert_type(event, Event)), None)
    assert_type(stream.on_close(lambda closed: assert_type(closed, Stream)), None)
    assert_type(blocking.on_close(lambda closed: assert_type(closed, SyncStream)), None)
    assert_type(blocking.peek(), Event | None)
    stream.complete_by(1.0)
    stream.first_token_by(1.0, clock=lambda: 0.0)

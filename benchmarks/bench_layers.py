"""What layers cost: CPU time of a call and of each of its events, without layers and with several.

All ways run in one process, interleaved, over a transport in memory that hands over one event with each read.
"no layers" runs twice: how far the two differ is how far to trust the others.

    python -m benchmarks.bench_layers [--events 2000] [--calls 20] [--rounds 7]
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from benchmarks.bench_decode import text
from benchmarks.measure import ROUNDS, Samples, interleaved
from svir_client import AsyncClient, Layer, Limit, Next, Retry, Stream, Timeout, Trace, TransportResponse, wrap
from svir_client.tracing import memory
from svir_core.http_message import HttpRequest, ResponseHead
from svir_core.request import Request

if TYPE_CHECKING:
    from typing import Self

REQUEST: Final = Request("m").user("hi")
LONG: Final = 3600.0


class Memory:
    """A transport whose every answer is the same pieces, one read each."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float | None = None,
    ) -> TransportResponse:
        return Answer(self._pieces)

    async def aclose(self) -> None:
        pass


class Answer:
    complete = True

    def __init__(self, pieces: list[bytes]) -> None:
        self.head = ResponseHead(200, [("content-type", "text/event-stream")])
        self._pieces = iter(pieces)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration

    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        pass

    async def aclose(self) -> None:
        pass


@wrap
async def passing(request: Request, next: Next) -> Stream:
    return await next(request)


WAYS: Final[dict[str, Callable[[], list[Layer]]]] = {
    "no layers": list,
    "no layers, again": list,
    "one that does nothing": lambda: [passing],
    "Retry.transient": lambda: [Retry.transient(3)],
    "Timeout.total": lambda: [Timeout.total(LONG)],
    "Limit": lambda: [Limit(concurrency=8)],
    "Trace(memory())": lambda: [Trace(memory())],
    "Retry, three clocks, Limit": lambda: [
        Retry.transient(3),
        Timeout.first_token(LONG),
        Timeout.total(LONG),
        Timeout.stalled(LONG),
        Limit(concurrency=8),
    ],
}


async def calls(layers: list[Layer], pieces: list[bytes], count: int) -> None:
    async with AsyncClient.openai("http://127.0.0.1:1", transport=Memory(pieces), layers=layers) as client:
        for _ in range(count):
            async with client.stream(REQUEST) as stream:
                async for _ in stream:
                    pass


def run(make: Callable[[], list[Layer]], pieces: list[bytes], count: int) -> None:
    anyio.run(calls, make(), pieces, count)


def measured(pieces: list[bytes], count: int, rounds: int) -> Samples:
    return interleaved({name: partial(run, make, pieces, count) for name, make in WAYS.items()}, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description="layers, CPU microseconds")
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    gc.collect()
    gc.freeze()  # what the libraries hold is no part of the measure
    base = next(iter(WAYS))
    done = b"data: [DONE]\n\n"
    for what, events, count in (
        ("event, a read each", options.events, options.calls),
        ("call of one event", 1, options.events * options.calls // 40),
    ):
        pieces = [*text(events), done]
        samples = measured(pieces, count, options.rounds)
        of = count * (len(pieces) if events > 1 else 1)
        print(f"{'CPU us per ' + what:<32} {'us':>8} {'ratio':>7}")
        for way in WAYS:
            print(f"{way:<32} {1e6 * samples.median(way) / of:8.2f} {samples.ratio(way, base):7.2f}")


if __name__ == "__main__":
    main()

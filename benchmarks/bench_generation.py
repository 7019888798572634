"""What a generation costs beside its calls: CPU time of each event, by ``client.stream`` and by ``generate_stream``.

Both ways run in one process, interleaved, over a transport in memory, with one event in each read and with 64.

    python -m benchmarks.bench_generation [--events 2000] [--calls 10] [--rounds 7]
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio

from benchmarks.bench_decode import text
from benchmarks.bench_layers import REQUEST, Memory
from benchmarks.measure import ROUNDS, interleaved
from svir_client import AsyncClient, generate_stream

READS: Final = (1, 64)
"""Events in a read: of a server that is slow, and of one on the same machine."""


async def streamed(client: AsyncClient) -> None:
    async with client.stream(REQUEST) as stream:
        async for _ in stream:
            pass


async def generated(client: AsyncClient) -> None:
    async with generate_stream(client, None, "hi", model="m") as run:
        async for _ in run:
            pass


WAYS: Final[dict[str, Callable[[AsyncClient], Awaitable[None]]]] = {
    "client.stream": streamed,
    "client.stream, again": streamed,
    "generate_stream": generated,
}


async def calls(way: Callable[[AsyncClient], Awaitable[None]], pieces: list[bytes], count: int) -> None:
    async with AsyncClient.openai("http://127.0.0.1:1", transport=Memory(pieces)) as client:
        for _ in range(count):
            await way(client)


def run(way: Callable[[AsyncClient], Awaitable[None]], pieces: list[bytes], count: int) -> None:
    anyio.run(calls, way, pieces, count)


def main() -> None:
    parser = argparse.ArgumentParser(description="generations, CPU microseconds")
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    gc.collect()
    gc.freeze()  # what the libraries hold is no part of the measure
    base = next(iter(WAYS))
    events = [*text(options.events), b"data: [DONE]\n\n"]
    for read in READS:
        pieces = [b"".join(events[start : start + read]) for start in range(0, len(events), read)]
        samples = interleaved(
            {name: partial(run, way, pieces, options.calls) for name, way in WAYS.items()}, options.rounds
        )
        print(f"{f'CPU us per event, {read} in a read':<32} {'us':>8} {'ratio':>7}")
        for name in WAYS:
            of = options.calls * len(events)
            print(f"{name:<32} {1e6 * samples.median(name) / of:8.2f} {samples.ratio(name, base):7.2f}")


if __name__ == "__main__":
    main()

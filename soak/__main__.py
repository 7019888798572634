"""``python -m soak``: a load for so many minutes, random cancellation rounds, or killed writers; see docs/soak.md."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence

import anyio
import attrs

from soak import measure
from soak.kills import run_kills
from soak.load import Load, Settings, Summary
from soak.report import kills_table, rounds_table, table
from soak.rounds import run_rounds
from soak.server import ServerProcess
from soak.transport import TRANSPORTS


async def _loaded(settings: Settings, server: ServerProcess) -> Summary:
    return await Load(settings, server).run()


def load(settings: Settings, backend: str) -> Summary:
    """A load against a server process of its own, on ``backend``."""
    measure.allow_descriptors()
    with ServerProcess(settings.seed, settings.pace) as server:
        return anyio.run(functools.partial(_loaded, settings, server), backend=backend)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m soak", description="Many streams, every fault, every answer judged."
    )
    parser.add_argument("--minutes", type=float, default=0.0, help="how long calls are begun")
    parser.add_argument("--seconds", type=float, default=0.0, help="the same, in seconds, and added to it")
    parser.add_argument("--rounds", type=int, default=0, help="so many calls cancelled at random, after that")
    parser.add_argument("--kills", type=int, default=0, help="so many writers of sessions killed at random, after that")
    parser.add_argument("--streams", type=int, default=1000, help="calls at once")
    parser.add_argument("--pace", type=float, default=1.0, help="by how much pauses are drawn out; 0 for none")
    parser.add_argument("--case", type=int, help="only the call with this number")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    parser.add_argument("--transport", choices=tuple(TRANSPORTS), default="h11")
    parser.add_argument("--seed", type=int, default=1, help="of every draw")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; 1 when something was violated."""
    chosen = _parser().parse_args(arguments)
    seconds = chosen.minutes * 60 + chosen.seconds
    if seconds:
        settings = Settings(chosen.streams, seconds, chosen.seed, transport=chosen.transport, pace=chosen.pace)
        if chosen.case is not None:
            settings = attrs.evolve(settings, streams=1, calls=1, first=chosen.case)
        summary = load(settings, chosen.backend)
        print(table(settings, chosen.backend, summary), flush=True)
        if summary.violation is not None:
            print(f"VIOLATION: {summary.violation}")
            return 1
    if chosen.rounds and chosen.case is None:
        rounds = anyio.run(run_rounds, chosen.rounds, chosen.seed, chosen.transport, backend=chosen.backend)
        print(rounds_table(rounds, chosen.backend, chosen.transport, chosen.seed), flush=True)
        if rounds.violation is not None:
            print(f"VIOLATION: {rounds.violation}")
            return 1
    if chosen.kills and chosen.case is None:
        kills = anyio.run(run_kills, chosen.kills, chosen.seed, backend=chosen.backend)
        print(kills_table(kills, chosen.seed), flush=True)
        if kills.violation is not None:
            print(f"VIOLATION: {kills.violation}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

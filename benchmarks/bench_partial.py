"""Showing JSON while it is written: svir's reader, against parsing the text so far at every piece.

All ways run in one process, interleaved. The first gives the value so far after every piece; "pieces only" is asked for
it once, at the end; jiter, compiled code that OpenAI's and Anthropic's clients show partial JSON with, reads the whole
text so far at every piece. A piece has four characters, about a token's length.

    python -m benchmarks.bench_partial [--rounds 7] [--piece 4] [--sizes 1000 10000 100000]
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import jiter
import orjson

from benchmarks.measure import ROUNDS, interleaved
from svir_core.partial_json import PartialJson

Way = Callable[[list[str]], Any]

WORDS: Final = "Rinse the pot with hot water, add the leaves, pour, wait, and taste before you pour a second cup. "


def items(size: int) -> str:
    """A list of objects, of about ``size`` characters."""
    rows: list[dict[str, Any]] = []
    length = 0
    while length < size:
        rows.append({"do": WORDS[: 20 + len(rows) * 7 % 70], "minutes": len(rows) % 9, "hot": len(rows) % 2 == 0})
        length += len(json.dumps(rows[-1])) + 2
    return json.dumps({"title": "Tea", "steps": rows})


def prose(size: int) -> str:
    """One long string in an object."""
    return json.dumps({"title": "Tea", "text": WORDS * (size // len(WORDS) + 1)})


DOCUMENTS: Final[Mapping[str, Callable[[int], str]]] = {"items": items, "one string": prose}


def each_step(pieces: list[str]) -> Any:
    reader = PartialJson()
    shown: Any = None
    for piece in pieces:
        reader.push(piece)
        shown = reader.data
    reader.finish()
    return shown


def pieces_only(pieces: list[str]) -> Any:
    reader = PartialJson()
    for piece in pieces:
        reader.push(piece)
    reader.finish()
    return reader.data


def parsed_again(pieces: list[str]) -> Any:
    """What jiter makes of the text so far, at every piece."""
    text = ""
    shown: Any = None
    for piece in pieces:
        text += piece
        shown = jiter.from_json(text.encode(), partial_mode="trailing-strings")
    return shown


def once(pieces: list[str]) -> Any:
    return orjson.loads("".join(pieces))


WAYS: Final[Mapping[str, Way]] = {
    "svir, data at each piece": each_step,
    "svir, pieces only": pieces_only,
    "jiter again at each piece": parsed_again,
    "orjson once, at the end": once,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="partial JSON, CPU time")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--piece", type=int, default=4)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options = parser.parse_args()
    gc.collect()
    gc.freeze()  # what the libraries hold is no part of the measure
    base = next(iter(WAYS))
    for name, document in DOCUMENTS.items():
        for size in options.sizes:
            text = document(size)
            pieces = [text[start : start + options.piece] for start in range(0, len(text), options.piece)]
            found = {way: run(pieces) for way, run in WAYS.items()}
            if any(value != found[base] for value in found.values()):
                raise SystemExit("the ways read different values")
            samples = interleaved({way: partial(run, pieces) for way, run in WAYS.items()}, options.rounds)
            print(f"{f'{name}, {len(text):,} characters':<32} {'us a piece':>10} {'ratio':>8}")
            for way in WAYS:
                print(f"{way:<32} {1e6 * samples.median(way) / len(pieces):10.2f} {samples.ratio(way, base):8.2f}")


if __name__ == "__main__":
    main()

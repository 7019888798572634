"""CPU time per event of decoding a stream: svir, the floor, and the openai SDK's own stream.

The floor is what nobody who reads JSON in Python can do without: split the bytes at blank lines and
parse each payload, knowing nothing of the protocol. The SDK reads the same bytes from memory, with
no network, into its typed chunks; svir also checks every rule and assembles the answer.

    python -m benchmarks.bench_decode [--events 1000] [--rounds 7]
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.metadata
import importlib.util
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import orjson

from benchmarks.measure import ROUNDS, Samples, interleaved
from svir_core.wire import openai_chat

WORDS: Final = (
    "The",
    " quick",
    " brown",
    " fox",
    " jumps",
    " over",
    " the",
    " lazy",
    " dog",
    ".",
    "\n\n",
    " \u00e9t\u00e9",
)
DONE: Final = b"data: [DONE]\n\n"
SAFE: Final = {"filtered": False, "severity": "safe"}


def event(choices: list[Any], **more: Any) -> bytes:
    """One chunk as OpenAI writes it: about 300 bytes with a word of text."""
    chunk = {
        "id": "chatcmpl-BxkQ7pW3nTqv0s1mYc9dZ4uLr2aEh",
        "object": "chat.completion.chunk",
        "created": 1780000000,
        "model": "gpt-4.1-mini-2025-04-14",
        "service_tier": "default",
        "system_fingerprint": "fp_6f2eabb9a5",
        "choices": choices,
        "usage": None,
        **more,
    }
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def said(delta: dict[str, Any], finish: str | None = None, **more: Any) -> list[Any]:
    return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, **more}]


def text(count: int) -> list[bytes]:
    words = random.Random(1)
    events = [event(said({"content": words.choice(WORDS)})) for _ in range(count)]
    return [event(said({"role": "assistant", "content": "", "refusal": None})), *events, event(said({}, "stop"))]


def reasoning(count: int) -> list[bytes]:
    words = random.Random(2)
    events = [
        event(said({"reasoning_content" if number < count // 2 else "content": words.choice(WORDS)}))
        for number in range(count)
    ]
    return [*events, event(said({}, "stop"))]


def opening(index: int) -> dict[str, Any]:
    call_id = f"call_{index}_7RkQyX2mVbN8sTdPzLw4"
    return {"index": index, "id": call_id, "type": "function", "function": {"name": "lookup", "arguments": '{"n":"'}}


def piece(index: int, arguments: str) -> list[Any]:
    return said({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


def calls(count: int) -> list[bytes]:
    words = random.Random(3)
    events = [event(said({"tool_calls": [opening(index)]})) for index in range(8)]
    events += [event(piece(words.randrange(8), words.choice(WORDS[:10]))) for _ in range(count)]
    events += [event(piece(index, '"}')) for index in range(8)]
    return [*events, event(said({}, "tool_calls"))]


def azure(count: int) -> list[bytes]:
    words = random.Random(4)
    results: dict[str, Any] = dict.fromkeys(("hate", "self_harm", "sexual", "violence"), SAFE)
    results["protected_material_code"] = {"filtered": False, "detected": False}
    events = [
        event(said({"content": words.choice(WORDS)}, content_filter_results=results), obfuscation="")
        for _ in range(count)
    ]
    return [*events, event(said({}, "stop", content_filter_results={}))]


def mixed(count: int) -> list[bytes]:
    words = random.Random(5)
    kinds: tuple[Callable[[str], list[Any]], ...] = (
        lambda word: said({"content": word}),
        lambda word: said({"reasoning_content": word}),
        lambda word: piece(words.randrange(8), word.strip()),
    )
    events = [event(said({"tool_calls": [opening(index)]})) for index in range(8)]
    for _ in range(count):
        padding = "".join(words.choices("abcdefghijklmnopqrstuvwxyzABCDEFGH0123456789", k=words.randrange(1, 16)))
        events.append(event(words.choice(kinds)(words.choice(WORDS)), obfuscation=padding))
    return [*events, event(said({}, "tool_calls"))]


STREAMS: Final[dict[str, Callable[[int], list[bytes]]]] = {
    "text": text,
    "reasoning then text": reasoning,
    "8 interleaved calls": calls,
    "Azure style": azure,
    "mixed, padded": mixed,
}


def cut(events: list[bytes], size: int | None) -> list[bytes]:
    """The stream in pieces: one event each (``None``), or so many bytes (0: all in one)."""
    if size is None:
        return events
    data = b"".join(events)
    return [data[start : start + (size or len(data))] for start in range(0, len(data), size or len(data))]


PIECES: Final[dict[str, int | None]] = {"one event": None, "1 KiB": 1024, "all in one": 0}


# --- the ways ------------------------------------------------------------------------------------------


def floor(pieces: list[bytes]) -> None:
    rest = b""
    for data in pieces:
        *events, rest = (rest + data).split(b"\n\n") if rest else data.split(b"\n\n")
        for line in events:
            if line != b"data: [DONE]":
                orjson.loads(line[6:])


def svir(pieces: list[bytes]) -> None:
    decoder = openai_chat.Decoder()
    for data in pieces:
        for _ in decoder.push(data):
            pass
    decoder.result()


def openai_sdk() -> Callable[[list[bytes]], None] | None:
    """The SDK's stream over bytes in memory, or ``None`` where it is not installed."""
    if importlib.util.find_spec("openai") is None:
        return None
    # Not `import`: where the peer is not installed, the checkers still read the rest of this file.
    httpx2: Any = importlib.import_module("httpx2")
    openai: Any = importlib.import_module("openai")
    body: list[bytes] = []

    def answer(_: object) -> Any:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=iter(body))

    client = openai.OpenAI(
        api_key="none",
        base_url="http://127.0.0.1/v1",
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )

    def run(pieces: list[bytes]) -> None:
        body[:] = pieces
        for _ in client.chat.completions.create(model="m", messages=[], stream=True):
            pass

    return run


def line(stream: str, pieces: str, samples: Samples, count: int) -> str:
    floor_us, svir_us = (1e6 * samples.median(way) / count for way in ("floor", "svir"))
    row = f"{stream:<27} {pieces:<11} {floor_us:8.2f} {svir_us:8.2f} {samples.ratio('svir', 'floor'):11.2f}"
    if "openai" in samples.seconds:
        row += f" {1e6 * samples.median('openai') / count:14.1f} {samples.ratio('openai', 'svir'):13.1f}"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description="decoding, CPU microseconds per event")
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    sdk = openai_sdk()
    if sdk is None:
        print("openai is not installed: its column is left out (pip install openai)")
    print(f"CPU microseconds per event, median of {options.rounds} interleaved rounds")
    head = f"{'stream':<27} {'pieces':<11} {'floor':>8} {'svir':>8} {'svir/floor':>11}"
    print(head + (f" {'openai ' + importlib.metadata.version('openai'):>14} {'openai/svir':>13}" if sdk else ""))
    gc.collect()
    gc.freeze()  # what the libraries hold is no part of the measure
    for name, make in STREAMS.items():
        events = [*make(options.events), DONE]
        size = sum(map(len, events)) / len(events)
        for pieces_name, piece_size in PIECES.items():
            pieces = cut(events, piece_size)
            ways: dict[str, Callable[[], object]] = {"floor": partial(floor, pieces), "svir": partial(svir, pieces)}
            if sdk is not None:
                ways["openai"] = partial(sdk, pieces)
            samples = interleaved(ways, options.rounds)
            print(line(f"{name}, {size:.0f} B", pieces_name, samples, len(events)))


if __name__ == "__main__":
    main()

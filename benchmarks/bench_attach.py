"""How fast, and in how much memory, a large attachment becomes a request body.

Each way runs in a process of its own, the ways interleaved, the file already in the page cache. The
naive way reads the whole file, encodes it whole and dumps the request. Memory is what the process
grew by, at its peak, beyond what it had after its imports.

    python -m benchmarks.bench_attach [--mib 100] [--rounds 7]

Only the ratios of one run are meant to hold on another machine.
"""

import argparse
import asyncio
import base64
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from svir_client import files
from svir_core.message import Image, TextFile
from svir_core.request import Request
from svir_core.wire.openai_chat.encode import Encoder

MIB = 1024 * 1024
LINE = 'def f(x: int) -> str:\n\treturn "caf\u00e9 \u4e2d\u6587" + str(x)  # a line of source, about 80 bytes long\n'


@attrs.frozen
class Sample:
    """One run: seconds of the whole job, bytes of the body, bytes that memory grew by."""

    seconds: float
    length: int
    grown: int


def request_of(kind: str, path: str) -> Request:
    return Request("m").user("Look.", Image.path(path, "image/png") if kind == "image" else TextFile.path(path))


def blocks(kind: str, path: str) -> int:
    request = request_of(kind, path)
    return sum(map(len, files.blocks(Encoder().encode(request, files.measure(request)))))


def stream(kind: str, path: str) -> int:
    async def run() -> int:
        request = request_of(kind, path)
        body = Encoder().encode(request, await files.measure_in_thread(request))
        length = 0
        async for block in files.stream(body):
            length += len(block)
        return length

    return asyncio.run(run())


def naive(kind: str, path: str) -> int:
    data = Path(path).read_bytes()
    content: object
    if kind == "image":
        url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        content = [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": url}}]
    else:
        content = f'Look.\n\n<file name="{os.path.basename(path)}">\n{data.decode()}\n</file>'
    request = {"model": "m", "stream": True, "messages": [{"role": "user", "content": content}]}
    return len(json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode())


WAYS: dict[str, Callable[[str, str], int]] = {"blocks": blocks, "stream": stream, "naive": naive}


def write(path: str, kind: str, mib: int) -> None:
    """The sample file, made a little at a time: Linux hands the peak of a parent on to its children."""
    text = LINE.encode() * (MIB // len(LINE.encode()))
    with open(path, "wb") as file:
        for _ in range(mib):
            file.write(os.urandom(MIB) if kind == "image" else text)


def peak() -> int:
    """The most memory this process ever held, in bytes (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def child(way: str, kind: str, path: str) -> None:
    before, start = peak(), time.perf_counter()
    length = WAYS[way](kind, path)
    print(json.dumps([time.perf_counter() - start, length, peak() - before]))


def measure(way: str, kind: str, path: str) -> Sample:
    command = [sys.executable, "-m", "benchmarks.bench_attach", "--child", way, kind, path]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, length, grown = json.loads(done.stdout)
    return Sample(seconds, length, grown)


def report(kind: str, path: str, mib: int, rounds: int) -> None:
    samples: dict[str, list[Sample]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, taken in samples.items():
            taken.append(measure(way, kind, path))
    lengths = {sample.length for taken in samples.values() for sample in taken}
    if len(lengths) != 1:
        raise SystemExit(f"{kind}: the ways disagree about the body: {sorted(lengths)}")
    print(f"{kind}, {mib} MiB on disk, a body of {lengths.pop() / MIB:.0f} MiB, median of {rounds} rounds")
    for way, taken in samples.items():
        ratio = statistics.median(
            other.seconds / sample.seconds for other, sample in zip(samples["naive"], taken, strict=True)
        )
        speed = os.path.getsize(path) / 1e6 / statistics.median(sample.seconds for sample in taken)
        grown = max(sample.grown for sample in taken) / MIB
        print(f"  {way:<7} {speed:7.0f} MB/s   {ratio:5.2f} x naive   +{grown:6.1f} MiB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description="attachments: speed and memory, against the naive way")
    parser.add_argument("--mib", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", nargs=3, metavar=("WAY", "KIND", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(*options.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("image", "text"):
            path = os.path.join(folder, kind)
            write(path, kind, options.mib)
            report(kind, path, options.mib, options.rounds)


if __name__ == "__main__":
    main()

"""``python -m fuzz [--seconds N] [TARGET...]``: run the targets one after the other, N seconds each.

What a run learns is kept in build/fuzz, so that the next one goes on from there. A finding is minimised into
fuzz/found/TARGET, where tests/fuzz runs it from then on; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from fuzz.minimise import fault, minimised
from fuzz.seeds import dictionary, inputs
from fuzz.targets import TARGETS

HERE: Final = Path(__file__).parent
CORPUS: Final = HERE.parent / "build" / "fuzz"
FOUND: Final = HERE / "found"

MEMORY: Final = 1024
"""MiB that one target may take: far above what bounded code needs."""
TOO_LONG: Final = 20
"""Seconds after which one execution is a finding: they take a millisecond, ``linear`` a second."""

SHOWN: Final = 3000
"""Characters of a failure's words that are printed."""

_RUNS: Final = re.compile(r"^stat::number_of_executed_units:\s*(\d+)|^Done (\d+) runs", re.MULTILINE)


@attrs.frozen
class Run:
    """What one target did: how often it ran, for how long, and the input that it found."""

    executions: int
    seconds: float
    found: Path | None
    words: str


def executions(output: str) -> int:
    """How many executions libFuzzer says it made."""
    return max((int(one or other) for one, other in _RUNS.findall(output)), default=0)


def run(name: str, seconds: int, folder: Path) -> Run:
    """Fuzz one target; ``folder`` is for what is needed only now."""
    target = TARGETS[name]
    seeds, crashes, corpus = folder / "seeds", folder / "crashes", CORPUS / name
    for place in (seeds, crashes, corpus):
        place.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs(target.seeds, target.max_size)):
        (seeds / f"{number:04}").write_bytes(data)
    words = folder / "words"
    words.write_text(dictionary(), encoding="utf-8")
    options = [
        f"-max_total_time={seconds}",
        f"-rss_limit_mb={MEMORY}",
        f"-timeout={TOO_LONG}",
        f"-artifact_prefix={crashes}/",
        f"-dict={words}",
        "-print_final_stats=1",
    ]
    command = [sys.executable, "-m", "fuzz.worker", name, *options, str(corpus), str(seeds)]
    started = time.monotonic()
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, errors="replace", check=False)
    spent = time.monotonic() - started
    found = next(iter(sorted(crashes.iterdir())), None)
    kept = None if found is None else keep(name, found.read_bytes())
    return Run(executions(done.stderr), spent, kept, last_words(done.stdout + done.stderr) if done.returncode else "")


def last_words(output: str) -> str:
    """The end of what a target that did not end well has said, without what libFuzzer says of itself."""
    lines = [line for line in output.splitlines() if not line.startswith(("INFO:", "WARNING:", "#", "stat::"))]
    return "\n".join(lines)[-SHOWN:]


def keep(name: str, data: bytes) -> Path:
    """Minimise a found input into the folder whose inputs are tests."""
    check = TARGETS[name].check
    small = minimised(check, data) if fault(check, data) is not None else data
    path = FOUND / name / f"{hashlib.sha256(small).hexdigest()[:16]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(small)
    return path


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz the codec.")
    parser.add_argument("--seconds", type=int, default=60, help="seconds for each target")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"any of {', '.join(TARGETS)}; all when none")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.targets) - TARGETS.keys():
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    if importlib.util.find_spec("atheris") is None:
        print("fuzzing needs atheris, which is not installed: make fuzz installs it where it has a wheel")
        return 2
    total = 0
    failed = False
    for name in chosen.targets or TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            result = run(name, chosen.seconds, Path(folder))
        total += result.executions
        rate = result.executions / result.seconds
        print(f"{name:<16}{result.executions:>12,} executions {rate:>9,.0f}/s", flush=True)
        if result.words:
            failed = True
            print(result.words, f"found: {result.found or 'nothing, but it did not end well'}", sep="\n", flush=True)
    print(f"{'total':<16}{total:>12,} executions")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

from __future__ import annotations

import subprocess
import sys

import pytest

from examples.counter import count

SAID = ["The counter was incremented twice.", "counter = 5, 2 rounds, 2 calls"]


@pytest.mark.anyio
async def test_it_counts_to_five(capsys: pytest.CaptureFixture[str]) -> None:
    await count()
    assert capsys.readouterr().out.splitlines() == SAID


def test_the_example_runs() -> None:
    command = [sys.executable, "-m", "examples.counter"]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == SAID

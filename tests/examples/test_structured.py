from __future__ import annotations

import subprocess
import sys

import anyio
import pytest

from examples import structured
from examples.four_apis import CONSTRUCTORS

pytestmark = pytest.mark.anyio

SHOWN = [
    "Green tea: 7 minutes, 40 tokens",
    "- Boil water. (3 min)",
    "- Let it cool. (2 min)",
    "- Steep. (2 min)",
    "Green tea",
]


@pytest.mark.parametrize("word", CONSTRUCTORS)
async def test_it_is_the_same_over_every_api(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with anyio.fail_after(20):
        await structured.scripted(word)
    assert capsys.readouterr().out.splitlines() == SHOWN


def test_the_example_runs() -> None:
    command = [sys.executable, "-m", "examples.structured"]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [line for word in CONSTRUCTORS for line in (f"{word}:", *SHOWN)]

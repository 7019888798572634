from __future__ import annotations

import subprocess
import sys

import anyio
import pytest

from examples import four_apis

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("word", four_apis.CONSTRUCTORS)
async def test_one_word_switches_the_api(word: str) -> None:
    with anyio.fail_after(20):
        assert await four_apis.scripted(word) == "I will look it up. It is 14."


def test_the_words_are_the_apis() -> None:
    assert list(four_apis.CONSTRUCTORS) == list(four_apis.SPOKEN)
    names = [api.name for api in four_apis.SPOKEN.values()]
    assert names == ["openai_chat", "openai_responses", "anthropic_messages", "gemini"]


def test_the_example_runs() -> None:
    command = [sys.executable, "-m", "examples.four_apis"]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{word}: I will look it up. It is 14." for word in four_apis.CONSTRUCTORS]

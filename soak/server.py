"""The server of a load, in a process of its own: ``python -m soak.server SEED PACE``.

It prints its port. For each line that it is sent it prints how many connections are open and how many requests came;
it ends when its standard input does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import attrs

from soak.case import CASE_HEADER, Case
from soak.measure import allow_descriptors
from svir_client.testing import MockServer, RecordedRequest, Reply

if TYPE_CHECKING:
    from typing import Self

END_SECONDS: Final = 10.0
"""How long the process may take to end."""


@attrs.frozen
class Counts:
    """What the server has seen."""

    open: int
    requests: int


def reply_to(request: RecordedRequest, seed: int, pace: float) -> Reply:
    """The scripted reply; the second one is for a request without its optional field."""
    replies = Case.of(seed, int(request.header(CASE_HEADER) or 0), pace).plan.replies
    return replies[-1 if "stream_options" not in request.json() else 0]


async def serve(seed: int, pace: float) -> None:
    """Answer until standard input ends."""
    allow_descriptors()
    async with MockServer(answer=lambda request: reply_to(request, seed, pace), remember=0) as server:
        print(server.port, flush=True)
        while await anyio.to_thread.run_sync(sys.stdin.readline):
            print(json.dumps(attrs.asdict(Counts(server.open_connections, server.request_count))), flush=True)


class ServerProcess:
    """``with ServerProcess(seed, pace) as server``: the server, from the client's side."""

    def __init__(self, seed: int, pace: float) -> None:
        self._command = [sys.executable, "-m", "soak.server", str(seed), repr(pace)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._answer())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}"

    def counts(self) -> Counts:
        """What it has seen so far; waits for the answer of a process that may be busy."""
        if self._process.stdin is None:
            raise RuntimeError("the server has no standard input")
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Counts(**json.loads(self._answer()))

    def _answer(self) -> str:
        line = "" if self._process.stdout is None else self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server process has ended")
        return line


if __name__ == "__main__":
    anyio.run(serve, int(sys.argv[1]), float(sys.argv[2]))

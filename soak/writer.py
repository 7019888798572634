"""A writer of sessions that is there to be killed, and the server that forks it: ``python -m soak.writer``.

For a line ``[SEED, PATH, PREFIX]`` the server forks a writer, and kills it by SIGKILL at the next line. A writer opens
sessions of the SQLite store at PATH, one after the other, and in each adds messages and takes some back. It says what
it is about to do and what was acknowledged, as JSON lines. What it stores begins with PREFIX and comes once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from typing import Final

import anyio
import anyio.lowlevel

from svir_client import Session, SqliteStore
from svir_core import Message, Request, ToolLoop

SESSIONS: Final = ("one", "two", "three")
MOST: Final = 30
"""Messages of one session, before most of them are taken back."""


def say(**said: object) -> None:
    """Print it at once: a line of less than a pipe's 4 KiB is there whole, or not at all."""
    os.write(1, json.dumps(said).encode() + b"\n")


def marked(mark: str) -> ToolLoop:
    """A generation that did not finish, known by its mark: a session's head changes with its messages."""
    return ToolLoop(Request(mark).user("?"))


class Writer:
    """Writes to one store until it is killed."""

    def __init__(self, seed: int, path: str, prefix: str) -> None:
        self._random = random.Random(seed)
        self._store = SqliteStore(path)
        self._prefix = prefix
        self._count = 0

    async def run(self) -> None:
        """Open one session after the other."""
        while True:
            name = self._random.choice(SESSIONS)
            say(doing="claiming", session=name)
            async with self._store.session(name) as session:
                for _ in range(self._random.randint(1, 5)):
                    await self._save(session)
                say(doing="releasing", session=name)
            say(doing="nothing", session=name)

    async def _save(self, session: Session) -> None:
        stored = len(session.messages)
        taken_back = stored >= MOST or self._random.random() < 0.4
        keep = self._random.randint(0, min(stored, MOST // 2)) if taken_back else stored
        fewest, most = (0 if keep else 1, 2) if taken_back else (1, 3)  # what is suspended began at a message
        added = [self._name() for _ in range(self._random.randint(fewest, most))]
        mark = self._name()
        say(doing="taking back" if keep < stored else "adding", session=session.id, keep=keep, added=added, mark=mark)
        with session.lease() as lease:
            lease.truncate(keep)
            lease.append([Message.user(word) for word in added])
            lease.suspend(marked(mark))
            await lease.save()
        say(doing="going on", session=session.id)

    def _name(self) -> str:
        self._count += 1
        return f"{self._prefix}.{self._count}"


def serve() -> None:
    """Fork writers, and kill them, until standard input ends."""
    anyio.run(anyio.lowlevel.checkpoint)  # imports what a writer would have to import each time
    for line in sys.stdin:
        seed, path, prefix = json.loads(line)
        writer = os.fork()
        if writer == 0:
            try:
                anyio.run(Writer(seed, path, prefix).run)
            finally:
                os._exit(1)  # reached by a fault alone, which was printed to standard error
        sys.stdin.readline()
        os.kill(writer, signal.SIGKILL)
        _, status = os.waitpid(writer, 0)
        say(doing="over", exit=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    serve()

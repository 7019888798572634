"""Writers of sessions killed by SIGKILL at random moments: nothing that was acknowledged may be lost, nothing be there
twice or in part, and the session must be free again at once."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import anyio
import attrs

from soak.oracle import Violation
from soak.writer import SESSIONS
from svir_client import Session, SqliteStore
from svir_core import SessionInUseError, Text

LONGEST: Final = 0.15
"""Seconds that a writer may live: some twenty saves, and five claims."""

SAME_FILE: Final = 20
"""So many kills over one database; then a new one, so that its making is killed too."""


@attrs.frozen
class State:
    """What is known of one session: its messages, and the mark of its head."""

    messages: tuple[str, ...] = ()
    mark: str | None = None


@attrs.define
class Kills:
    """What the kills were.

    Attributes:
        moments: what the writer was doing when it was killed.
        acknowledged: saves that were.
        made: saves that were made and not acknowledged.
        violation: the first thing that was not as it must be.
    """

    moments: Counter[str] = attrs.field(factory=Counter[str])
    acknowledged: int = 0
    made: int = 0
    seconds: float = 0.0
    violation: str | None = None


class Judge:
    """What is known of the sessions of one database."""

    def __init__(self, path: Path, known: Mapping[str, State], kills: Kills) -> None:
        self.path = path
        self._known = {name: known.get(name, State()) for name in SESSIONS}
        self._kills = kills

    def changed(self, said: Mapping[str, Any]) -> dict[str, State]:
        """What a save makes of its session, when it is made."""
        name = said["session"]
        return {name: State((*self._known[name].messages[: said["keep"]], *said["added"]), said["mark"])}

    def acknowledged(self, made: Mapping[str, State]) -> None:
        """A save was."""
        self._known.update(made)
        self._kills.acknowledged += 1

    async def look(self, pending: Mapping[str, State]) -> None:
        """Hold the sessions to what is known of them, or to the save that was under way. Raises ``Violation``."""
        store = SqliteStore(self.path)
        for name in SESSIONS:
            try:
                async with store.session(name) as session:
                    found = state_of(session)
            except SessionInUseError:
                found = None
            if found is None:
                raise Violation(f"{name} is not free")
            if found == pending.get(name):
                self._known[name] = found
                self._kills.made += 1
            elif found != self._known[name]:
                raise Violation(f"{name} holds {found}, and not {self._known[name]} or {pending.get(name)}")
        with closing(sqlite3.connect(self.path)) as connection:
            (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        if verdict != "ok":
            raise Violation(f"SQLite says: {verdict}")


class Killing:
    """One server of writers."""

    def __init__(self, folder: Path, seed: int, kills: Kills) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self._kills = kills
        self._server = subprocess.Popen(
            [sys.executable, "-m", "soak.writer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._stdin, self._stdout = self._server.stdin, self._server.stdout

    def close(self) -> None:
        """End the server, and a writer that it has: nobody reads what they say any more."""
        for pipe in (self._stdin, self._stdout):
            pipe.close()
        self._server.wait(10)

    async def run(self, count: int) -> None:
        """Let so many writers begin, kill each, and look at what it left. Raises ``Violation``."""
        judge = Judge(self._folder / "0.db", {}, self._kills)
        for number in range(count):
            if number % SAME_FILE == 0:
                judge = Judge(self._folder / f"{number}.db", {}, self._kills)
            self._send([self._random.getrandbits(32), str(judge.path), str(number)])
            await anyio.sleep(self._random.uniform(0, LONGEST))
            self._send("kill")
            pending = self._until_it_is_over(judge)
            with anyio.fail_after(20):
                await judge.look(pending)

    def _until_it_is_over(self, judge: Judge) -> dict[str, State]:
        """Hear what the writer said: what a save that was under way would have made."""
        moment, pending = "beginning", dict[str, State]()
        while (said := self._next())["doing"] != "over":
            moment = said["doing"]
            if "keep" in said:
                pending = judge.changed(said)
            elif moment == "going on":
                judge.acknowledged(pending)
                pending = {}
        if said["exit"] != -signal.SIGKILL:
            raise Violation(f"a writer ended by itself, with {said['exit']}, while it was {moment}")
        self._kills.moments[moment] += 1
        return pending

    def _send(self, order: list[Any] | str) -> None:
        self._stdin.write(json.dumps(order).encode() + b"\n")
        self._stdin.flush()

    def _next(self) -> dict[str, Any]:
        line: dict[str, Any] = json.loads(self._stdout.readline())
        return line


def state_of(session: Session) -> State:
    """What a session holds, in the writer's words."""
    parts = [message.parts[0] for message in session.messages]
    suspended = session.suspended
    return State(
        tuple(part.text for part in parts if isinstance(part, Text)),
        None if suspended is None else suspended.request.model,
    )


async def run_kills(count: int, seed: int) -> Kills:
    """Kill so many writers."""
    kills = Kills()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, closing(Killing(Path(folder), seed, kills)) as killing:
        try:
            await killing.run(count)
        except Violation as violation:
            kills.violation = f"kill {kills.moments.total()}: {violation}"
    kills.seconds = time.monotonic() - began
    return kills

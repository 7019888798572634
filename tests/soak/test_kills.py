"""Killed writers in short, and a judge that can say no."""

from __future__ import annotations

import pathlib

import anyio
import pytest

from soak.__main__ import main
from soak.kills import Judge, Kills, State, run_kills
from soak.oracle import Violation
from soak.report import kills_table
from soak.writer import marked
from svir_client import SqliteStore
from svir_core import Message

SEED = 7


@pytest.mark.anyio
async def test_nothing_acknowledged_is_lost_when_writers_are_killed() -> None:
    with anyio.fail_after(60):
        kills = await run_kills(25, SEED)
    assert kills.violation is None
    assert kills.moments.total() == 25
    assert kills.acknowledged > 25
    assert {"claiming", "adding"} <= kills.moments.keys()
    assert "25 writers of sessions killed, seed 7" in kills_table(kills, SEED)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("acknowledged", "pending", "is_allowed"),
    [
        (State(("a", "b"), "m"), {}, True),
        (State(("a",), "m"), {}, False),
        (State(("a", "b"), "other"), {}, False),
        (State(), {"one": State(("a", "b"), "m")}, True),
        (State(), {"one": State(("a", "b"), "other")}, False),
        (State(), {"two": State(("a", "b"), "m")}, False),
    ],
)
async def test_the_judge(
    tmp_path: pathlib.Path, acknowledged: State, pending: dict[str, State], is_allowed: bool
) -> None:
    path = tmp_path / "sessions.db"
    with anyio.fail_after(20):
        async with SqliteStore(path).session("one") as session:
            session.append(Message.user("a"), Message.user("b"))
            with session.lease() as lease:
                lease.suspend(marked("m"))
        judge = Judge(path, {"one": acknowledged}, Kills())
        if is_allowed:
            await judge.look(pending)
        else:
            with pytest.raises(Violation, match="one holds"):
                await judge.look(pending)


@pytest.mark.anyio
async def test_a_session_that_somebody_has_is_a_violation(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "sessions.db"
    with anyio.fail_after(20):
        async with SqliteStore(path).session("two"):
            with pytest.raises(Violation, match="two is not free"):
                await Judge(path, {}, Kills()).look({})


def test_the_command_says_what_was_violated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def violated(count: int, seed: int) -> Kills:
        return Kills(violation=f"kill {count} of seed {seed}")

    monkeypatch.setattr("soak.__main__.run_kills", violated)
    assert main(["--kills", "3", "--seed", "4"]) == 1
    assert "VIOLATION: kill 3 of seed 4" in capsys.readouterr().out

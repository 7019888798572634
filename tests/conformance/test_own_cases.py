"""Our own cases: all of them pass, and every one is in the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.coverage import MARK, ROOT, SECTIONS, table
from conformance.runner import Status, run


@pytest.mark.parametrize("folder", SECTIONS)
def test_our_cases_pass(folder: str) -> None:
    results = list(run([ROOT / folder]))
    assert [result.describe() for result in results if result.status is Status.FAILED] == []
    assert any(result.status is Status.PASSED for result in results)


def test_every_folder_of_cases_is_a_section() -> None:
    folders = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.json")}
    assert folders == set(SECTIONS)


def test_the_table_is_the_one_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table"]) == 0
    printed = capsys.readouterr().out
    assert printed == table()
    readme = (ROOT / "README.md").read_text(encoding="ascii")
    assert MARK + readme.partition(MARK)[2] == printed


def test_every_recording_has_its_case() -> None:
    recordings = {path.stem for path in (ROOT / "decoder/recorded").glob("*.sse")}
    cases = {path.stem for path in (ROOT / "decoder/recorded").glob("*.json")}
    assert recordings == cases
    bodies = {path.stem for path in (ROOT / "transport/recorded").glob("*.body")}
    assert bodies <= {path.stem for path in (ROOT / "transport/recorded").glob("*.json")}


def test_cases_and_listings_are_ascii() -> None:
    for path in [*ROOT.rglob("*.json"), *ROOT.rglob("*.md"), *ROOT.rglob("*.toml")]:
        path.read_text(encoding="ascii")


def test_the_root_is_this_repository() -> None:
    assert Path(__file__).parents[2] / "conformance" == ROOT

"""Everything that fuzzing found stays fixed, and the seeds hold every invariant; nothing here needs atheris."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import seeds
from fuzz.plan import written
from fuzz.targets import TARGETS

FOUND = Path(__file__).parents[2] / "fuzz" / "found"
INPUTS = sorted(FOUND.glob("*/*.bin"))
EVERY = {"linear": 20}
"""Where a run takes a tenth of a second, one seed in so many is enough here."""


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.relative_to(FOUND).as_posix())
def test_what_was_found_stays_fixed(path: Path) -> None:
    TARGETS[path.parent.name].check(path.read_bytes())


def test_every_folder_of_findings_is_of_a_target() -> None:
    assert {path.name for path in FOUND.iterdir()} <= TARGETS.keys()
    assert {path.parent for path in INPUTS} == set(FOUND.iterdir())


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_hold(name: str) -> None:
    target = TARGETS[name]
    inputs = seeds.inputs(target.seeds, target.max_size)
    assert inputs
    for data in inputs[:: EVERY.get(name, 1)]:
        target.check(data)


@pytest.mark.parametrize("name", [name for name in TARGETS if name.startswith("decode")])
def test_recorded_streams_hold_whole(name: str) -> None:
    streams = list(seeds.recorded())
    assert len(streams) > 50
    for number, stream in enumerate(streams):
        TARGETS[name].check(written(stream, cut=64 + number % 192, option=32))


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_says_its_invariant_first(name: str) -> None:
    path = FOUND.parent / "targets" / f"{name}.py"
    assert path.read_text(encoding="utf-8").startswith('"""')
    for data in (b"", b"\0", b"\0\0", b"\xff\xff\0"):
        TARGETS[name].check(data)

"""The lowest versions: each is named with its reason, alike everywhere, and ``make floors`` runs the tests with it."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.floors import FOLDERS, NOT_FOR_TESTS, ROOT, asked, floor, floors

FLOOR = re.compile(r'^  "(?P<name>[\w-]+)>=(?P<version>[\d.]+)", *# (?P<reason>.+)$', re.MULTILINE)


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_every_floor_has_its_reason_beside_it(folder: str) -> None:
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    reasons = {found["name"]: (found["version"], found["reason"]) for found in FLOOR.finditer(text)}
    requirements = list(asked(folder))
    assert requirements
    for requirement in requirements:
        version, reason = reasons[requirement.name]
        assert reason.startswith(f"{version}: "), requirement


def test_a_library_has_one_floor_whoever_asks_for_it() -> None:
    """Else the higher one would be all that is ever run."""
    lowest = floors()
    for folder, extras in [*((folder, None) for folder in FOLDERS.values()), ("", ["dev"])]:
        for requirement in asked(folder, extras):
            if requirement.name not in NOT_FOR_TESTS:
                assert floor(requirement) == lowest[canonicalize_name(requirement.name)], f"{folder}: {requirement}"


def test_the_development_project_asks_for_what_the_distributions_do() -> None:
    every = {requirement.name for folder in FOLDERS.values() for requirement in asked(folder, [])}
    assert every == {requirement.name for requirement in asked("", [])}
    optional = {requirement.name for folder in FOLDERS.values() for requirement in asked(folder)} - every
    assert optional <= {requirement.name for requirement in asked("", ["dev"])} | {"httpcore"}  # httpx brings it


@pytest.mark.parametrize("line", ["h11", "h11==0.16", "h11<1", "h11>0.16"])
def test_what_names_no_floor_is_no_guess(line: str) -> None:
    with pytest.raises(ValueError, match="has no floor"):
        floor(Requirement(line))


def test_a_floor_below_a_ceiling() -> None:
    assert str(floor(Requirement("mypy>=2.4,<2.5"))) == "2.4"

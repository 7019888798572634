"""docs/behaviours.md goes through every section of page 51, and every row names tests that exist."""

from __future__ import annotations

import ast
import functools
import pathlib
import re

import pytest

from conformance.coverage import ROOT as CASES
from conformance.coverage import SECTIONS as FOLDERS

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "behaviours.md").read_text(encoding="utf-8")

SECTIONS = (
    *("0", "1", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10", "1.11"),
    *("2", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "3", "3.1", "3.2", "3.3", "4", "4.1", "4.2", "4.3"),
    *("5", "5.1", "5.2", "5.3", "6", "6.0", "6.1", "6.2", "6.3", "6.4", "6.5", "7", "8", "9", "10", "11", "12"),
)
"""The sections of page 51, and those inside them."""

ODDITIES = range(1, 23)
"""Section 11 numbers what it lists."""

HEADS = ("behaviour", "---")
RUNNER = "tests/conformance/test_own_cases.py::test_our_cases_pass"


def sections() -> list[tuple[str, list[list[str]]]]:
    """Each section of the page: its number, and the cells of its rows."""
    found: list[tuple[str, list[list[str]]]] = []
    for line in PAGE.splitlines():
        heading = re.match(r"#{2,3} (\d+(?:\.\d+)?)\.? ", line)
        if heading is not None:
            found.append((heading[1], []))
        elif line.startswith("| "):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if cells[0] not in HEADS:
                found[-1][1].append(cells)
    return found


ROWS = [(number, cells) for number, rows in sections() for cells in rows]


@functools.cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests of a file; none of one that is not there."""
    file = ROOT / path
    body = ast.parse(file.read_text(encoding="utf-8")).body if file.is_file() else []
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(name for name in functions if name.startswith("test_"))


def exists(name: str) -> bool:
    """Whether there is a test, or a case, of this name."""
    if name.startswith("conformance/"):
        case = ROOT / name
        return case.is_file() and case.parent.relative_to(CASES).as_posix() in FOLDERS
    path, _, test = name.partition("::")
    return test in names_in(path)


def test_every_section_is_there_in_order() -> None:
    assert tuple(number for number, _ in sections()) == SECTIONS


def test_every_section_has_a_row() -> None:
    divided = {number.partition(".")[0] for number in SECTIONS if "." in number}
    assert {number for number, rows in sections() if not rows} == divided


def test_every_oddity_is_there_in_order() -> None:
    numbers = [int(cells[0].partition(".")[0]) for section, cells in ROWS if section == "11"]
    assert sorted(numbers) == numbers
    assert set(numbers) == set(ODDITIES)


@pytest.mark.parametrize(("section", "cells"), ROWS, ids=[f"{section}: {cells[0]}" for section, cells in ROWS])
def test_every_row_names_tests_that_exist(section: str, cells: list[str]) -> None:
    behaviour, svir, tests = cells
    names = tests.split(", ")
    assert behaviour
    assert svir
    assert all(re.fullmatch(r"`[^`\s]+`", name) for name in names), f"{section}: {tests!r}"
    assert [name for name in names if not exists(name.strip("`"))] == []
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "tests",
        "tests/docs/test_behaviours.py",
        "tests/docs/test_behaviours.py::exists",
        "tests/docs/test_behaviours.py::test_of_nothing",
        "tests/docs/test_nothing.py::test_of_nothing",
        "conformance/decoder/nothing.json",
        "conformance/README.md",
        "conformance/decoder",
    ],
)
def test_what_is_no_test_is_found_out(name: str) -> None:
    assert not exists(name)


def test_the_runner_of_the_cases_is_named() -> None:
    assert f"`{RUNNER}`" in PAGE
    assert exists(RUNNER)

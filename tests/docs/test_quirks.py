"""docs/quirks.md says what is true: its tables are compared with the enum and the profiles."""

from __future__ import annotations

import inspect
import pathlib
import re

import svir_core.quirk
from svir_core.quirk import Quirk, names_of
from svir_core.server_profile import PROFILES

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "quirks.md").read_text(encoding="utf-8")


def rows(title: str) -> list[list[str]]:
    """The cells of the table with this first column."""
    table = PAGE.partition(f"| {title} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_every_quirk_is_in_the_table_in_order() -> None:
    assert [name.strip("`") for name, *_ in rows("quirk")] == list(Quirk.__members__)
    for row in rows("quirk"):
        assert len(row) == 4
        assert all(row)


def test_every_member_says_what_it_repairs_and_where_it_was_seen() -> None:
    source = inspect.getsource(svir_core.quirk)
    for name in Quirk.__members__:
        said = re.search(rf'    {name} = auto\(\)\n    """(.*?)"""', source, re.DOTALL)
        assert said is not None, name
        assert "Seen on" in " ".join(said[1].split()), name


def test_every_profile_is_in_its_table_as_it_is() -> None:
    habits = {"openai-reasoning": "`max_tokens` as `max_completion_tokens`, `system` as `developer`"}
    assert rows("profile") == [
        [
            f"`{known.name}`",
            " ".join(f"`{name}`" for name in names_of(known.quirks)) or "none",
            habits.get(known.name, "none"),
            known.seen,
        ]
        for known in PROFILES.values()
    ]


def test_every_quirk_has_a_case_with_it_and_one_without() -> None:
    cases = {path.stem for path in (ROOT / "conformance" / "decoder" / "11c-quirks").glob("*.json")}
    for name in Quirk.__members__:
        case = name.lower().replace("_", "-")
        assert {case, f"{case}-without"} <= cases

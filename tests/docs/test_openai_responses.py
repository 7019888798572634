"""docs/openai-responses.md says what the tables say, and its examples are right."""

from __future__ import annotations

import pathlib
import re

from conformance.coverage import SECTIONS
from svir_core.limits import Limits
from svir_core.response import FinishReason
from svir_core.wire.openai_responses import StreamEncoder, table
from svir_core.wire.openai_responses.content import CACHE_TIMES, FILE_SCHEMES, IMAGE_SCHEMES
from svir_core.wire.openai_responses.encode import OPTIONAL
from svir_core.wire.openai_responses.table import CLIENT_CALLS, INCOMPLETE, ITEMS, PARTS, RESPONSES, Ruling, Step

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "openai-responses.md").read_text(encoding="utf-8")

WORDS = {
    Ruling.TAKEN: "taken",
    Ruling.FORGIVEN: "forgiven",
    Ruling.LEFT_OUT: "left out",
    Ruling.REFUSED: "refused",
}


def rows(head: str) -> list[list[str]]:
    """The cells of the table whose head begins so."""
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_drawing_is_that_of_the_table() -> None:
    drawing = [line.strip() for line in PAGE.split("```text\n")[1].split("```")[0].splitlines()]
    documented = [line.strip() for line in (table.__doc__ or "").splitlines()]
    place = documented.index(drawing[0])
    assert documented[place : place + len(drawing)] == drawing


def test_every_state_and_step_is_as_in_the_table() -> None:
    found = [cells[1:] for cells in rows("| | opens")]
    expected = [
        [WORDS[steps[step]] for step in Step] for rulings in (RESPONSES, ITEMS, PARTS) for steps in rulings.values()
    ]
    assert found == expected


def test_every_reason_has_its_finish() -> None:
    found = {
        word: finish.strip("`")
        for what, finish in rows("| what came")
        if what.startswith("`incomplete`: ")
        for word in re.findall(r"`(\w+)`", what)[1:]
    }
    assert found == {word: finish.name for word, finish in INCOMPLETE.items()}
    assert f"`{FinishReason.OTHER.name}`" in PAGE


def test_every_call_for_the_client_is_named() -> None:
    sentence = PAGE.split("Calls for the client are ")[1].split(";")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == {*CLIENT_CALLS, "shell_call", "tool_search_call"}


def test_figures_and_names_are_those_of_the_code() -> None:
    assert f"{Limits().event_bytes // 1024} KiB" in PAGE
    assert all(f"`{name}`" in PAGE for name in (*OPTIONAL, *CACHE_TIMES))
    assert (IMAGE_SCHEMES, FILE_SCHEMES) == (("https:", "http:", "data:"), ("https:", "http:"))
    assert StreamEncoder("gpt-5.6", "resp_1", created=1_790_000_000).done is False


def test_every_folder_of_cases_and_every_file_is_real() -> None:
    named = set(re.findall(r"`((?:decoder|encoder)/openai_responses/[\w-]+)`", PAGE))
    assert named == {name for name in SECTIONS if "/openai_responses/" in name and not name.endswith("recorded")}
    for path in re.findall(r"\]\(\.\./([\w/.]+)\)", PAGE):
        assert (ROOT / path).is_file(), path

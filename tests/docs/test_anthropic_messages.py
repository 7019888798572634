"""docs/anthropic-messages.md says what the tables say."""

from __future__ import annotations

import pathlib
import re

from svir_core.response import FinishReason
from svir_core.wire.anthropic_messages import AnthropicMessages, table
from svir_core.wire.anthropic_messages.table import FINISHES, MOVES, Forgiven, Move, State

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "anthropic-messages.md").read_text(encoding="utf-8")


def rows(head: str) -> list[list[str]]:
    """The cells of the table whose head begins so."""
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_drawing_is_that_of_the_table() -> None:
    drawing = [line.strip() for line in PAGE.split("```text\n")[1].split("```")[0].splitlines()]
    documented = [line.strip() for line in (table.__doc__ or "").splitlines()]
    place = documented.index(drawing[0])
    assert documented[place : place + len(drawing)] == drawing


def test_every_state_and_event_is_as_in_the_table() -> None:
    states = [state for state in State if state is not State.COMPLETE]
    found = rows("| | `START`")
    assert len(found) == len(Move)
    for move, (_, *cells) in zip(Move, found, strict=True):
        for state, cell in zip(states, cells, strict=True):
            after = MOVES[state][move]
            if isinstance(after, Forgiven):
                assert cell == f"(`{after.state.name}`)"
            else:
                assert cell == (f"`{after.name}`" if isinstance(after, State) else "-")


def test_every_stop_reason_has_its_finish() -> None:
    told = {
        word: re.findall(r"`([A-Z_]+)`", finish)[0]
        for words, finish in rows("| stop reason")
        for word in re.findall(r"`(\w+)`", words)
    }
    assert told == {word: finish.name for word, finish in FINISHES.items()}
    assert f"`{FinishReason.OTHER.name}`" in rows("| stop reason")[-1][1]


def test_the_settings_have_their_defaults() -> None:
    told = {row[0]: row[1].strip('`"') for row in rows("| setting")}
    api = AnthropicMessages()
    assert told == {"`AnthropicMessages(version=...)`": api.version, "`AnthropicMessages(auth=...)`": api.auth}

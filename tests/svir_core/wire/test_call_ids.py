"""Ids of calls: each once in a conversation, the same for call and result, and never changed by a later turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.tool_id import LEGAL, portable_tool_id
from svir_core.wire.call_ids import CallIds

IDS = st.sampled_from(["a", "call_0", "call|1", "a\n1", "a\n2", "\ud800", portable_tool_id("a\n1")])
ANSWERS = st.lists(st.lists(IDS, max_size=4, unique=True), max_size=8)


def sent(answers: list[list[str]], spell: Callable[[str], str] = portable_tool_id) -> list[list[str]]:
    ids = CallIds(spell)
    told: list[list[str]] = []
    for answer in answers:
        ids.answer()
        told.append([ids.call(call_id) for call_id in answer])
        assert [ids.result(call_id) for call_id in answer] == told[-1]
    return told


@pytest.mark.parametrize("spell", [portable_tool_id, str])
@given(before=ANSWERS, after=ANSWERS)
def test_every_id_is_sent_once_and_no_later_turn_changes_it(
    before: list[list[str]], after: list[list[str]], spell: Callable[[str], str]
) -> None:
    told = sent(before + after, spell)
    everything = [call_id for answer in told for call_id in answer]
    assert len(set(everything)) == len(everything)
    assert spell is str or all(LEGAL.fullmatch(call_id) for call_id in everything)
    assert told[: len(before)] == sent(before, spell)


def test_an_id_is_spelled_as_it_is_where_the_api_takes_any() -> None:
    assert sent([["call|1"], ["call|1"]], str) == [["call|1"], [portable_tool_id("call|1\n1")]]


def test_the_first_use_keeps_an_id() -> None:
    assert sent([["call_0"], ["call_0", "b"], ["b"]]) == [
        ["call_0"],
        [portable_tool_id("call_0\n1"), "b"],
        [portable_tool_id("b\n1")],
    ]


def test_an_id_that_one_answer_has_twice_stays_twice() -> None:
    assert sent([["a", "a"]]) == [["a", "a"]]


def test_the_result_of_no_call_is_mapped_by_its_id_alone() -> None:
    ids = CallIds(portable_tool_id)
    assert [ids.result(call_id) for call_id in ("a", "call|1")] == ["a", portable_tool_id("call|1")]

"""Tool ids in the common alphabet: legal, distinct, the same for call and result, and stable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.message import Message, Text, ToolCall, ToolResult
from svir_core.tool_id import PREFIX, portable_tool_id, with_portable_tool_ids

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
legal_ids = st.from_regex(LEGAL, fullmatch=True)
any_ids = st.one_of(
    st.text(alphabet="aA0_-|. \n\u00e9\ud800", max_size=70),
    legal_ids,
    legal_ids.map(portable_tool_id),
    st.text(max_size=5).map(portable_tool_id),
    st.text(max_size=5).map(lambda text: portable_tool_id(portable_tool_id(text))),
)


@pytest.mark.parametrize("call_id", ["call_1", "toolu_01A", "a", "-", "x" * 64, "0", "call-" + "a" * 32])
def test_a_legal_id_stays(call_id: str) -> None:
    assert portable_tool_id(call_id) == call_id


@pytest.mark.parametrize(
    "call_id", ["", "call|1", "x" * 65, "call.1", "functions.f:0", "\u00e9", "a\n", "\ud800", " a"]
)
def test_any_other_id_is_made_legal(call_id: str) -> None:
    mapped = portable_tool_id(call_id)
    assert mapped.startswith(PREFIX)
    assert LEGAL.fullmatch(mapped)
    assert len(mapped) == 48


def test_the_mapping_is_the_same_in_every_process() -> None:
    assert portable_tool_id("call|1") == "svir_wm6Xedc6I8elcpybecYBYDrznlaNc87PYJJzNXc2QqY"


def test_an_id_that_looks_mapped_is_no_other_s() -> None:
    mapped = portable_tool_id("call|1")
    assert portable_tool_id(mapped) != mapped
    assert len({portable_tool_id(each) for each in ("call|1", mapped, portable_tool_id(mapped))}) == 3


@given(st.lists(any_ids, unique=True, max_size=8))
def test_no_two_ids_become_one(ids: list[str]) -> None:
    mapped = [portable_tool_id(each) for each in ids]
    assert len(set(mapped)) == len(ids)
    assert all(LEGAL.fullmatch(each) for each in mapped)


@given(legal_ids)
def test_every_legal_id_outside_the_namespace_stays(call_id: str) -> None:
    assert portable_tool_id(call_id) == call_id or call_id.startswith(PREFIX)


def turn(call_id: str) -> tuple[Message, Message]:
    return Message.assistant("so", ToolCall(call_id, "f", "{}")), Message.tool(ToolResult(call_id, "1"))


@given(st.lists(any_ids, max_size=5), st.lists(any_ids, max_size=5))
def test_earlier_turns_keep_their_ids_whatever_is_appended(earlier: list[str], later: list[str]) -> None:
    history = [message for each in earlier for message in turn(each)]
    longer = history + [message for each in later for message in turn(each)]
    assert with_portable_tool_ids(longer)[: len(history)] == with_portable_tool_ids(history)


@given(any_ids)
def test_a_call_and_its_result_agree_and_the_history_keeps_the_original(call_id: str) -> None:
    history = turn(call_id)
    asked, answered = with_portable_tool_ids(history)
    assert asked.parts == (Text("so"), ToolCall(portable_tool_id(call_id), "f", "{}"))
    assert answered.parts == (ToolResult(portable_tool_id(call_id), "1"),)
    assert history == turn(call_id)

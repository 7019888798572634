"""Every fault of a history, alone and among others; no history of an honest conversation has one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError
from svir_core.history import WORDS, HistoryFault, HistoryFaultCode, check_history
from svir_core.message import Message, Role, ToolCall, ToolResult
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api
from svir_core.wire.openai_chat import API

BY_ID = openai_responses.API
HI = Message.user("hi")


def call(call_id: str = "a", name: str = "f", *, complete: bool = True) -> ToolCall:
    return ToolCall(call_id, name, "{}", complete=complete)


def asks(*calls: str) -> Message:
    return Message.assistant("so", *(call(each) for each in calls))


def results(*ids: str) -> Message:
    return Message.tool(*(ToolResult(each, "1") for each in ids))


def faults(*messages: Message, api: Api = API) -> list[tuple[str, int, int]]:
    return [(fault.code.value, fault.message, fault.part) for fault in check_history(messages, api)]


def test_no_history_and_no_calls_are_fine() -> None:
    assert check_history([], API) == ()
    assert faults(Message.system("s"), HI, Message.assistant("a"), HI) == []


def test_calls_with_their_results_are_fine_in_any_order_and_any_number_of_messages() -> None:
    assert faults(HI, asks("a", "b"), results("b", "a"), Message.assistant("done")) == []
    assert faults(HI, asks("a", "b"), results("b"), results("a"), HI) == []


def test_an_orphan_result() -> None:
    assert faults(HI, results("a")) == [("orphan_result", 1, 0)]
    assert faults(HI, asks("a"), results("a", "b")) == [("orphan_result", 2, 1)]


def test_unanswered_calls() -> None:
    assert faults(HI, asks("a", "b"), results("a"), HI) == [("unanswered_call", 1, 2)]
    assert faults(HI, asks("a", "b")) == [("unanswered_call", 1, 1), ("unanswered_call", 1, 2)]


def test_a_result_before_its_call_is_one_fault() -> None:
    assert faults(HI, results("a"), asks("a"), HI) == [("result_before_call", 1, 0)]
    assert faults(results("a"), asks("a"), results("a")) == [("result_before_call", 0, 0), ("second_result", 2, 0)]


@pytest.mark.parametrize("between", [HI, Message.system("s"), Message.assistant("wait")])
def test_a_result_after_another_turn(between: Message) -> None:
    history = (HI, asks("a", "b"), results("a"), between, results("b"))
    assert faults(*history) == [("result_too_late", 4, 0)]
    assert faults(*history, api=BY_ID) == []


def test_a_second_result() -> None:
    assert faults(asks("a"), results("a", "a")) == [("second_result", 1, 1)]
    assert faults(asks("a"), results("a"), HI, results("a")) == [("second_result", 3, 0)]


def test_an_incomplete_call() -> None:
    assert faults(Message.assistant(call(complete=False)), results("a")) == [("incomplete_call", 0, 0)]


@pytest.mark.parametrize(
    ("api", "again", "late"),
    [
        (API, [("unanswered_call", 1, 1)], [("result_too_late", 3, 0)]),
        (anthropic_messages.API, [("unanswered_call", 1, 1)], [("result_too_late", 3, 0)]),
        (gemini.API, [("unanswered_call", 1, 1)], [("result_too_late", 3, 0)]),
        (openai_responses.API, [("unanswered_call", 1, 1), ("duplicate_call_id", 2, 1)], []),
    ],
    ids=["openai_chat", "anthropic_messages", "gemini", "openai_responses"],
)
def test_the_apis_differ_in_place_and_in_ids(
    api: Api, again: list[tuple[str, int, int]], late: list[tuple[str, int, int]]
) -> None:
    assert faults(HI, asks("a"), results("a"), asks("a"), results("a"), api=api) == []
    assert faults(HI, asks("a"), asks("a"), results("a"), api=api) == again
    assert faults(HI, asks("a"), HI, results("a"), api=api) == late


def test_ids_are_unique_within_a_message() -> None:
    assert faults(asks("a", "a"), results("a", "a")) == [("duplicate_call_id", 0, 2)]
    assert faults(asks("a", "a"), results("a")) == [("unanswered_call", 0, 1), ("duplicate_call_id", 0, 2)]


def test_ids_may_come_again_in_another_turn_unless_they_alone_match_a_result_that_is_due() -> None:
    history = (HI, asks("a"), results("a"), asks("a"), results("a"))
    assert faults(*history) == faults(*history, api=BY_ID) == []
    both_due = (HI, asks("a"), asks("a"), results("a", "a"))
    assert faults(*both_due, api=BY_ID) == [("duplicate_call_id", 2, 1)]


def test_a_call_without_id_or_name() -> None:
    assert faults(Message.assistant(call("", ""))) == [("no_call_id", 0, 0), ("no_call_name", 0, 0)]
    assert faults(Message.assistant(call("")), results("")) == [("no_call_id", 0, 0), ("orphan_result", 1, 0)]


def test_calls_and_results_in_the_wrong_role() -> None:
    assert faults(Message.user(call()), results("a")) == [("wrong_role", 0, 0)]
    assert faults(asks("a"), Message.user(ToolResult("a", "1"))) == [("wrong_role", 1, 0)]


def test_faults_come_in_the_order_of_the_history() -> None:
    history = (results("x"), asks("a", "b"), HI, results("b", "b"), Message.assistant(call("", complete=False)))
    assert faults(*history) == [
        ("orphan_result", 0, 0),
        ("unanswered_call", 1, 1),
        ("result_too_late", 3, 0),
        ("second_result", 3, 1),
        ("no_call_id", 4, 0),
        ("incomplete_call", 4, 0),
    ]


def test_a_fault_says_where_and_what_without_the_server_s_words() -> None:
    (fault,) = check_history([HI, results("secret-id")], API)
    assert str(fault) == "messages[1].parts[0]: the result of a call that is not in the history"
    assert "secret-id" not in repr(fault) + str(fault)
    assert fault.call_id == "secret-id"
    assert fault == HistoryFault("orphan_result", 1, 0, "secret-id")
    with pytest.raises(ConfigError, match=r"HistoryFault\.code"):
        HistoryFault("sad", 0, 0)


def test_every_fault_has_words() -> None:
    assert set(WORDS) == set(HistoryFaultCode)


ids = st.sampled_from("abc")


@given(
    st.lists(
        st.lists(ids, unique=True, max_size=3).flatmap(lambda each: st.tuples(st.just(each), st.permutations(each)))
    )
)
def test_honest_conversations_have_no_fault(turns: list[tuple[list[str], list[str]]]) -> None:
    history = [HI]
    for asked, answered in turns:
        history += [asks(*asked), results(*answered)]
    assert check_history(history, API) == ()


messages = st.builds(
    Message,
    st.sampled_from(Role),
    st.lists(st.one_of(ids.map(call), ids.map(lambda each: ToolResult(each, "1")), st.just("t")), max_size=3),
)


@given(st.lists(messages, max_size=6), st.sampled_from([API, BY_ID]))
def test_any_history_is_judged_and_no_fault_is_told_twice(history: list[Message], api: Api) -> None:
    found = check_history(history, api)
    assert len(set(found)) == len(found)
    assert [(fault.message, fault.part) for fault in found] == sorted((fault.message, fault.part) for fault in found)
    for fault in found:
        part = history[fault.message].parts[fault.part]
        assert isinstance(part, ToolCall | ToolResult)
        assert fault.call_id == (part.id if isinstance(part, ToolCall) else part.call_id)


@pytest.mark.parametrize("api", ["openai_chat", openai_chat, None])
def test_what_is_no_api_is_refused_also_for_an_empty_history(api: Any) -> None:
    with pytest.raises(ConfigError, match="api must be a wire API"):
        check_history([], api)


@pytest.mark.parametrize("history", ["text", [HI, "text"]])
def test_what_is_no_message_is_refused(history: Any) -> None:
    with pytest.raises(ConfigError, match="every message must be a Message, not a str"):
        check_history(history, API)

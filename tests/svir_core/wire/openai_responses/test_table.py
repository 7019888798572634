"""The tables of OpenAI Responses, whole."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ProtocolError
from svir_core.response import AnomalyCode, FinishReason
from svir_core.wire.openai_responses import table
from svir_core.wire.openai_responses.finish import ANSWERS, Told, completed, finish_of
from svir_core.wire.openai_responses.table import (
    AFTER,
    CALL_EVENTS,
    CALL_TEXTS,
    CLIENT_CALLS,
    INCOMPLETE,
    ITEMS,
    KINDS,
    PARTS,
    RESPONSES,
    TEXT_EVENTS,
    Ruling,
    State,
    Step,
    taken,
)
from svir_core.wire.policy import Policy

T, F, L, R = Ruling.TAKEN, Ruling.FORGIVEN, Ruling.LEFT_OUT, Ruling.REFUSED
STEPS = (Step.OPENS, Step.GROWS, Step.CLOSES)
EXPECTED: dict[str, dict[State, tuple[Ruling, ...]]] = {
    "RESPONSES": {State.ABSENT: (T, F, F), State.OPEN: (L, T, T)},
    "ITEMS": {State.ABSENT: (T, F, F), State.OPEN: (R, T, T), State.CLOSED: (R, L, L)},
    "PARTS": {State.ABSENT: (T, F, F), State.OPEN: (L, T, T), State.CLOSED: (L, L, T)},
}
TABLES: dict[str, Mapping[State, Mapping[Step, Ruling]]] = {"RESPONSES": RESPONSES, "ITEMS": ITEMS, "PARTS": PARTS}


@pytest.mark.parametrize("name", TABLES)
def test_every_step_in_every_state(name: str) -> None:
    rulings = {
        state: tuple(TABLES[name][state][step] for step in STEPS if step in TABLES[name][state])
        for state in TABLES[name]
    }
    assert rulings == EXPECTED[name]
    assert all(set(steps) == set(Step) for steps in TABLES[name].values())
    assert {step: AFTER[step] for step in STEPS} == {
        Step.OPENS: State.OPEN,
        Step.GROWS: State.OPEN,
        Step.CLOSES: State.CLOSED,
    }


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("lenient", [False, True])
def test_what_a_ruling_comes_to(name: str, lenient: bool) -> None:
    for state, step in itertools.product(TABLES[name], Step):
        policy = Policy(lenient)
        ruling = TABLES[name][state][step]

        def forgive(code: AnomalyCode, policy: Policy = policy) -> None:
            policy.forgive(code, 0, b"")

        if ruling is R or (ruling is not T and not lenient):
            with pytest.raises(ProtocolError):
                taken(TABLES[name], state, step, forgive)
            continue
        assert taken(TABLES[name], state, step, forgive) is (ruling is not L)
        assert [each.code for each in policy.anomalies] == ([] if ruling is T else [AnomalyCode.OUT_OF_ORDER])


@given(st.sampled_from(sorted(TABLES)), st.lists(st.sampled_from(Step), max_size=8), st.booleans())
def test_any_steps_lead_to_a_state_or_a_typed_error(name: str, steps: list[Step], lenient: bool) -> None:
    policy = Policy(lenient)
    state = State.ABSENT
    with contextlib.suppress(ProtocolError):
        for step in steps:
            if state in TABLES[name] and taken(TABLES[name], state, step, lambda code: policy.forgive(code, 0, b"")):
                state = AFTER[step]
    assert state in State
    assert lenient or not policy.anomalies


def test_events_and_parts_know_each_other() -> None:
    assert {about.part for about in TEXT_EVENTS.values()} == set(KINDS)
    assert {about.item for about in CALL_EVENTS.values()} == set(CALL_TEXTS) <= CLIENT_CALLS
    for part, kind in KINDS.items():
        steps = {about.step: about.key for about in TEXT_EVENTS.values() if about.part == part}
        assert steps == {Step.GROWS: "delta", Step.CLOSES: kind.text}
    every = [*TEXT_EVENTS, *CALL_EVENTS, *table.PART_EVENTS, *table.ITEM_EVENTS, *table.ENDS, *table.ANNOUNCED]
    assert len({*every, table.CREATED, table.FAILED, table.ERROR}) == len(every) + 3


def told(kind: str, *, refusal: bool = False, text: bool = False, **fields: object) -> Told:
    return Told({"type": kind, **fields}, refusal, text)


@pytest.mark.parametrize(
    ("items", "finish"),
    [
        ([], FinishReason.STOP),
        ([told("message", text=True)], FinishReason.STOP),
        ([told("message", refusal=True)], FinishReason.REFUSAL),
        ([told("message", refusal=True), told("message", text=True)], FinishReason.STOP),
        ([told("message", refusal=True), told("function_call")], FinishReason.TOOL_CALLS),
        ([told("mcp_approval_request"), told("custom_tool_call")], FinishReason.TOOL_CALLS),
        ([told("mcp_approval_request"), told("message", refusal=True)], FinishReason.PAUSE),
        ([told("shell_call", environment={"type": "local"})], FinishReason.TOOL_CALLS),
        ([told("shell_call", environment="local"), told("web_search_call")], FinishReason.STOP),
        ([told("tool_search_call", execution="client")], FinishReason.TOOL_CALLS),
        ([told("tool_search_call", execution=["client"])], FinishReason.STOP),
    ],
)
def test_the_finish_of_a_completed_response(items: list[Told], finish: FinishReason) -> None:
    assert completed(items) is finish
    assert len(ANSWERS) == 4


@pytest.mark.parametrize("reason", [*INCOMPLETE, "weather", None, "", 5, ["x"]])
def test_the_finish_of_an_incomplete_response(reason: object) -> None:
    codes: list[AnomalyCode] = []
    response = {"incomplete_details": {"reason": reason}}
    finish, word = finish_of(response, "incomplete", [], codes.append)
    known = INCOMPLETE.get(reason) if isinstance(reason, str) else None
    assert finish is (known or FinishReason.OTHER)
    assert word == (reason if isinstance(reason, str) and reason else "incomplete")
    assert codes == ([] if known else [AnomalyCode.UNKNOWN_FINISH])


@pytest.mark.parametrize("details", [None, "max_output_tokens", []])
def test_details_that_are_none(details: object) -> None:
    codes: list[AnomalyCode] = []
    found = finish_of({"incomplete_details": details}, "incomplete", [], codes.append)
    assert found == (FinishReason.OTHER, "incomplete")


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_response_that_works_in_the_background(status: str) -> None:
    codes: list[AnomalyCode] = []
    assert finish_of({}, status, [], codes.append) == (FinishReason.PAUSE, status)
    assert codes == []

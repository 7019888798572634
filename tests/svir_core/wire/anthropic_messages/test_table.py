"""The table itself: every state and every move, and what forgiving changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ProtocolError, SvirError, TruncatedStreamError
from svir_core.response import AnomalyCode, FinishReason
from svir_core.wire.anthropic_messages.decode import HANDLERS
from svir_core.wire.anthropic_messages.table import (
    CUT,
    DELTAS,
    FINISHES,
    MOVES,
    Forgiven,
    Move,
    State,
    step,
)


class Refused(Exception):
    """What a strict policy would raise."""


def refuse(code: AnomalyCode) -> None:
    raise Refused(code)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("move", Move)
def test_every_state_knows_every_move(state: State, move: Move) -> None:
    after = MOVES[state][move]
    codes: list[AnomalyCode] = []
    if isinstance(after, State):
        assert step(state, move, refuse) is step(state, move, codes.append) is after
        assert codes == []
    elif isinstance(after, Forgiven):
        with pytest.raises(Refused):
            step(state, move, refuse)
        assert step(state, move, codes.append) is after.state
        assert codes == [AnomalyCode.OUT_OF_ORDER]
    else:
        with pytest.raises(after[0], match=after[1]):
            step(state, move, codes.append)
        assert codes == []


def test_an_answer_is_whole_only_after_a_stop_reason() -> None:
    ends = {state: MOVES[state][Move.END] for state in State}
    assert [state for state, after in ends.items() if after is State.COMPLETE] == [State.FINISHED]
    for state in (State.START, State.OPEN, State.BLOCK):
        after = ends[state]
        assert isinstance(after, tuple)
        assert after[0] is TruncatedStreamError


def test_after_the_stop_reason_no_mode_takes_content() -> None:
    for state in (State.FINISHED, State.COMPLETE):
        for move in (Move.BLOCK, Move.DELTA, Move.STRAY_DELTA):
            after = MOVES[state][move]
            assert isinstance(after, tuple)
            assert after[0] is ProtocolError


@given(st.lists(st.sampled_from(Move), max_size=30))
def test_any_moves_lead_to_a_known_state_or_a_typed_error(moves: list[Move]) -> None:
    state = State.START
    for move in moves:
        try:
            state = step(state, move, lambda _: None)
        except SvirError:
            return
        assert state in MOVES
    assert (state is State.COMPLETE) <= (bool(moves) and moves[-1] is Move.END)


def test_the_words_of_the_api() -> None:
    assert set(FINISHES.values()) == set(FinishReason) - {FinishReason.CONTENT_FILTER, FinishReason.OTHER}
    assert {FinishReason.LENGTH, FinishReason.OTHER} == CUT
    assert set(DELTAS) == {
        "text_delta",
        "citations_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
        "compaction_delta",
    }
    assert set(HANDLERS) == {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    }

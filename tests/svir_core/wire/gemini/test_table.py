"""The tables of Gemini, whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import AuthenticationError, ProtocolError, ServerError, SvirError, TruncatedStreamError
from svir_core.response import FinishReason
from svir_core.wire.gemini.table import (
    CUT,
    FAILURES,
    FINISHES,
    MOVES,
    Move,
    State,
    step,
)

T, P = TruncatedStreamError, ProtocolError
COLUMNS = (
    Move.PART,
    Move.CALL,
    Move.CALL_OPENS,
    Move.CALL_GOES_ON,
    Move.CALL_CLOSES,
    Move.FINISH,
    Move.BLOCK,
    Move.END,
)
START, OPEN, CALL, FINISHED = State.START, State.OPEN, State.CALL, State.FINISHED
CALL_FINISHED, BLOCKED, COMPLETE, REFUSED = State.CALL_FINISHED, State.BLOCKED, State.COMPLETE, State.REFUSED
STEPS: dict[State, tuple[State | type[SvirError], ...]] = {
    START: (OPEN, OPEN, CALL, P, P, FINISHED, BLOCKED, T),
    OPEN: (OPEN, OPEN, CALL, P, P, FINISHED, OPEN, T),
    CALL: (CALL, P, P, CALL, OPEN, CALL_FINISHED, CALL, T),
    FINISHED: (OPEN, OPEN, CALL, P, P, FINISHED, FINISHED, COMPLETE),
    CALL_FINISHED: (CALL, P, P, CALL, FINISHED, CALL_FINISHED, CALL_FINISHED, COMPLETE),
    BLOCKED: (OPEN, OPEN, CALL, P, P, FINISHED, BLOCKED, REFUSED),
    COMPLETE: (P,) * len(COLUMNS),
    REFUSED: (P,) * len(COLUMNS),
}


def test_every_move_in_every_state_has_a_step() -> None:
    assert set(MOVES) == set(STEPS) == set(State)
    for moves in MOVES.values():
        assert set(moves) == set(COLUMNS) == set(Move)


@pytest.mark.parametrize("state", State)
def test_every_step(state: State) -> None:
    for move, after in zip(COLUMNS, STEPS[state], strict=True):
        if isinstance(after, State):
            assert step(state, move) is after
        else:
            with pytest.raises(after):
                step(state, move)


@given(st.lists(st.sampled_from(Move), max_size=12))
def test_any_moves_lead_to_a_state_or_a_typed_error(moves: list[Move]) -> None:
    state = START
    for move in moves:
        try:
            state = step(state, move)
        except (ProtocolError, TruncatedStreamError):
            return
    assert isinstance(state, State)


@given(st.lists(st.sampled_from([move for move in Move if move is not Move.END]), max_size=12))
def test_an_answer_is_whole_only_when_its_last_word_was_a_finish_reason(moves: list[Move]) -> None:
    state = START
    try:
        for move in moves:
            state = step(state, move)
        state = step(state, Move.END)
    except SvirError:
        return
    said = [move for move in moves if move is not Move.BLOCK]
    if state is REFUSED:
        assert not said
    else:
        after = said[len(said) - said[::-1].index(Move.FINISH) :]
        assert set(after) <= {Move.CALL_CLOSES}


def test_finish_reasons_are_one_thing_each() -> None:
    assert not FINISHES.keys() & FAILURES.keys()
    assert set(FINISHES.values()) == {
        FinishReason.STOP,
        FinishReason.LENGTH,
        FinishReason.CONTENT_FILTER,
        FinishReason.PAUSE,
    }
    assert set(FAILURES.values()) == {ServerError, AuthenticationError}
    assert {FinishReason.LENGTH, FinishReason.PAUSE, FinishReason.OTHER} == CUT

"""The tables of Chat Completions, whole."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ProtocolError, SvirError, TruncatedStreamError, UnsupportedError
from svir_core.quirk import Quirk
from svir_core.response import AnomalyCode, FinishReason
from svir_core.wire.openai_chat.table import (
    API_NAME,
    CALL_KEYS,
    CHOICE_KEYS,
    CHUNK_KEYS,
    DELTA_KEYS,
    DONE,
    EVENT_TYPES,
    FILTERED,
    MOVES,
    PLAIN,
    PROMPT_REPORT_KEYS,
    Move,
    State,
    finish_of,
    moves_with,
    step,
)
from svir_core.wire.policy import REFUSED


def test_every_move_in_every_state_has_a_step() -> None:
    assert set(MOVES) == set(State)
    for moves in MOVES.values():
        assert set(moves) == set(Move)


T, P, U = TruncatedStreamError, ProtocolError, UnsupportedError
COLUMNS = (
    Move.CONTENT,
    Move.REASONING,
    Move.CALL,
    Move.REFUSED,
    Move.FINISH,
    Move.FILTER_FINISH,
    Move.DONE,
    Move.END,
)
STEPS: dict[State, tuple[State | type[SvirError], ...]] = {
    State.START: (State.TEXT, State.START, State.CALLS, State.REFUSAL, State.FINISHED, State.FINISHED, T, T),
    State.TEXT: (State.TEXT, State.TEXT, State.CALLS, P, State.FINISHED, State.FINISHED, T, T),
    State.CALLS: (State.CALLS, State.CALLS, State.CALLS, P, State.FINISHED, State.FINISHED, T, T),
    State.REFUSAL: (P, State.REFUSAL, P, State.REFUSAL, State.FINISHED, State.FINISHED, T, T),
    State.FINISHED: (U, U, U, U, U, State.FINISHED, State.COMPLETE, T),
    State.COMPLETE: (U,) * len(COLUMNS),
}


def test_what_is_known_by_name() -> None:
    assert {"message", "error"} == EVENT_TYPES
    assert DONE == b"[DONE]"
    assert {"id", "object", "created", "model", "choices", "usage"} == CHUNK_KEYS
    assert {"index", "delta", "message", "finish_reason", "usage"} == CHOICE_KEYS
    assert {"role", "content", "reasoning_content", "reasoning", "refusal", "tool_calls"} == DELTA_KEYS
    assert {"index", "id", "type", "function"} == CALL_KEYS
    assert set(PROMPT_REPORT_KEYS) == {"prompt_filter_results", "prompt_annotations"}
    assert FILTERED == "content_filter"
    assert API_NAME == "openai_chat"


@pytest.mark.parametrize(
    ("state", "move", "words"),
    [
        (State.TEXT, Move.REFUSED, "a refusal is mixed"),
        (State.CALLS, Move.REFUSED, "a refusal is mixed"),
        (State.REFUSAL, Move.CONTENT, "a refusal is mixed"),
        *((State.FINISHED, move, "after its finish reason") for move in COLUMNS[:5]),
        *((state, Move.DONE, "before the finish reason") for state in tuple(STEPS)[:4]),
        *((state, Move.END, "before the answer did") for state in tuple(STEPS)[:5]),
        *((State.COMPLETE, move, "after its end") for move in COLUMNS),
    ],
)
def test_what_an_illegal_move_is_in_words(state: State, move: Move, words: str) -> None:
    with pytest.raises(SvirError, match=words):
        step(state, move)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(
    ("quirks", "changed"),
    [
        (Quirk(0), {}),
        (Quirk.FINISH_OPTIONAL, dict.fromkeys(itertools.product(tuple(STEPS)[:4], [Move.DONE]), State.COMPLETE)),
        (Quirk.DONE_OPTIONAL, {(State.FINISHED, Move.END): State.COMPLETE}),
        (
            Quirk.FINISH_OPTIONAL | Quirk.DONE_OPTIONAL,
            {
                **dict.fromkeys(itertools.product(tuple(STEPS)[:4], [Move.DONE]), State.COMPLETE),
                (State.FINISHED, Move.END): State.COMPLETE,
            },
        ),
    ],
)
def test_what_a_quirk_makes_legal(state: State, quirks: Quirk, changed: dict[tuple[State, Move], State]) -> None:
    moves = moves_with(quirks)
    for move in Move:
        assert moves[state][move] == changed.get((state, move), MOVES[state][move])
        if (state, move) in changed:
            assert step(state, move, moves) is changed[state, move]


@pytest.mark.parametrize("state", State)
def test_every_step(state: State) -> None:
    for move, after in zip(COLUMNS, STEPS[state], strict=True):
        if isinstance(after, State):
            assert step(state, move) is after
        else:
            with pytest.raises(after):
                step(state, move)


def follow(moves: list[Move]) -> State | SvirError:
    state = State.START
    for move in moves:
        try:
            state = step(state, move)
        except SvirError as error:
            return error
    return state


@given(st.lists(st.sampled_from(Move), max_size=12))
def test_any_moves_lead_to_a_state_or_a_typed_error(moves: list[Move]) -> None:
    assert isinstance(follow(moves), State | ProtocolError | UnsupportedError | TruncatedStreamError)


OPEN = (State.START, State.TEXT, State.CALLS, State.REFUSAL)


@pytest.mark.parametrize("state", OPEN)
def test_an_open_answer_may_finish_and_may_not_be_done(state: State) -> None:
    assert step(state, Move.FINISH) is step(state, Move.FILTER_FINISH) is State.FINISHED
    assert step(state, Move.REASONING) is state
    with pytest.raises(TruncatedStreamError):
        step(state, Move.DONE)


def test_a_refusal_mixes_with_nothing() -> None:
    for state, move in (
        (State.TEXT, Move.REFUSED),
        (State.CALLS, Move.REFUSED),
        (State.REFUSAL, Move.CONTENT),
        (State.REFUSAL, Move.CALL),
    ):
        with pytest.raises(ProtocolError):
            step(state, move)


def test_text_and_calls_mix() -> None:
    assert step(step(State.START, Move.CONTENT), Move.CALL) is State.CALLS
    assert step(step(State.START, Move.CALL), Move.CONTENT) is State.CALLS


@pytest.mark.parametrize("move", [Move.CONTENT, Move.REASONING, Move.CALL, Move.REFUSED, Move.FINISH])
def test_nothing_follows_the_finish(move: Move) -> None:
    with pytest.raises(UnsupportedError):
        step(State.FINISHED, move)


def test_after_the_finish_the_filter_may_speak_and_the_stream_be_done() -> None:
    assert step(State.FINISHED, Move.FILTER_FINISH) is State.FINISHED
    assert step(State.FINISHED, Move.DONE) is State.COMPLETE
    for move in Move:
        with pytest.raises(UnsupportedError):
            step(State.COMPLETE, move)


FINISH = {
    ("stop", State.START): FinishReason.STOP,
    ("stop", State.TEXT): FinishReason.STOP,
    ("stop", State.CALLS): FinishReason.TOOL_CALLS,
    ("stop", State.REFUSAL): FinishReason.REFUSAL,
    ("tool_calls", State.CALLS): FinishReason.TOOL_CALLS,
    ("length", State.START): FinishReason.LENGTH,
    ("length", State.TEXT): FinishReason.LENGTH,
    ("length", State.CALLS): FinishReason.LENGTH,
    ("length", State.REFUSAL): FinishReason.REFUSAL,
    ("content_filter", State.START): FinishReason.CONTENT_FILTER,
    ("content_filter", State.TEXT): FinishReason.CONTENT_FILTER,
    ("content_filter", State.REFUSAL): FinishReason.CONTENT_FILTER,
}


@pytest.mark.parametrize(
    ("word", "answer"), list(itertools.product(("stop", "tool_calls", "length", "content_filter"), OPEN))
)
def test_every_finish_of_every_answer(word: str, answer: State) -> None:
    if (word, answer) in FINISH:
        assert finish_of(word, answer) is FINISH[word, answer]
    else:
        with pytest.raises(ProtocolError, match=word):
            finish_of(word, answer)


@pytest.mark.parametrize("word", ["", "STOP", "end_turn"])
def test_another_word_is_other_but_for_a_refusal(word: str) -> None:
    assert [finish_of(word, answer) for answer in OPEN] == [FinishReason.OTHER] * 3 + [FinishReason.REFUSAL]


def test_plain_keys_are_those_that_move_nothing() -> None:
    assert {
        State.START: {"reasoning", "reasoning_content"},
        State.TEXT: {"content", "reasoning", "reasoning_content"},
        State.CALLS: {"content", "reasoning", "reasoning_content", "tool_calls"},
        State.REFUSAL: {"reasoning", "reasoning_content"},
        State.FINISHED: frozenset(),
        State.COMPLETE: frozenset(),
    } == PLAIN
    assert all(keys <= DELTA_KEYS for keys in PLAIN.values())


def test_every_anomaly_has_its_refusal() -> None:
    assert set(AnomalyCode) - set(REFUSED) == {AnomalyCode.UNTERMINATED_EVENT}
    for error, detail in REFUSED.values():
        assert issubclass(error, ProtocolError | UnsupportedError)
        assert detail

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError
from svir_core.exchange_table import TRANSITIONS, Signal, State, advance

LEGAL = {
    ("ready", "start"): "sent",
    ("ready", "failed"): "over",
    ("sent", "accepted"): "answer",
    ("sent", "refused"): "refusal",
    ("sent", "failed"): "over",
    ("answer", "data"): "answer",
    ("answer", "end"): "over",
    ("answer", "failed"): "over",
    ("refusal", "data"): "refusal",
    ("refusal", "retry"): "sent",
    ("refusal", "end"): "over",
    ("refusal", "failed"): "over",
    ("over", "data"): "over",
    ("over", "end"): "over",
    ("over", "failed"): "over",
}


def test_the_words_of_states_and_signals() -> None:
    assert {str(state) for state in State} == {word for word, _ in LEGAL}
    assert {str(signal) for signal in Signal} == {word for _, word in LEGAL}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("signal", Signal)
def test_every_state_and_signal_has_an_answer(state: State, signal: Signal) -> None:
    after = LEGAL.get((state.value, signal.value))
    if after is not None:
        assert advance(state, signal) is State(after)
        return
    with pytest.raises(ConfigError) as caught:
        advance(state, signal)
    assert state.value in str(caught.value)
    assert signal.value in str(caught.value)
    assert caught.value.__context__ is None


def test_over_is_for_ever_and_every_state_can_fail() -> None:
    for (state, signal), after in TRANSITIONS.items():
        assert state is not State.OVER or after is State.OVER
        assert signal is not Signal.FAILED or after is State.OVER
    assert all(TRANSITIONS[state, Signal.FAILED] is State.OVER for state in State)


def test_every_state_can_be_reached() -> None:
    reached = {State.READY}
    while more := {after for (state, _), after in TRANSITIONS.items() if state in reached} - reached:
        reached |= more
    assert reached == set(State)


@given(st.lists(st.sampled_from(list(Signal))))
def test_any_sequence_ends_in_a_state_or_an_error(signals: list[Signal]) -> None:
    state = State.READY
    for signal in signals:
        try:
            state = advance(state, signal)
        except ConfigError:
            assert (state, signal) not in TRANSITIONS
            return
    assert isinstance(state, State)

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from svir_core.errors import ProtocolError
from svir_core.event import Completed, Event, Events, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.response import Completion

ONE = TextDelta("a")
TWO = ReasoningDelta("think", "b")
ERROR = ProtocolError("broken")


@pytest.mark.parametrize(
    ("event", "other"),
    [
        (ONE, TextDelta("b")),
        (TWO, ReasoningDelta("reasoning", "b")),
        (ToolCallDelta(0, "id", None, "{"), ToolCallDelta(0, "id", None, None)),
        (Completed(Completion("stop")), Completed(Completion("length"))),
    ],
)
def test_an_event_is_a_value(event: Event, other: Event) -> None:
    assert pickle.loads(pickle.dumps(event)) == event
    assert event != other
    assert not hasattr(event, "__dict__")


@pytest.mark.parametrize("delta", [ONE, TWO, ToolCallDelta(0, None, None, None)])
def test_deltas_hash_by_value(delta: Event) -> None:
    assert hash(pickle.loads(pickle.dumps(delta))) == hash(delta)


def test_events_are_a_sequence() -> None:
    events: Sequence[Event] = Events([ONE, TWO])
    assert list(events) == [ONE, TWO]
    assert len(events) == 2
    assert events[1] is TWO
    assert events[-1:] == [TWO]
    assert ONE in events
    assert not Events()
    assert repr(Events([ONE])) == "Events([TextDelta(text='a')])"


def test_an_error_is_raised_after_the_last_event() -> None:
    events = Events([ONE, TWO], ERROR)
    seen: list[Event] = []
    with pytest.raises(ProtocolError) as caught:
        seen.extend(events)
    assert seen == [ONE, TWO]
    assert caught.value is ERROR
    assert repr(events).endswith(", error=ProtocolError('broken'))")


def test_only_iterating_to_the_error_counts_as_seeing_it() -> None:
    events = Events([ONE], ERROR)
    assert (len(events), events[0], list(events.items), events.error) == (1, ONE, [ONE], ERROR)
    iterator = iter(events)
    assert next(iterator) == ONE
    assert not events.error_seen
    with pytest.raises(ProtocolError):
        next(iterator)
    assert events.error_seen
    assert Events([ONE]).error_seen


def test_throw_raises_only_an_error() -> None:
    Events([ONE]).throw()
    events = Events([ONE], ERROR)
    with pytest.raises(ProtocolError):
        events.throw()
    assert events.error_seen


def test_events_compare_by_value() -> None:
    other: Any
    assert Events([ONE], ERROR) == Events((ONE,), ProtocolError("broken"))
    assert hash(Events([ONE], ERROR)) == hash(Events((ONE,), ProtocolError("broken")))
    for other in (Events([TWO], ERROR), Events([ONE]), Events([ONE], ProtocolError("x")), [ONE]):
        assert Events([ONE], ERROR) != other

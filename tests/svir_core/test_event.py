"""Events, and the sequence that carries them and their error."""

from __future__ import annotations

import pickle

import pytest

from svir_core.errors import ProtocolError
from svir_core.event import Event, Events, ReasoningDelta, TextDelta, ToolCallDelta

ITEMS: list[Event] = [TextDelta("a"), ReasoningDelta("think", "b"), ToolCallDelta(0, "i", None, "{")]


def test_events_compare_and_hash_by_value() -> None:
    assert TextDelta("a") == TextDelta("a")
    assert TextDelta("a") != TextDelta("b")
    assert len({TextDelta("a"), TextDelta("a"), ReasoningDelta("x", "a"), ReasoningDelta("y", "a")}) == 3
    assert hash(ITEMS[2]) == hash(ToolCallDelta(0, "i", None, "{"))


def test_a_sequence_without_an_error() -> None:
    events = Events(ITEMS)
    assert (len(events), events[0], events[1:]) == (3, ITEMS[0], ITEMS[1:])
    assert list(events) == list(events.items) == ITEMS
    assert (events.error, events.error_seen) == (None, True)
    events.throw()
    assert not Events()
    assert ITEMS[1] in events


def test_iterating_raises_the_error_after_the_last_event() -> None:
    events = Events(ITEMS, ProtocolError("bad"))
    assert (len(events), events[-1], list(events.items)) == (3, ITEMS[2], ITEMS)
    assert not events.error_seen
    iterator = iter(events)
    assert [next(iterator) for _ in ITEMS] == ITEMS
    assert not events.error_seen
    with pytest.raises(ProtocolError, match="bad"):
        next(iterator)
    assert events.error_seen


def test_throw_raises_the_error() -> None:
    events = Events((), ProtocolError("bad"))
    with pytest.raises(ProtocolError):
        events.throw()
    assert events.error_seen


def test_sequences_compare_by_value() -> None:
    assert Events(ITEMS) == Events(tuple(ITEMS))
    assert Events(ITEMS) != Events(ITEMS[:1])
    assert Events(ITEMS) != Events(ITEMS, ProtocolError("bad"))
    assert Events(ITEMS, ProtocolError("bad")) == Events(ITEMS, ProtocolError("bad"))
    assert Events(ITEMS) != ITEMS
    assert hash(Events(ITEMS)) == hash(Events(tuple(ITEMS)))
    assert pickle.loads(pickle.dumps(Events(ITEMS, ProtocolError("bad")))) == Events(ITEMS, ProtocolError("bad"))


def test_a_sequence_shows_what_it_holds() -> None:
    assert repr(Events(ITEMS[:1])) == "Events([TextDelta(text='a')])"
    assert repr(Events((), ProtocolError("bad"))) == "Events([], error=ProtocolError('bad'))"

"""The messages of a session, as they are added one by one, and looked at meanwhile."""

from __future__ import annotations

import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client import Session
from svir_client.session.messages import Messages
from svir_client.session.unsaved import Unsaved
from svir_core import Message

MESSAGES = [Message.user(str(number)) for number in range(8)]


@given(st.lists(st.tuples(st.sampled_from("acs"), st.integers(0, 7))))
def test_they_are_as_a_tuple_would_be(steps: list[tuple[str, int]]) -> None:
    messages = Messages(())
    model: tuple[Message, ...] = ()
    for step, number in steps:
        if step == "a":
            messages.add(MESSAGES[:number])
            model += tuple(MESSAGES[:number])
        elif step == "c":
            messages.cut(number)
            model = model[:number]
        else:
            assert messages.seen() == model
            assert messages.seen() is messages.seen()
        assert len(messages) == len(model)
    assert messages.seen() == model


def test_what_was_seen_does_not_change() -> None:
    session = Session(messages=MESSAGES[:2])
    before = session.messages
    session.append(MESSAGES[2])
    assert before == tuple(MESSAGES[:2])
    assert session.messages == tuple(MESSAGES[:3])


@pytest.mark.parametrize("stored", [False, True])
def test_a_session_takes_messages_one_by_one_without_copying_those_before(stored: bool) -> None:
    messages, unsaved = Messages(()), Unsaved(0, "", "")
    lists = messages._list, unsaved._fresh
    for number in range(1000):
        messages.add(MESSAGES[:1])
        unsaved.append(("{}",))
        if stored and number % 100 == 99:
            change = unsaved.begin()
            assert change is not None
            assert len(change.append) == 100
            unsaved.end()
    assert lists[0] is messages._list
    assert lists[1] is unsaved._fresh
    assert len(messages) == 1000
    assert len(unsaved._fresh) == (0 if stored else 1000)


def test_who_looks_meanwhile_sees_what_there_was_at_some_moment() -> None:
    messages, over, seen = Messages(()), threading.Event(), list[int]()

    def look() -> None:
        while not over.is_set():
            seen.append(len(messages.seen()))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread = threading.Thread(target=look)
        thread.start()
        for number in range(2000):
            messages.add(MESSAGES[:2])
            assert len(messages.seen()) == 2 * (number + 1)
        over.set()
        thread.join(20)
    finally:
        sys.setswitchinterval(interval)
    assert not thread.is_alive()
    assert seen == sorted(seen)
    assert all(length % 2 == 0 for length in seen)

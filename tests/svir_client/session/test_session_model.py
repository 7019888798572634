"""A session, its lease, and what a store does not have of it yet, against models of each (hypothesis)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from svir_client import Session
from svir_client.session import SessionChange, SessionLease
from svir_client.session.unsaved import Unsaved
from svir_core import ConfigError, Message, Request, SessionInUseError, ToolLoop

WORDS = st.sampled_from(["a", "b", "c"])
SOME = st.lists(WORDS.map(Message.user), max_size=3)


class SessionMachine(RuleBasedStateMachine):
    """What a session holds is what was last put into it, by whoever had it."""

    def __init__(self) -> None:
        super().__init__()
        self.session = Session("model")
        self.lease: SessionLease | None = None
        self.released: list[SessionLease] = []
        self.messages: list[Message] = []
        self.system: str | None = None
        self.suspended: str | None = None
        self.start = 0

    @rule(messages=SOME)
    def append(self, messages: list[Message]) -> None:
        if self.lease is not None:
            with pytest.raises(SessionInUseError):
                self.session.append(*messages)
            return
        self.session.append(*messages)
        self.messages += messages
        if messages:
            self.suspended = None

    @rule(text=WORDS)
    def set_system(self, text: str) -> None:
        if self.lease is not None or self.messages:
            kind: Any = SessionInUseError if self.lease is not None else ConfigError
            with pytest.raises(kind):
                self.session.set_system(text)
            return
        self.session.set_system(text)
        self.system = text

    @rule()
    def clear(self) -> None:
        if self.lease is not None:
            with pytest.raises(SessionInUseError):
                self.session.clear()
            return
        self.session.clear()
        self.messages, self.suspended = [], None

    @rule()
    def take(self) -> None:
        if self.lease is not None:
            with pytest.raises(SessionInUseError):
                self.session.lease()
            return
        self.lease = self.session.lease()

    @precondition(lambda self: self.lease is not None)
    @rule()
    def release(self) -> None:
        assert self.lease is not None
        self.lease.release()
        self.released.append(self.lease)
        self.lease = None

    @precondition(lambda self: self.released)
    @rule(messages=SOME)
    def use_what_was_released(self, messages: list[Message]) -> None:
        self.released[-1].release()
        with pytest.raises(ConfigError):
            self.released[-1].append(messages)

    @precondition(lambda self: self.lease is not None)
    @rule(messages=SOME)
    def append_by_lease(self, messages: list[Message]) -> None:
        assert self.lease is not None
        self.lease.append(messages)
        self.messages += messages

    @precondition(lambda self: self.lease is not None)
    @rule(count=st.integers(0, 12))
    def truncate(self, count: int) -> None:
        assert self.lease is not None
        if count > len(self.messages):
            with pytest.raises(ConfigError):
                self.lease.truncate(count)
            return
        self.lease.truncate(count)
        del self.messages[count:]
        if self.start >= count:
            self.suspended = None

    @precondition(lambda self: self.lease is not None)
    @rule(model=st.none() | WORDS, start=st.integers(0, 6))
    def suspend(self, model: str | None, start: int) -> None:
        assert self.lease is not None
        loop = None if model is None else ToolLoop(Request(model).user("?"), start=start)
        if loop is not None and start >= len(self.messages):
            with pytest.raises(ConfigError):
                self.lease.suspend(loop)
            return
        self.lease.suspend(loop)
        self.suspended, self.start = model, start

    @rule()
    def store_and_load(self) -> None:
        if self.lease is None:
            self.session = Session.loads(self.session.dumps())
            self.released = []

    @rule()
    def fork(self) -> None:
        fork = self.session.fork()
        assert (fork.system, list(fork.messages), fork.suspended) == (self.system, self.messages, None)

    @invariant()
    def it_is_what_was_put_into_it(self) -> None:
        assert list(self.session.messages) == self.messages
        assert self.session.system == self.system
        assert self.session.in_use is (self.lease is not None)
        suspended = self.session.suspended
        assert (None if suspended is None else suspended.request.model) == self.suspended
        assert suspended is None or list(suspended.request.messages) == self.messages


class UnsavedMachine(RuleBasedStateMachine):
    """Whatever changes while a save is under way, and whether one that failed was made or not: after the next that
    succeeds the store has what the session has, and no save writes a message twice that was stored and stayed."""

    def __init__(self) -> None:
        super().__init__()
        self.unsaved = Unsaved(0, "", "")
        self.texts: list[str] = []
        self.head = ""
        self.stored: list[str] = []
        self.stored_head = ""
        self.under_way: SessionChange | None = None
        self.wanted: tuple[list[str], str] = ([], "")
        self.count = 0
        self.acknowledged = 0
        """Messages that are stored for certain, and stayed."""

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        texts = [str(self.count + number) for number in range(count)]
        self.count += count
        self.texts += texts
        self.unsaved.append(tuple(texts))

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, len(self.texts)))
        del self.texts[count:]
        self.acknowledged = min(self.acknowledged, count)
        self.unsaved.truncate(count)

    @rule(head=WORDS)
    def replace_head(self, head: str) -> None:
        self.head = head
        self.unsaved.replace_head(head)

    @precondition(lambda self: self.under_way is None)
    @rule()
    def begin(self) -> None:
        self.under_way = self.unsaved.begin()
        if self.under_way is None:
            assert (self.stored, self.stored_head) == (self.texts, self.head)
            return
        assert self.under_way.keep == self.acknowledged
        self.wanted = (list(self.texts), self.head)

    @precondition(lambda self: self.under_way is not None)
    @rule()
    def fail_without_writing(self) -> None:
        self.under_way = None

    @precondition(lambda self: self.under_way is not None)
    @rule()
    def fail_after_writing(self) -> None:
        self._write()
        self.under_way = None

    @precondition(lambda self: self.under_way is not None)
    @rule()
    def end(self) -> None:
        self._write()
        assert (self.stored, self.stored_head) == self.wanted
        self.under_way = None
        self.unsaved.end()
        same = [old == new for old, new in zip(self.stored, self.texts, strict=False)]
        self.acknowledged = same.index(False) if False in same else len(same)

    def _write(self) -> None:
        change = self.under_way
        assert change is not None
        assert change.keep <= len(self.stored)
        self.stored[change.keep :] = change.append
        self.stored_head = change.head


SessionMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
UnsavedMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40)
TestSession = SessionMachine.TestCase
TestUnsaved = UnsavedMachine.TestCase

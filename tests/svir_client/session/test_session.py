"""Sessions in memory: what they take, who may change them, and their JSON form."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from svir_client import Session
from svir_client.session import SessionLease
from svir_core import (
    BytesSource,
    Completion,
    ConfigError,
    Image,
    Message,
    PathSource,
    Reasoning,
    Request,
    SessionInUseError,
    Text,
    ToolCall,
    ToolLoop,
    ToolResult,
)
from svir_core.wire import openai_chat

USER = Message.user("Hello!")
ANSWER = Message.assistant(Reasoning("think", "Hm."), "Hi.")
CALL = ToolCall("call_1", "lookup", "{}")
SECONDS = 20


def suspended() -> ToolLoop:
    """A generation that waits for the result of a call."""
    loop = ToolLoop(Request("m", system="Be brief.").message(ANSWER, USER))
    loop.model_answered(Completion("tool_calls", [CALL]))
    return loop


def in_use(session: Session) -> bool:
    """Whether it is now: a checker takes a property for what it was."""
    return session.in_use


def is_suspended(session: Session) -> bool:
    """The same of what it has suspended."""
    return session.suspended is not None


def test_what_it_is_made_of() -> None:
    session = Session("alice", system="Be brief.", messages=[USER, ANSWER])
    assert (session.id, session.system, session.messages) == ("alice", "Be brief.", (USER, ANSWER))
    assert session.suspended is None
    assert not in_use(session)
    assert repr(session) == "<Session 'alice', 2 messages>"
    with session.lease() as lease:
        assert lease.session is session
        assert in_use(session)
        assert repr(lease) == "<SessionLease of <Session 'alice', 2 messages, in use>>"


def test_an_id_is_unique_across_processes() -> None:
    program = "from svir_client import Session; print(Session().id, Session().id)"
    ids = [Session().id]
    for _ in range(2):
        ids += subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
        ).stdout.split()
    assert len(set(ids)) == 5
    assert all(len(id) == 32 for id in ids)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "an empty id": (lambda: Session(""), "the id of a session is a text"),
    "half a character in the id": (lambda: Session("\ud83d"), "the id of a session is a text"),
    "NUL in the id": (lambda: Session("a\0"), "the id of a session is a text"),
    "an id that is no text": (lambda: Session(any_value(1)), "the id of a session must be a str, not an int"),
    "an empty system": (lambda: Session(system=""), "must not be empty"),
    "a system that is no text": (lambda: Session(system=any_value(1)), "instruction of a session must be a str"),
    "a message of the system": (lambda: Session(messages=[USER, Message.system("x")]), "message 1 .* is the system's"),
    "no message": (lambda: Session(messages=[any_value("x")]), "message 0 .* is a str, not a Message"),
    "nothing to iterate": (lambda: Session(messages=any_value(1)), "an int cannot be iterated"),
    "append of the system": (lambda: Session().append(Message.system("x")), "message 0 .* is the system's"),
    "append of a text": (lambda: Session().append(any_value("x")), "message 0 .* is a str"),
    "set_system of nothing": (lambda: Session().set_system(""), "must not be empty"),
}


def any_value(value: Any) -> Any:
    """A value as a caller without a type checker gives it."""
    return value


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong(name: str) -> None:
    make, words = WRONG[name]
    with pytest.raises(ConfigError, match=words):
        make()


def test_the_system_instruction_comes_before_the_messages() -> None:
    session = Session()
    session.set_system("One.")
    session.set_system("Two.")
    session.append(USER, ANSWER)
    with pytest.raises(ConfigError, match="before the first message"):
        session.set_system("Three.")
    assert session.system == "Two."
    session.state.set("kept", 1)
    session.clear()
    assert (session.messages, session.system) == ((), "Two.")
    assert session.state.get("kept", int) == 1
    session.set_system("Three.")
    assert session.system == "Three."


def test_the_order_of_what_is_checked() -> None:
    session = Session(messages=[USER])
    with session.lease():
        with pytest.raises(ConfigError, match="empty"):
            session.set_system("")
        with pytest.raises(SessionInUseError):
            session.set_system("later")
        with pytest.raises(ConfigError, match="system's"):
            session.append(Message.system("x"))
        with pytest.raises(SessionInUseError):
            session.append(USER)


def test_nobody_else_changes_a_session_that_is_leased() -> None:
    session = Session(messages=[USER])
    with session.lease() as lease:
        changes: list[Callable[[], object]] = [session.clear, session.lease, lambda: session.append(ANSWER)]
        changes.append(lambda: session.set_system("x"))
        for change in changes:
            with pytest.raises(SessionInUseError, match="a generation has this session") as caught:
                change()
            assert caught.value.__context__ is None
        lease.append([ANSWER])
        assert list(session.messages) == [USER, ANSWER]
        assert session.check_history(openai_chat.API) == ()
        session.state.set("key", 1)
        session.dumps()
        session.fork().append(USER)
    session.append(USER)
    assert list(session.messages) == [USER, ANSWER, USER]


def test_a_lease_that_was_released_changes_nothing() -> None:
    session = Session(messages=[USER])
    lease = session.lease()
    lease.release()
    following = session.lease()
    lease.release()
    assert in_use(session)
    changes: list[Callable[[], object]] = [lambda: lease.append([ANSWER]), lambda: lease.truncate(0)]
    told: list[bool] = []
    changes.append(lambda: lease.suspend(None))
    changes.append(lambda: lease.advance([ANSWER], None, tell=lambda: told.append(True)))
    for change in changes:
        with pytest.raises(ConfigError, match="this lease was released"):
            change()
    assert (session.messages, told) == ((USER,), [])
    following.release()
    assert not in_use(session)


def test_a_lease_is_released_by_an_exception_and_when_nobody_holds_it() -> None:
    session = Session()
    with pytest.raises(KeyError), session.lease():
        raise KeyError
    assert not in_use(session)
    lease = session.lease()
    assert in_use(session)
    del lease
    gc.collect()
    session.append(USER)


def test_truncate() -> None:
    session = Session(messages=[USER, ANSWER, USER])
    with session.lease() as lease:
        lease.truncate(3)
        lease.truncate(1)
        for count in (2, -1, any_value("1"), any_value(True)):
            with pytest.raises(ConfigError):
                lease.truncate(count)
    assert session.messages == (USER,)


def test_a_suspended_generation_is_kept_as_a_copy_over_the_history() -> None:
    session = Session(messages=[ANSWER, USER])
    loop = suspended()
    with session.lease() as lease:
        lease.suspend(loop)
        loop.tools_answered([ToolResult(CALL.id, "42")])
        kept = session.suspended
        assert kept == suspended()
        assert kept is not None
        kept.tools_answered([ToolResult(CALL.id, "43")])
        assert session.suspended == suspended()
        lease.append([USER])
        assert session.suspended == suspended().with_history([ANSWER, USER, USER])
        with pytest.raises(ConfigError, match=r"SessionLease.suspend\(loop\) must be a ToolLoop"):
            lease.suspend(any_value("loop"))
        lease.suspend(None)
        assert not is_suspended(session)
        lease.suspend(loop)
    session.clear()
    assert not is_suspended(session)


def begun(start: int) -> ToolLoop:
    return ToolLoop(Request("m").message(USER), start=start)


def test_a_generation_that_began_after_the_last_message_is_not_kept() -> None:
    session = Session(messages=[USER, ANSWER])
    told: list[bool] = []
    with session.lease() as lease:
        lease.suspend(begun(1))
        for start in (2, 2**70):
            with pytest.raises(ConfigError, match=rf"suspend\(loop\), its start: {start}, and there are 2 messages"):
                lease.suspend(begun(start))
        with pytest.raises(ConfigError, match=r"advance\(loop\), its start: 3, and there are 3 messages"):
            lease.advance([USER], begun(3), tell=lambda: told.append(True))
        assert (session.messages, told) == ((USER, ANSWER), [])
        assert session.suspended == begun(1).with_history([USER, ANSWER])
        lease.advance([USER], begun(2), tell=lambda: told.append(True))
    assert told == [True]
    assert Session.loads(session.dumps()).suspended == session.suspended == begun(2).with_history(session.messages)


def test_who_is_told_of_a_step_and_takes_away_what_it_stands_on_gets_no_session_that_cannot_be_read() -> None:
    session = Session(messages=[USER, ANSWER])
    with session.lease() as lease, pytest.raises(ConfigError, match="its start: 2, and there are 1 messages"):
        lease.advance([USER], begun(2), tell=lambda: lease.truncate(0))
    assert (session.messages, session.suspended) == ((), None)


@pytest.mark.parametrize(("count", "stays"), [(3, True), (2, True), (1, False), (0, False)])
def test_what_is_taken_back_takes_a_generation_that_began_there_with_it(count: int, stays: bool) -> None:
    session = Session(system="Be brief.", messages=[USER, ANSWER, USER])
    with session.lease() as lease:
        lease.suspend(begun(1))
        lease.truncate(count)
        assert is_suspended(session) is stays
        lease.suspend(begun(0) if count else None)  # what was suspended before the turn that is taken back
    again = Session.loads(session.dumps())
    assert (again.system, again.messages, again.suspended) == (session.system, session.messages, session.suspended)


def test_who_appends_by_himself_gives_up_what_was_suspended() -> None:
    session = Session(messages=[ANSWER, USER])
    with session.lease() as lease:
        lease.suspend(suspended())
    session.append()
    assert is_suspended(session)
    session.append(USER)
    assert not is_suspended(session)


def test_a_fork_goes_its_own_way() -> None:
    session = Session("alice", system="Be brief.", messages=[USER])
    session.state.set("key", 1)
    with session.lease() as lease:
        lease.suspend(begun(0))
        fork = session.fork()
    assert (fork.system, fork.messages, fork.suspended) == ("Be brief.", (USER,), None)
    assert "key" not in fork.state
    assert fork.id != "alice"
    assert not fork.in_use
    fork.append(ANSWER)
    assert session.messages == (USER,)
    assert session.fork("bob").id == "bob"


@pytest.mark.parametrize("with_loop", [False, True])
@pytest.mark.parametrize("system", [None, "Be brief."])
def test_loads_is_the_inverse_of_dumps(with_loop: bool, system: str | None) -> None:
    messages = [USER, ANSWER, Message.user(Image(BytesSource(b"\0\xff"), "image/png"), Text("?"))]
    session = Session("alice", system=system, messages=messages)
    session.state.set("key", 1)
    if with_loop:
        with session.lease() as lease:
            lease.suspend(suspended())
    data = session.dumps()
    again = Session.loads(data)
    assert (again.id, again.system, again.messages) == (session.id, session.system, session.messages)
    assert again.suspended == session.suspended
    assert (again.suspended is None) is not with_loop
    assert "key" not in again.state
    assert again.dumps() == data == Session.loads(data.decode()).dumps()


def test_the_documented_form() -> None:
    with (session := Session("alice", system="Be brief.", messages=[USER])).lease() as lease:
        lease.suspend(ToolLoop(Request("m").message(USER)))
    assert json.loads(session.dumps()) == {
        "type": "session",
        "id": "alice",
        "system": "Be brief.",
        "messages": [{"type": "message", "role": "user", "parts": [{"type": "text", "text": "Hello!"}]}],
        "suspended": {"type": "tool_loop", "request": {"type": "request", "model": "m"}, "start": 0},
    }
    assert Session("a").dumps() == b'{"type":"session","id":"a"}'


@pytest.mark.parametrize(
    ("document", "detail"),
    [
        ("{", "$: not JSON, at character 1"),
        ("[]", "$: expected an object with a type, got an array"),
        ('{"type":"message","role":"user","parts":[]}', "$.type: expected 'session', got 'message'"),
        ('{"type":"session"}', "$.id: is missing"),
        ('{"type":"session","id":""}', "$: the id of a session is a text of valid Unicode, not empty, without NUL"),
        ('{"type":"session","id":"a","system":""}', "$: the system instruction of a session must not be empty"),
        ('{"type":"session","id":"a","state":{}}', "$.state: 'session' has no such field"),
        ('{"type":"session","id":"a","messages":[{"type":"text","text":""}]}', "$.messages[0].type: "),
        (
            '{"type":"session","id":"a","messages":[{"type":"message","role":"user","parts":[{"type":"text"}]}]}',
            "$.messages[0].parts[0].text: is missing",
        ),
        (
            '{"type":"session","id":"a","messages":[{"type":"message","role":"system","parts":[]}]}',
            "$: message 0 for a session is the system's",
        ),
        ('{"type":"session","id":"a","suspended":{"type":"tool_loop"}}', "$.suspended.request: is missing"),
    ],
)
def test_a_wrong_document_is_named_by_its_path(document: str, detail: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Session.loads(document)
    assert caught.value.detail.startswith(detail)


def test_a_message_without_a_json_form_is_named_by_its_path() -> None:
    session = Session(messages=[USER, Message.user(Image(PathSource("\udcff.png"), "image/png"))])
    with pytest.raises(ConfigError, match=r"^\$\.messages\[1\]\.parts\[0\]\.source\.path: "):
        session.dumps()


def test_check_history() -> None:
    session = Session(messages=[USER, Message.assistant(CALL)])
    assert [str(fault) for fault in session.check_history(openai_chat.API)] == [
        "messages[1].parts[0]: a call without a result"
    ]


def test_of_many_threads_one_gets_the_lease_and_no_message_is_lost() -> None:
    session = Session()
    barrier = threading.Barrier(8)
    refused: list[SessionInUseError] = []
    held: list[SessionLease] = []

    def work(number: int) -> None:
        barrier.wait(SECONDS)
        for count in range(200):
            try:
                with session.lease() as lease:
                    held.append(lease)
                    assert len(held) == 1
                    lease.append([Message.user(f"{number} {count}")])
                    held.remove(lease)
            except SessionInUseError as error:
                refused.append(error)
            assert session.messages == session.messages[: len(session.messages)]
            session.dumps()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert len(session.messages) + len(refused) == 1600
    assert len(set(session.messages)) == len(session.messages)
    assert not in_use(session)


def test_a_session_and_its_lease_are_one_of_a_kind() -> None:
    session = Session()
    for value in (session, session.lease()):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(ConfigError, match="one of a kind"):
                copied(value)


@pytest.mark.anyio
async def test_saving_without_a_store_does_nothing() -> None:
    session = Session()
    with session.lease() as lease:
        await lease.save()
    with pytest.raises(ConfigError, match="this lease was released"):
        await lease.save()

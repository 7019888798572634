"""The state of a session: typed, atomic over threads, and nowhere to be seen."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from svir_client import SessionState
from svir_core import ConfigError
from svir_core.check import an

SECONDS = 20


def any_value(value: Any) -> Any:
    """A value as a caller without a type checker gives it."""
    return value


def half(count: int) -> float:
    return count / 2


def test_values_come_and_go() -> None:
    state = SessionState()
    assert state.get("list", list) is None
    value = [1]
    state.set("list", value)
    assert state.get("list", list) is value
    assert state.contains("list")
    assert "list" in state
    assert state.erase("list")
    assert not state.erase("list")
    assert "list" not in state
    state.set("a", 1)
    state.set("b", None)
    assert "b" in state
    state.clear()
    assert "a" not in state
    assert "b" not in state


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (1, int, True),
        (True, bool, True),
        (True, int, False),
        (True, object, True),
        (1, bool, False),
        (1, float, False),
        ("a", str, True),
        ("a", bytes, False),
        (KeyError(), Exception, True),
        (None, str, False),
    ],
)
def test_a_value_has_a_type(value: object, kind: type, fits: bool) -> None:
    state = SessionState()
    state.set("key", value)
    if fits:
        assert state.get("key", kind) is value
        return
    with pytest.raises(ConfigError) as caught:
        state.get("key", kind)
    assert caught.value.detail == f"SessionState['key'] is {an(type(value))}, not {an(kind)}"


def test_a_type_is_a_class() -> None:
    state = SessionState()
    state.set("key", [1])
    wrong: Any = list[int]
    with pytest.raises(ConfigError, match="by its class"):
        state.get("key", wrong)


def test_update_begins_and_goes_on() -> None:
    state = SessionState()
    assert state.update("count", 10, lambda count: count + 1) == 11
    assert state.update("count", 0, lambda count: count + 1) == 12
    assert state.get("count", int) == 12


def test_update_keeps_the_type() -> None:
    state = SessionState()
    state.set("key", "text")
    with pytest.raises(ConfigError, match="is a str, not an int"):
        state.update("key", 0, lambda count: count + 1)
    assert state.get("key", str) == "text"
    with pytest.raises(ConfigError, match="is a float, not an int"):
        state.update("other", 0, any_value(half))
    assert "other" not in state
    assert state.update("key", None, lambda _: None) is None
    assert "key" in state


def test_an_update_that_raises_changes_nothing() -> None:
    state = SessionState()

    def fail(count: int) -> int:
        raise KeyError(count)

    with pytest.raises(KeyError):
        state.update("count", 0, fail)
    assert "count" not in state
    assert state.update("count", 0, lambda count: count + 1) == 1


def test_an_async_function_is_refused() -> None:
    state = SessionState()

    async def later(count: Any) -> Any:
        return count

    with pytest.raises(ConfigError, match="not async"):
        state.update("count", 0, any_value(later))
    assert "count" not in state


TOUCHES: dict[str, Callable[[SessionState], object]] = {
    "set": lambda state: state.set("other", 1),
    "get": lambda state: state.get("other", int),
    "update": lambda state: state.update("other", 0, lambda count: count),
    "contains": lambda state: state.contains("other"),
    "in": lambda state: "other" in state,
    "erase": lambda state: state.erase("other"),
    "clear": lambda state: state.clear(),
}


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("touch", TOUCHES)
def test_touching_it_from_inside_its_update_is_an_error_and_no_deadlock(touch: str) -> None:
    state = SessionState()
    other = SessionState()

    def fn(count: int) -> int:
        other.set("count", count)
        TOUCHES[touch](other)
        with pytest.raises(ConfigError, match="from inside its own update"):
            TOUCHES[touch](state)
        return count + 1

    assert state.update("count", 0, fn) == 1
    TOUCHES[touch](state)


def test_updates_of_many_threads_are_not_lost() -> None:
    state = SessionState()
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait(SECONDS)
        for _ in range(500):
            state.update("count", 0, lambda count: count + 1)
            state.get("count", int)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert state.get("count", int) == 4000


def test_a_key_is_a_text() -> None:
    state = SessionState()
    wrong = any_value(1)
    touches: list[Callable[[], object]] = [
        lambda: state.set(wrong, 1),
        lambda: state.get(wrong, int),
        lambda: state.update(wrong, 1, lambda count: count),
        lambda: wrong in state,
        lambda: state.erase(wrong),
    ]
    for touch in touches:
        with pytest.raises(ConfigError, match="the key of a SessionState must be a str, not an int"):
            touch()


def test_it_shows_nothing_and_is_one_of_a_kind() -> None:
    state = SessionState()
    state.set("password", "hunter2")
    assert repr(state) == "<SessionState>"
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ConfigError, match="one of a kind"):
            copied(state)


ENDS: dict[str, Callable[[SessionState], object]] = {
    "set": lambda state: state.set("key", 1),
    "update": lambda state: state.update("key", cast("Any", None), lambda _: 1),
    "erase": lambda state: state.erase("key"),
    "clear": lambda state: state.clear(),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_value_may_touch_the_state(end: str) -> None:
    state = SessionState()
    seen = list[bool]()

    class Watched:
        def __del__(self) -> None:
            state.set("gone", True)
            seen.append(state.contains("gone"))

    state.set("key", Watched())
    ENDS[end](state)
    gc.collect()
    assert seen == [True]


@pytest.mark.parametrize("wrong", [None, 1, "fn"])
def test_an_update_by_what_is_no_function_is_refused(wrong: Any) -> None:
    state = SessionState()
    with pytest.raises(ConfigError, match=r"what SessionState.update\(\) calls must be callable"):
        state.update("key", 0, wrong)
    assert not state.contains("key")

"""The memory sink keeps the latest events, and a function is called with each."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from svir_client.tracing import TraceEvent, function, memory
from svir_client.tracing.sinks.memory import KEPT_EVENTS
from svir_core.errors import ConfigError
from tests.svir_client.tracing.traced import START, end_event


def test_the_latest_are_kept() -> None:
    sink = memory(2)
    events = [START, end_event(), end_event(retries=1)]
    for event in events:
        sink.write(event)
    assert sink.events == tuple(events[1:])
    sink.clear()
    assert sink.events == ()


def test_the_default_is_bounded() -> None:
    sink = memory()
    for _ in range(KEPT_EVENTS + 1):
        sink.write(START)
    assert len(sink.events) == KEPT_EVENTS


@pytest.mark.parametrize("limit", [0, -1, 1.0, True, None])
def test_limits_that_are_none(limit: Any) -> None:
    with pytest.raises(ConfigError, match="memory: limit"):
        memory(limit)


def test_a_function_is_called_with_each_and_never_twice_at_once() -> None:
    taken: list[TraceEvent] = []
    inside = 0
    most = 0

    def take(event: TraceEvent) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        taken.append(event)
        inside -= 1

    sink = function(take)

    def work() -> None:
        for _ in range(200):
            sink.write(START)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (len(taken), most) == (800, 1)


def test_a_function_may_be_told_from_within_itself() -> None:
    taken: list[TraceEvent] = []

    def take(event: TraceEvent) -> None:
        taken.append(event)
        if len(taken) == 1:
            sink.write(event)

    sink = function(take)
    sink.write(START)
    assert taken == [START, START]


async def waiting(event: TraceEvent) -> None:
    raise AssertionError


class Waiting:
    async def __call__(self, event: TraceEvent) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("mistake", "words"),
    [(None, "must be callable"), (waiting, "not async"), (Waiting(), "not async"), (1, "must be callable")],
)
def test_functions_that_are_none(mistake: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        function(mistake)


@pytest.mark.parametrize("make", [memory, partial(function, print)])
def test_the_switch(make: Any) -> None:
    assert make(content=True).content is True
    assert make(content=False).content is False
    with pytest.raises(ConfigError, match="content must be a bool"):
        make(content=1)

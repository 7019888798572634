"""A decoder beside a relay: 00 section 9."""

from __future__ import annotations

from typing import Any

import pytest

from svir_core.errors import ProtocolError, TruncatedStreamError
from svir_core.event import Completed, Event, TextDelta
from svir_core.response import Completion
from svir_core.tap import Tap
from svir_core.wire.openai_chat.decode import Decoder
from tests.svir_core.wire.openai_chat.streams import event, finish, stream, text

HELLO = stream(text("Hello"))


def test_the_outcome_is_the_completion() -> None:
    tap = Tap(Decoder())
    for place in range(0, len(HELLO), 5):
        assert tap.outcome is None
        tap.push(HELLO[place : place + 5])
    assert isinstance(tap.outcome, Completion)
    assert tap.outcome.text == "Hello"


def test_the_outcome_is_the_error_and_nothing_is_raised() -> None:
    tap = Tap(Decoder())
    tap.push(text("a") + event("junk"))
    assert isinstance(tap.outcome, ProtocolError)
    assert tap.outcome.partial is not None
    assert tap.outcome.partial.text == "a"


def test_the_end_of_the_relay_may_be_the_outcome() -> None:
    tap = Tap(Decoder())
    tap.push(text("a") + finish())
    assert tap.outcome is None
    tap.finish()
    assert isinstance(tap.outcome, TruncatedStreamError)
    tap = Tap(Decoder())
    tap.push(text("a") + finish() + b"data: [DONE]")
    tap.finish()
    assert isinstance(tap.outcome, Completion)


class Refusing:
    """A decoder that must not be called any more."""

    def __init__(self, inner: Decoder) -> None:
        self.inner = inner
        self.closed = False

    def __getattr__(self, name: str) -> Any:
        assert not (self.closed and name in ("push", "finish"))
        return getattr(self.inner, name)


def test_nothing_is_decoded_once_the_outcome_is_known() -> None:
    decoder: Any = Refusing(Decoder())
    tap = Tap(decoder)
    tap.push(HELLO)
    decoder.closed = True
    tap.push(HELLO)
    tap.finish()
    assert isinstance(tap.outcome, Completion)


def test_events_are_told_to_a_callback() -> None:
    told: list[Event] = []
    tap = Tap(Decoder(), told.append)
    tap.push(text("a"))
    tap.push(text("b") + event("junk"))
    assert told == [TextDelta("a"), TextDelta("b")]
    told.clear()
    tap = Tap(Decoder())
    tap.events = told.append
    tap.push(HELLO)
    assert [type(each) for each in told] == [TextDelta, Completed]


def test_a_callback_that_raises_is_dropped_and_the_decoding_goes_on() -> None:
    calls = 0

    def callback(_event: Event) -> None:
        nonlocal calls
        calls += 1
        raise ZeroDivisionError

    tap = Tap(Decoder(), callback)
    tap.push(text("a") + text("b"))
    tap.push(HELLO)
    assert calls == 1
    assert isinstance(tap.callback_error, ZeroDivisionError)
    assert isinstance(tap.outcome, Completion)


@pytest.mark.parametrize("call", ["push", "finish"])
def test_a_decoder_that_breaks_does_not_disturb_the_relay(call: str) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise ZeroDivisionError("secret")

    decoder: Any = Broken()
    tap = Tap(decoder)
    tap.push(b"x") if call == "push" else tap.finish()
    assert isinstance(tap.outcome, ProtocolError)
    assert tap.outcome.detail == "the decoder failed: ZeroDivisionError"


def test_a_push_of_something_else_is_an_outcome() -> None:
    tap = Tap(Decoder())
    tap.push("data")  # pyright: ignore[reportArgumentType]
    assert tap.outcome is not None

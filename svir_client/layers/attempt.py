"""One try of a call: a stream that has begun, or how far the call came before it failed (30 section 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum, StrEnum

import attrs

from svir_client.stream import Stream
from svir_core.errors import SvirError
from svir_core.response import Partial


class Until(StrEnum):
    """Up to where a failure counts as one that nobody has seen anything of."""

    RESPONSE = "response"
    """The head of a success: what goes wrong after it is the stream's."""
    FIRST_EVENT = "first_event"
    """The first event: it is waited for, and stays the first that the stream hands over."""


class Phase(Enum):
    """How far a call came before it failed."""

    UNSENT = "unsent"
    """Its request never reached the server."""
    BEFORE_RESPONSE = "before the response"
    """It was sent; no answer began."""
    BEFORE_EVENT = "before the first event"
    """An answer began, and failed before an event of it. Only told of when the first event was waited for."""
    AFTER_EVENT = "after the first event"
    """An event was read, by a layer or an inspector inside: it may have been shown, wherever the call failed then."""


@attrs.frozen
class Failure:
    """A try that failed."""

    phase: Phase
    error: SvirError


async def attempt(
    open: Callable[[], Awaitable[Stream]], until: Until, events_read: Callable[[], bool]
) -> Stream | Failure:
    """What ``open`` gives, once it has come as far as ``until``; a stream that fails before is closed.

    ``events_read`` tells whether an event of it was read. What is no ``SvirError`` goes through.
    """
    try:
        stream = await open()
    except SvirError as error:
        return _failure(Phase.UNSENT if error.unsent else Phase.BEFORE_RESPONSE, error, events_read)
    if until is Until.RESPONSE:
        return stream
    begun = False
    try:
        await stream.peek()
        begun = True
    except SvirError as error:
        return _failure(Phase.BEFORE_EVENT, error, lambda: events_read() or stream._events_read())
    finally:
        if not begun:
            await stream.aclose()
    return stream


def _failure(phase: Phase, error: SvirError, events_read: Callable[[], bool]) -> Failure:
    """How far the call came is what its streams say; of a stream that nobody here knows, what its error brings."""
    partial = error.partial or Partial()
    shown = events_read() or bool(partial.text or partial.reasoning)
    return Failure(Phase.AFTER_EVENT if shown else phase, error)

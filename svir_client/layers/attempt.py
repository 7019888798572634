"""One try of a call: a stream that has begun, or how far the call came before it failed (30 section 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum, StrEnum

import attrs

from svir_client.stream import Stream
from svir_core.errors import SvirError


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


@attrs.frozen
class Failure:
    """A try that failed."""

    phase: Phase
    error: SvirError


async def attempt(open: Callable[[], Awaitable[Stream]], until: Until) -> Stream | Failure:
    """What ``open`` gives, once it has come as far as ``until``; a stream that fails before is closed.

    What is no ``SvirError`` goes through.
    """
    try:
        stream = await open()
    except SvirError as error:
        return Failure(Phase.UNSENT if error.unsent else Phase.BEFORE_RESPONSE, error)
    if until is Until.RESPONSE:
        return stream
    begun = False
    try:
        await stream.peek()
        begun = True
    except SvirError as error:
        return Failure(Phase.BEFORE_EVENT, error)
    finally:
        if not begun:
            await stream.aclose()
    return stream

"""What a traced call is part of: the generation whose model it asks, or the call of a tool that makes it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Generator
from contextvars import ContextVar
from typing import Final

import attrs

from svir_core.redact import Redactor


class Learned:
    """The secrets that the calls of a generation were sent with, as far as they were made."""

    __slots__ = ("redactor",)

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def learn(self, more: Redactor) -> None:
        """Those of ``more`` too."""
        self.redactor |= more


@attrs.frozen(kw_only=True)
class Run:
    """The round of a generation, in which its model is called.

    Attributes:
        run_id, session_id: of the generation.
        round: which one, from 1.
        learned: where the secrets of the call are told.
    """

    run_id: str
    session_id: str | None
    round: int
    learned: Learned

    @property
    def operation_id(self) -> str:
        """What events of the round have as theirs."""
        return f"round-{self.round}"


@attrs.frozen
class Enclosing:
    """What is around the code that runs.

    Attributes:
        span_id: of the generation, or of the call of a tool.
        run: set while the model of the generation is called. In a tool it is not: what that calls is its own.
    """

    span_id: str
    run: Run | None = None


_ENCLOSING: Final[ContextVar[Enclosing | None]] = ContextVar("svir_enclosing_span", default=None)
"""Threads and tasks that are started inside inherit it."""


def enclosing() -> Enclosing | None:
    """What is around the code that asks; ``None`` outside of a generation."""
    return _ENCLOSING.get()


@contextlib.contextmanager
def inside(around: Enclosing) -> Generator[None]:
    """Set it inside the block. Never held across a ``yield`` of a generator: its reader would have it too."""
    before = _ENCLOSING.set(around)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # closed in another context, which never had it: a collected coroutine
            _ENCLOSING.reset(before)


def new_span_id() -> str:
    """One that no other has, in any process; as long as OpenTelemetry's."""
    return uuid.uuid4().hex[:16]

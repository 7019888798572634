"""What a request gets: the next of the script, then what a function answers."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from svir_client.testing.given import every, function, one
from svir_client.testing.record import RecordedRequest
from svir_client.testing.reply import Reply

T = TypeVar("T")
Answer = Callable[[RecordedRequest], Reply | Awaitable[Reply]]
"""A reply to a request whose body is there; sync or async."""

UNSCRIPTED = Reply(
    500, {"content-type": "text/plain"}, (b"this request is beyond the script: there were fewer replies",)
)
"""What a request beyond the script gets; its words are the ``server_message()`` of the error."""


class Script(Generic[T]):
    """Outcomes in order; after the last one ``answer`` is asked, where there is one."""

    def __init__(
        self,
        outcomes: tuple[T, ...],
        answer: Callable[[RecordedRequest], T | Awaitable[T]] | None,
        kinds: tuple[type, ...],
    ) -> None:
        self._kinds = kinds
        self._outcomes = deque(every(outcomes, kinds, "every reply"))
        self._answer = None if answer is None else function(answer, "answer")
        self.unscripted = 0

    @property
    def unasked(self) -> int:
        """How many outcomes nobody asked for."""
        return len(self._outcomes)

    def add(self, *outcomes: T) -> None:
        """Append outcomes; ``ConfigError`` for what is none."""
        self._outcomes.extend(every(outcomes, self._kinds, "every reply"))

    def scripted(self) -> T | None:
        """The next outcome of the list, for the request whose head is there; ``None`` when there is none left."""
        return self._outcomes.popleft() if self._outcomes else None

    async def answered(self, request: RecordedRequest) -> T | Reply:
        """The outcome of a complete request beyond the list; raises what ``answer`` raises, and
        ``ConfigError`` when it gives no outcome."""
        if self._answer is None:
            self.unscripted += 1
            return UNSCRIPTED
        outcome = self._answer(request)
        return one(await outcome if inspect.isawaitable(outcome) else outcome, self._kinds, "what answer gives")

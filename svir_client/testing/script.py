"""Which reply a request gets: the next of the script, then what a function answers."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable

from svir_client.testing.record import RecordedRequest
from svir_client.testing.reply import Reply

Answer = Callable[[RecordedRequest], Reply | Awaitable[Reply]]
"""A reply to a request whose body is there; sync or async."""

UNSCRIPTED = Reply(500, {"content-type": "text/plain"}, (b"a request beyond the script",))
"""What a request beyond the script gets."""


class Script:
    """Replies in order; after the last one ``answer`` is asked, where there is one."""

    def __init__(self, replies: tuple[Reply, ...], answer: Answer | None) -> None:
        self._replies = deque(replies)
        self._answer = answer
        self.unscripted = 0
        self.error: Exception | None = None
        """What ``answer`` raised first."""

    @property
    def unasked(self) -> int:
        """How many replies nobody asked for."""
        return len(self._replies)

    def add(self, *replies: Reply) -> None:
        """Append replies."""
        self._replies.extend(replies)

    def scripted(self) -> Reply | None:
        """The next reply of the list, for the request whose head is there; ``None`` when there is none left."""
        return self._replies.popleft() if self._replies else None

    async def answered(self, request: RecordedRequest) -> Reply:
        """The reply to a complete request beyond the list."""
        if self._answer is None:
            self.unscripted += 1
            return UNSCRIPTED
        try:
            reply = self._answer(request)
            return await reply if inspect.isawaitable(reply) else reply
        except Exception as error:  # noqa: BLE001 - of the test's own function: kept, and raised where the test sees it
            self.error = self.error or error
            return Reply(500, {"content-type": "text/plain"}, (f"answer raised {type(error).__name__}".encode(),))

    def settle(self, error: BaseException | None) -> None:
        """At the end of the test's block, left by ``error``: raise what ``answer`` raised, or note it there."""
        if self.error is None:
            return
        if error is None:
            raise self.error
        error.add_note(f"the scripted answer raised {self.error!r}")

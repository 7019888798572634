"""Work that is done to its end, whatever cancels its task meanwhile: a save, the release of a session.

A shielded ``anyio.CancelScope`` holds anyio's own cancellations off. asyncio's ``task.cancel()`` knows no shield, and
neither does the end of ``asyncio.run``: it breaks the work, which is then begun again, so it has to be such that this
does no harm. The cancellation is raised when all is done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator

import anyio
import anyio.lowlevel

from svir_core.errors import SvirError


class Finished:
    """Pieces of work that a task does to their end, one after the other.

    Attributes:
        cancelled: the latest cancellation that one of them met; ``None`` when none did.
    """

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled: BaseException | None = None

    async def run(self, work: Callable[[], Awaitable[object]], seconds: float) -> bool:
        """Whether ``work`` came to its end within ``seconds``, however often it was begun. Raises what it raises."""
        deadline = anyio.current_time() + seconds
        while anyio.current_time() < deadline:
            before = _requests()
            if before:
                await self._take_pending()
            try:
                with anyio.CancelScope(deadline=deadline, shield=True) as scope:
                    await work()
            except anyio.get_cancelled_exc_class() as error:
                if _requests() <= before:  # nobody asked this task: the work itself raised it
                    raise
                self.cancelled = error
            else:
                return not scope.cancelled_caught
        return False

    async def _take_pending(self) -> None:
        """Take the cancellation that was asked for and not raised yet: the work would be broken as if by its own."""
        try:
            await anyio.lowlevel.cancel_shielded_checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            self.cancelled = error

    def pass_on(self, error: BaseException | None) -> None:
        """Raise the cancellation, unless the task ends with ``error`` that is one."""
        outcome = self.outcome(error)
        if outcome is not None and outcome is not error:
            raise outcome

    def outcome(self, error: BaseException | None) -> BaseException | None:
        """What a task ends with that would have ended with ``error``: the cancellation, unless that is one."""
        if self.cancelled is None or isinstance(error, anyio.get_cancelled_exc_class()):
            return error
        return self.cancelled

    @contextlib.contextmanager
    def noted(self, error: BaseException | None, leaving: str) -> Generator[None]:
        """What fails inside is noted on the :meth:`outcome`, and raised when there is none."""
        try:
            yield
        except Exception as failure:
            outcome = self.outcome(error)
            if outcome is None:
                raise
            note(outcome, leaving, failure)


def note(error: BaseException, leaving: str, failure: Exception) -> None:
    """Note on ``error`` that ``failure`` came on leaving what it ended; of a foreign one, no more than its type."""
    words = failure.detail if isinstance(failure, SvirError) else type(failure).__name__
    error.add_note(f"on leaving {leaving}: {words}")


def _requests() -> int:
    """How often this task was asked by asyncio to cancel itself; 0 in trio, where only scopes do."""
    import asyncio  # imported late: it brings ssl

    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop of asyncio's runs here
        return 0
    return 0 if task is None else task.cancelling()

"""The body of one attempt, as the library iterates it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from svir_core.counted_body import CountedBody
from svir_core.errors import TransportError
from svir_transport.httpx.progress import Progress

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

SLICE_BYTES: Final = 64 * 1024
"""So much is written at once, so that a slow upload that moves is told from one that does not."""


class Blocks:
    """The blocks of an upload, the first of which was pulled before there was a connection.

    A plain iterator, not a generator: libraries leave those to the garbage collector when a write fails.

    Attributes:
        failure: what the body raised, to be raised as it is.
    """

    def __init__(self, upload: CountedBody, first: bytes, progress: Progress) -> None:
        self.failure: Exception | None = None
        self._upload = upload
        self._first = first
        self._progress = progress
        self._pending = memoryview(first)
        self._pulled = False
        self._cause: tuple[BaseException | None, bool] = (None, False)
        self._traceback: TracebackType | None = None

    def as_raised(self, failure: Exception) -> Exception:
        """``failure`` as the body raised it: the libraries' ``raise ... from None`` took its cause away, and the
        locals of the frames that it passed through since then show the URL."""
        failure.__cause__, failure.__suppress_context__ = self._cause
        return failure.with_traceback(self._traceback)

    @property
    def whole(self) -> bool:
        """Whether the body can be sent from its beginning once more."""
        return not self._pulled

    def __aiter__(self) -> Self:
        if self._pulled:
            # The library sends again what an HTTP/2 server has said it did not look at.
            self.failure = TransportError("the server turned the request away when part of its body was sent")
            raise self.failure
        self._pending = memoryview(self._first)
        return self

    async def __anext__(self) -> bytes:
        self._progress.touch()
        if not self._pending:
            if self._upload.done:
                raise StopAsyncIteration
            self._pulled = True
            self._progress.pause()
            try:
                self._pending = memoryview(await self._upload.pull())
            except Exception as error:
                self.failure = error
                self._cause = (error.__cause__, error.__suppress_context__)
                self._traceback = error.__traceback__
                raise
            self._progress.touch()
        data, self._pending = self._pending[:SLICE_BYTES], self._pending[SLICE_BYTES:]
        return bytes(data)

"""A request's body as a transport pulls it: block by block, counted against its ``content-length``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager

from svir_core.errors import AttachmentError, ConfigError
from svir_core.http_message import HttpRequest


class CountedBody:
    """What is still to be pulled of a body.

    The last block is given out only after the iterator has ended, so that a body which turns out too
    long, or fails at its very end, never makes a complete request. Whatever the iterator raises goes
    to the caller as it is.

    Attributes:
        done: whether every block has been given out, and the length was right.
    """

    __slots__ = ("_body", "_remaining", "done")

    def __init__(self, body: AsyncIterator[bytes] | None) -> None:
        self._body = body
        self._remaining = 0
        self.done = body is None

    def declare(self, request: HttpRequest) -> None:
        """Read how long the body must be; ``ConfigError`` when the headers and the body do not fit."""
        lengths = [value for name, value in request.headers if name == "content-length"]
        if any(name == "transfer-encoding" for name, _ in request.headers):
            raise ConfigError("a request body has a content-length and no transfer-encoding", unsent=True)
        if self._body is None:
            if lengths not in ([], ["0"]):
                raise ConfigError("the headers have a content-length, but there is no body", unsent=True)
            return
        if len(lengths) != 1 or not lengths[0].isdigit():  # no others than ASCII's: it is a header's value
            raise ConfigError("a body needs exactly one content-length, in decimal digits", unsent=True)
        self._remaining = int(lengths[0])

    async def pull(self) -> bytes:
        """The next block, ``b""`` when there is none; sets ``done`` with the last one.

        Raises ``AttachmentError`` when the body is shorter or longer than declared.
        """
        if self.done or self._body is None:
            return b""
        block = await self._next(self._body)
        if self._remaining == 0 and not self.done:
            await self._next(self._body)
        return block

    async def aclose(self, shield: AbstractContextManager[object]) -> None:
        """Close the iterator when it can be closed, inside ``shield``: what keeps a cancelled scope away from it,
        for :data:`svir_core.limits.BODY_CLOSE_SECONDS` at the most."""
        close = getattr(self._body, "aclose", None)
        if close is not None:
            with shield:
                await close()

    async def _next(self, body: AsyncIterator[bytes]) -> bytes:
        """The next block that is not empty, or ``b""`` with ``done`` set."""
        while True:
            try:
                block = await body.__anext__()
            except StopAsyncIteration:
                break
            if len(block) > self._remaining:
                raise AttachmentError("the body is longer than its content-length")
            if block:
                self._remaining -= len(block)
                return block
        if self._remaining:
            short = self._remaining
            raise AttachmentError(f"the body ended {short} bytes before its content-length")
        self.done = True
        return b""

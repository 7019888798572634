"""What every open response shares: the block it lives in, and its head (30 section 2).

Four rules hold for all of them. They are read inside their ``async with`` block, by one task at a
time; anything else is a ``ConfigError``. Leaving the block, in whatever way, closes the connection at
once, unless the answer is whole and its message has ended. So does a read that is cancelled, and every
later one is told so: the server did not cut that answer. They are classes, not generators: nothing of
ours waits for a garbage collector to run its ``finally``.
"""

from __future__ import annotations

from collections.abc import Awaitable
from types import TracebackType
from typing import TYPE_CHECKING, Final

from svir_client.driver import Driver
from svir_client.iteration import no_end
from svir_client.rate_limit import RateLimit, read_rate_limit
from svir_client.unique import Unique
from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.exchange import Exchange
from svir_core.http_message import ResponseHead

if TYPE_CHECKING:
    from typing import Self

REQUEST_ID_HEADERS: Final = ("x-request-id", "request-id", "apim-request-id")
"""Where servers name a request: OpenAI and vLLM, Anthropic, Azure; the first one there is taken."""


def request_id_of(head: ResponseHead) -> str | None:
    """What the server calls the request that ``head`` answers; ``None`` when it does not say."""
    values = (head.get(name) for name in REQUEST_ID_HEADERS)
    return next((value for value in values if value), None)


class OpenResponse(Unique):
    """What every open response has: the block it lives in, and its head."""

    __slots__ = ("_closed", "_driver", "_entered", "_open", "_reading")

    def __init__(self, driver: Driver[Exchange]) -> None:
        self._driver = driver
        self._entered = False
        self._open = False
        self._closed = False
        self._reading = False

    async def __aenter__(self) -> Self:
        self._check_new()
        self._entered = True
        try:
            await self._start()
        except StopAsyncIteration as error:  # of a layer, or of a model's function
            await self.aclose()
            raise no_end(error) from error
        except BaseException:
            await self.aclose()
            raise
        self._open = True
        if self._closed:
            await self.aclose()
            raise ConfigError(f"the {type(self).__name__} was closed while it was being opened")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._open:
                await self._settle()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connection now; a task that is reading gets a ``ConfigError``. Idempotent."""
        self._closed = True
        if self._open:
            self._open = False
            await self._driver.response.aclose()

    def _start(self) -> Awaitable[None]:
        """Send the request, and wait until an answer begins."""
        return self._driver.open()

    async def _settle(self) -> None:
        """Left without an error: what may be waited for before the connection is closed. Here nothing."""

    @property
    def head(self) -> ResponseHead:
        """Status and headers of the latest response; ``ConfigError`` before there is one."""
        if self._driver.head is None:
            raise ConfigError(f"the {type(self).__name__} has no response yet: enter it first")
        return self._driver.head

    @property
    def status(self) -> int:
        """The HTTP status of the latest response; ``ConfigError`` before there is one."""
        return self.head.status

    @property
    def request_id(self) -> str | None:
        """What the server calls this request; ``None`` when it does not say."""
        return request_id_of(self.head)

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the headers say of rate limits; ``None`` when nothing."""
        return read_rate_limit(self.head)

    def _check_new(self) -> None:
        if self._entered or self._closed:
            raise ConfigError(f"{an(type(self))} is entered once: ask the client for another")

    def _check_open(self) -> None:
        if not self._open:
            when = "after it was closed" if self._closed else "before it was entered with async with"
            raise ConfigError(f"{an(type(self))} was read {when}")

    def _claim(self) -> None:
        """Begin to read: one task at a time."""
        self._check_open()
        if self._reading:
            raise ConfigError(f"two tasks read one {type(self).__name__} at the same time")
        self._reading = True

    def _cut_short(self, error: BaseException) -> ConfigError:
        """What every read raises after one that ended with ``error``: cancelled, or with what is no ``SvirError``."""
        how = f"raised {type(error).__name__}" if isinstance(error, Exception) else "was cancelled"
        return ConfigError(f"an earlier read of the {type(self).__name__} {how}, which ended it")

    def __repr__(self) -> str:
        state = "open" if self._open else "closed" if self._closed else "new"
        return f"<{type(self).__name__} {state}>"

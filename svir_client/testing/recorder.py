"""A transport around another one, which keeps each exchange as data."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

import anyio

from svir_client.testing import given
from svir_client.testing.recording import Recording
from svir_client.testing.recording_file import RecordingFile
from svir_client.testing.under_way import Exchange
from svir_client.transport import Transport, TransportResponse
from svir_core.check import count
from svir_core.counted_body import CountedBody
from svir_core.errors import ConfigError, SvirError
from svir_core.http_message import HttpRequest, ResponseHead
from svir_core.limits import BODY_CLOSE_SECONDS

if TYPE_CHECKING:
    from typing import Self

Keep = Callable[[Recording], None]


RECORDING_BYTES: Final = 64 * 1024 * 1024
"""What one body may hold in memory: the bound of one answer (``Limits.wire_bytes``)."""


class Recorder:
    """``transport``, and a record of what went through it.

    Each exchange is kept when its response has ended, failed or was closed: appended to the file at
    ``keep`` as one line, or given to ``keep``, a function. Its two bodies are held in memory until then, each
    up to ``limit`` bytes; the rest goes through and is only counted, in ``Recording.left_out``. A call that
    was cancelled before its head is not kept.

    Credentials are not kept. Of the request's headers and query every name is, and the values on a list.
    Bodies are kept whole, but for the values of those headers and parameters that carry a credential by
    their name, or may be a key by their look (16 characters or more without a blank): wherever a body or a
    response header repeats one of 6 characters or more, as many asterisks stand. A credential that is a plain
    word (``content``) or a number is overwritten in running text alone, since the protocol may be using it.
    A file is made for its owner alone (mode 0600), and a link is not followed.

    Raises ``ConfigError`` when the file cannot be opened, or is not a regular file of this user's, and for an
    argument of the wrong kind.
    """

    def __init__(
        self,
        transport: Transport,
        keep: str | os.PathLike[str] | Keep,
        *,
        clock: Callable[[], float] = anyio.current_time,
        limit: int = RECORDING_BYTES,
    ) -> None:
        self._transport = given.transport(transport)
        self._clock = given.function(clock, "clock")
        self._limit = count(limit, 0, "limit")
        self._file = None if callable(keep) else RecordingFile(given.path(keep, "keep"))
        self._keep = keep if self._file is None and callable(keep) else None
        self._failure: Exception | None = None
        self._under_way: dict[Exchange, None] = {}  # the latest last
        self._closed = False

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float | None = None,
    ) -> TransportResponse:
        """As the transport's; what it raises is kept as well. ``ConfigError`` once the recorder is closed."""
        if self._closed:
            await CountedBody(body).aclose(anyio.move_on_after(BODY_CLOSE_SECONDS, shield=True))
            raise ConfigError("the recorder is closed", unsent=True)
        exchange = Exchange(request, self._clock, self._limit, self._over)
        self._under_way[exchange] = None
        upload = None if body is None else _Upload(body, exchange)
        try:
            response = await self._transport.open(
                request, upload, idle_timeout=idle_timeout, connect_timeout=connect_timeout
            )
        except SvirError as error:
            exchange.end(error)
            raise
        except BaseException:
            self._under_way.pop(exchange, None)
            raise
        return _Response(response, exchange)

    async def aclose(self) -> None:
        """Keep what is under way as far as it has come, and close the transport and the file.

        Raises what went wrong as an exchange was kept: the first of it.
        """
        self._closed = True
        for exchange in tuple(self._under_way):
            exchange.end()
        try:
            await self._transport.aclose()
        finally:
            if self._file is not None:
                self._file.close()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _over(self, exchange: Exchange, recording: Recording) -> None:
        """Keep one exchange; what goes wrong is no matter of the call, and raised by ``aclose``."""
        self._under_way.pop(exchange, None)
        failure: Exception | None = None
        try:
            if self._file is not None:
                self._file.append(recording.line())
            elif self._keep is not None:
                self._keep(recording)
        except OSError as error:
            failure = ConfigError(f"the recording could not be written: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001 - of the caller's own function
            failure = error
        self._failure = self._failure or failure


class _Upload:
    """The request's body, copied as it goes."""

    def __init__(self, body: AsyncIterator[bytes], exchange: Exchange) -> None:
        self._body = body
        self._exchange = exchange
        exchange.uploads()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        block = await self._body.__anext__()
        self._exchange.block(block)
        return block

    async def aclose(self) -> None:
        close = getattr(self._body, "aclose", None)
        if close is not None:
            await close()


class _Response:
    """The response, copied as it is read."""

    def __init__(self, response: TransportResponse, exchange: Exchange) -> None:
        self._response = response
        self._exchange = exchange
        self._body: AsyncIterator[bytes] | None = None
        exchange.head(response.head)

    @property
    def head(self) -> ResponseHead:
        return self._response.head

    @property
    def complete(self) -> bool:
        return self._response.complete

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._body is None:
            self._body = aiter(self._response)
        try:
            data = await self._body.__anext__()
        except StopAsyncIteration:
            self._exchange.end(whole=True)
            raise
        except SvirError as error:
            self._exchange.end(error)
            raise
        self._exchange.piece(data)
        return data

    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        """What is drained is read like the rest, so that it is kept."""
        taken = 0
        try:
            with anyio.move_on_after(seconds):
                while taken <= limit:
                    taken += len(await self.__anext__())
        except (StopAsyncIteration, SvirError):
            pass  # the exchange has ended, and knows how
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        finally:
            self._exchange.end()

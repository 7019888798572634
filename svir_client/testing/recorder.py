"""A transport around another one, which keeps each exchange as data."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import anyio

from svir_client.testing.recording import RecordedPiece, Recording
from svir_client.testing.withhold import Mask, shown_target
from svir_client.transport import Transport, TransportResponse
from svir_core.errors import ConfigError, ErrorKind, SvirError
from svir_core.http_message import HttpRequest, ResponseHead

if TYPE_CHECKING:
    from typing import Self

Keep = Callable[[Recording], None]


class Recorder:
    """``transport``, and a record of what went through it.

    Each exchange is kept when its response has ended, failed or was closed: appended to the file at
    ``keep`` as one line, or given to ``keep``, a function. Its body is held in memory until then. A call
    that was cancelled before its head is not kept.

    Credentials are never kept: of the request's headers and query only the values on a list are,
    and what the server repeats of the others is overwritten. Prompts and answers are: what is in them is
    kept as it is. A file is made for its owner alone (mode 0600), and a link is not followed.

    Raises ``ConfigError`` when the file cannot be opened, or is not a regular file of this user's.
    """

    def __init__(
        self,
        transport: Transport,
        keep: str | os.PathLike[str] | Keep,
        *,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._file = None if callable(keep) else _RecordingFile(keep)
        self._keep = keep if self._file is None and callable(keep) else None
        self._failure: Exception | None = None

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float | None = None,
    ) -> TransportResponse:
        """As the transport's; what it raises is kept as well."""
        exchange = _Exchange(self, request)
        upload = None if body is None else _Upload(body, exchange)
        try:
            response = await self._transport.open(
                request, upload, idle_timeout=idle_timeout, connect_timeout=connect_timeout
            )
        except SvirError as error:
            exchange.end(None, error)
            raise
        return _Response(response, exchange)

    async def aclose(self) -> None:
        """Close the transport and the file. Raises what went wrong as an exchange was kept: the first of it."""
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

    def now(self) -> float:
        """Seconds of the clock."""
        return self._clock()

    def keep(self, recording: Recording) -> None:
        """Keep one exchange; what goes wrong is no matter of the call, and raised by ``aclose``."""
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


class _Exchange:
    """One exchange under way."""

    def __init__(self, recorder: Recorder, request: HttpRequest) -> None:
        self._recorder = recorder
        self._request = request
        self._mask = Mask(request.headers, request.target)
        self._began = recorder.now()
        self._ended = False
        self._head: ResponseHead | None = None
        self._head_seconds = 0.0
        self._times: list[float] = []
        self._pieces: list[bytes] = []
        self._sent: list[bytes] | None = None

    def _seconds(self) -> float:
        return max(0.0, round(self._recorder.now() - self._began, 6))

    def uploads(self) -> None:
        """The request has a body, if only of no bytes."""
        self._sent = []

    def block(self, data: bytes) -> None:
        """A block of the request's body."""
        if self._sent is not None:
            self._sent.append(bytes(data))

    def head(self, head: ResponseHead) -> None:
        """The response has begun."""
        self._head, self._head_seconds = head, self._seconds()

    def piece(self, data: bytes) -> None:
        """A piece of the response's body."""
        self._times.append(self._seconds())
        self._pieces.append(data)

    def end(self, response: TransportResponse | None, error: SvirError | None = None) -> None:
        """The exchange is over; only the first end counts."""
        if self._ended:
            return
        self._ended = True
        request, head = self._request, self._head
        self._recorder.keep(
            Recording(
                method=request.method,
                target=self._mask.text(shown_target(request.target)),
                request_headers=self._mask.request_headers(request.headers),
                request_body=None if self._sent is None else self._mask.data(b"".join(self._sent)),
                status=None if head is None else head.status,
                headers=() if head is None else self._mask.response_headers(head.headers),
                head_seconds=self._head_seconds,
                pieces=tuple(map(RecordedPiece, self._times, self._mask.pieces(self._pieces))),
                complete=response is not None and response.complete,
                error=None if error is None else ErrorKind(error.kind),
            )
        )


class _Upload:
    """The request's body, copied as it goes."""

    def __init__(self, body: AsyncIterator[bytes], exchange: _Exchange) -> None:
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

    def __init__(self, response: TransportResponse, exchange: _Exchange) -> None:
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
            self._exchange.end(self._response)
            raise
        except SvirError as error:
            self._exchange.end(self._response, error)
            raise
        self._exchange.piece(data)
        return data

    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        await self._response.drain(limit, seconds)
        self._exchange.end(self._response)

    async def aclose(self) -> None:
        await self._response.aclose()
        self._exchange.end(self._response)


class _RecordingFile:
    """A regular file for its owner alone, that is only appended to."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        failure = None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._descriptor = os.open(path, flags, 0o600)
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                os.close(self._descriptor)
                failure = "it is not a regular file"
            else:
                os.fchmod(self._descriptor, 0o600)
        except OSError as error:
            failure = type(error).__name__
        if failure is not None:
            raise ConfigError(f"the recording cannot be opened: {failure}")

    def append(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

"""The errors svir raises: one class per kind, each with data, none with secrets.

    SvirError
    ├── TransportError            the connection, or a 5xx that is worth another try      retryable
    ├── ResponseTimeoutError      a clock ran out (also a TimeoutError)                   retryable
    ├── RateLimitedError          429, 529                                                retryable
    ├── TruncatedStreamError      the input ended before the answer did                   retryable
    ├── AuthenticationError       401, 403
    ├── ContextOverflowError      the prompt does not fit (the server's word, or admission)
    ├── ContentFilterError        the server refused to look at the prompt
    ├── ProtocolError             the server broke the protocol
    ├── ServerError               the server reported a failure inside a 200 stream
    ├── UnsupportedError          well formed, but nothing svir can carry
    ├── ResponseLimitError        a bound of ``Limits`` was passed
    ├── AttachmentError           a file that cannot be read, measured or encoded
    ├── MaxRoundsError            a generation wanted more rounds than it may have
    ├── MaxToolCallsError         a generation wanted more calls than it may make
    ├── SessionInUseError         another generation has the session
    ├── StoreError                a store of sessions failed
    └── ConfigError               the caller's mistake (also a ValueError)

``detail`` is always our own words. What the server said stands behind ``server_message()`` and is
never part of ``str()`` or ``repr()``, so that a log line cannot leak a prompt; pickles keep it. Nothing
else of a call is reachable from an error but by its traceback: no request, no header, no address.
Source: 00-architecture section 3, 10-chat-completions section 11, 50-runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from svir_core.limits import SERVER_MESSAGE_BYTES

if TYPE_CHECKING:
    from svir_core.generation import Progress
    from svir_core.response import Anomaly, Partial


class ErrorKind(StrEnum):
    """What went wrong, as data: the names that the specification and the conformance cases use."""

    TRANSPORT = "transport"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    TRUNCATED_STREAM = "truncated_stream"
    AUTHENTICATION = "authentication"
    CONTEXT_OVERFLOW = "context_overflow"
    CONTENT_FILTER = "content_filter"
    PROTOCOL = "protocol"
    SERVER = "server"
    UNSUPPORTED = "unsupported"
    RESPONSE_LIMIT = "response_limit"
    ATTACHMENT = "attachment"
    MAX_ROUNDS = "max_rounds"
    MAX_TOOL_CALLS = "max_tool_calls"
    SESSION_IN_USE = "session_in_use"
    STORE = "store"
    CONFIG = "config"


def _clip(text: str, limit: int) -> str:
    """``text`` cut to at most ``limit`` bytes of UTF-8, never inside a character."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


class SvirError(Exception):
    """The base of every error that svir raises on purpose.

    Attributes:
        kind: the :class:`ErrorKind`.
        retryable: whether the same call may succeed when it is made again; the class says, unless the server said
            otherwise (a quota that is used up).
        detail: what was wrong and where, in our words; safe to log.
        retry_after: seconds the server asked to wait, 0 to 30, or ``None``.
        status: the HTTP status of a non-success response, else ``None``.
        unsent: true when the request never reached the server.
        partial: what was delivered before the error, or ``None`` when nothing could be.
        anomalies: what a lenient decoder had forgiven before it failed.
        offset: the byte of the response body where the offending event began, or ``None``.
        progress: what the generation had come to that it ended; ``None`` outside of one.
    """

    kind: ClassVar[ErrorKind]
    retryable: bool = False

    # what a subclass has whose constructor does not call ours
    detail: str = ""
    retry_after: float | None = None
    status: int | None = None
    unsent: bool = False
    partial: Partial | None = None
    anomalies: tuple[Anomaly, ...] = ()
    offset: int | None = None
    progress: Progress | None = None
    _server_message: str | None = None

    def __init__(
        self,
        detail: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
        unsent: bool = False,
        partial: Partial | None = None,
        server_message: str | None = None,
        anomalies: tuple[Anomaly, ...] = (),
        offset: int | None = None,
        retryable: bool | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        if retryable is not None and retryable is not self.retryable:
            self.retryable = retryable
        self.retry_after = retry_after
        self.status = status
        self.unsent = unsent
        self.partial = partial
        self.anomalies = anomalies
        self.offset = offset
        self.progress = progress
        self._say(server_message)

    def _say(self, server_message: str | None) -> None:
        self._server_message = None if server_message is None else _clip(server_message, SERVER_MESSAGE_BYTES)

    def server_message(self) -> str | None:
        """What the server said, cut to 4 KiB; ``None`` when it said nothing. Never logged by svir.

        Of a call's error the secrets that the call was sent with are taken out (50, Redaction).
        """
        return self._server_message

    def _fields(self) -> dict[str, Any]:
        """The keyword arguments that make this error again."""
        return {
            "retry_after": self.retry_after,
            "status": self.status,
            "unsent": self.unsent,
            "partial": self.partial,
            "server_message": self._server_message,
            "anomalies": self.anomalies,
            "offset": self.offset,
            "retryable": self.retryable,
            "progress": self.progress,
        }

    def __repr__(self) -> str:
        status = "" if self.status is None else f", status={self.status}"
        return f"{type(self).__name__}({self.detail!r}{status})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SvirError) or type(other) is not type(self):
            return NotImplemented
        return self.detail == other.detail and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((type(self), self.detail, self.status))

    def __reduce__(self) -> tuple[Callable[..., SvirError], tuple[type[SvirError], str, dict[str, Any]]]:
        return (_rebuild, (type(self), self.detail, self._fields()))


def _rebuild(cls: type[SvirError], detail: str, fields: dict[str, Any]) -> SvirError:
    return cls(detail, **fields)


class TransportError(SvirError):
    """The connection failed, or the server answered 425, 500, 502, 503 or 520 to 524."""

    kind = ErrorKind.TRANSPORT
    retryable = True


class ResponseTimeoutError(SvirError, TimeoutError):
    """A clock ran out: connect, response head, idle, or a layer's; or the server answered 408 or 504."""

    kind = ErrorKind.TIMEOUT
    retryable = True


class RateLimitedError(SvirError):
    """The server answered 429 or 529; ``retry_after`` when it said how long."""

    kind = ErrorKind.RATE_LIMITED
    retryable = True


class TruncatedStreamError(SvirError):
    """The input ended before the answer did (10 section 7)."""

    kind = ErrorKind.TRUNCATED_STREAM
    retryable = True


class AuthenticationError(SvirError):
    """The server answered 401 or 403."""

    kind = ErrorKind.AUTHENTICATION


class ContextOverflowError(SvirError):
    """The request does not fit the model's context: the server said so, or admission refused it."""

    kind = ErrorKind.CONTEXT_OVERFLOW


class ContentFilterError(SvirError):
    """The server's content filter refused the prompt (``error.code`` is ``content_filter``)."""

    kind = ErrorKind.CONTENT_FILTER


class ProtocolError(SvirError):
    """The server broke the protocol: bytes that cannot be read as an answer without guessing."""

    kind = ErrorKind.PROTOCOL


class ServerError(SvirError):
    """The server reported a failure inside a 200 stream."""

    kind = ErrorKind.SERVER


class UnsupportedError(SvirError):
    """Well formed, but nothing svir (or the target API) can carry without losing something."""

    kind = ErrorKind.UNSUPPORTED


class ResponseLimitError(SvirError):
    """The response passed a bound of :class:`svir_core.Limits`."""

    kind = ErrorKind.RESPONSE_LIMIT


class AttachmentError(SvirError):
    """An attachment that cannot be read, changed since it was measured, or cannot be encoded."""

    kind = ErrorKind.ATTACHMENT


class MaxRoundsError(SvirError):
    """The last round that a generation may have asked for another one (``LoopLimits.rounds``)."""

    kind = ErrorKind.MAX_ROUNDS


class MaxToolCallsError(SvirError):
    """An answer asked for more calls than its generation may still make (``LoopLimits.tool_calls``)."""

    kind = ErrorKind.MAX_TOOL_CALLS


class SessionInUseError(SvirError):
    """Another generation, in this process or another one, has the session."""

    kind = ErrorKind.SESSION_IN_USE


class StoreError(SvirError):
    """A store of sessions failed: its disk, its database, or what it had stored."""

    kind = ErrorKind.STORE


class ConfigError(SvirError, ValueError):
    """The caller's mistake, found before a byte was sent."""

    kind = ErrorKind.CONFIG

"""What every call shares, whatever it asks for: send, judge the head, read the body or the refusal.

The states are in ``exchange_table``; what counts as a success, what its body means and whether a
refusal is worth one more try is told by the subclasses (``exchange.Exchange``, ``document_call``).

What a call tells holds no secret that it was sent with: neither its errors, nor heads, nor what stands beside an
answer (``redact_call``; 50, Redaction). The text of an answer is what the server said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from svir_core.check import expect, wire_api
from svir_core.errors import ConfigError, ErrorKind, SvirError
from svir_core.event import Events
from svir_core.exchange_table import Signal, State, advance
from svir_core.http_message import Endpoint, Headers, HttpRequest, ResponseHead
from svir_core.redact import Redactor
from svir_core.redact_call import redact_error, redact_events, redact_head
from svir_core.refusal import Refusal, encoded

if TYPE_CHECKING:
    from svir_core.body import Body
    from svir_core.response import Partial
    from svir_core.url import Url
    from svir_core.wire.api import Api

LOCAL_KINDS: Final = frozenset({ErrorKind.ATTACHMENT, ErrorKind.CONFIG})
"""Faults of this side: they are told as they are, also when a refusal came before."""


@attrs.frozen
class ReadStream:
    """The response is an answer: push its whole body, then finish."""


@attrs.frozen
class ReadError:
    """The response is a refusal: push up to ``limit`` bytes of its body, then finish.

    Attributes:
        limit: more bytes are not wanted; pushing them does no harm.
        seconds: finish after so long although the body has not ended; ``None`` is the ordinary idle clock.
    """

    limit: int
    seconds: float | None


@attrs.frozen
class Retry:
    """One more request for the same call: send it, and go on with its head."""

    http_request: HttpRequest


READ_STREAM: Final = ReadStream()


class Reader(Protocol):
    """What takes the body of a response; every decoder is one."""

    @property
    def done(self) -> bool:
        """Whether nothing more is to be told, although the body goes on."""
        ...

    def push(self, data: bytes | bytearray | memoryview) -> Events:
        """The events that ``data`` completes."""
        ...

    def finish(self) -> Events:
        """The body ended: the last events."""
        ...


class Silence:
    """The body of a call that is over: no events; but an error that nobody iterated to is raised once."""

    def __init__(self, last: Events) -> None:
        self._last = last

    @property
    def done(self) -> bool:
        """Always."""
        return True

    def push(self, data: bytes | bytearray | memoryview) -> Events:
        """Drop ``data``."""
        return self.finish()

    def finish(self) -> Events:
        """No events."""
        last, self._last = self._last, Events()
        if not last.error_seen:
            last.throw()
        return self._last


def request_of(
    api: Api,
    endpoint: Endpoint,
    method: str,
    url: Url,
    accept: str,
    *,
    headers: Headers = (),
    body: Body | None = None,
) -> HttpRequest:
    """The request for ``url`` with the headers of ``api`` and of the key; ``headers`` are this call's, checked."""
    return endpoint.request(
        method,
        url,
        accept,
        api_headers=api.headers,
        key_headers=() if endpoint.key is None else api.key_headers(endpoint.key),
        headers=headers,
        body=body,
    )


class Call(ABC):
    """One call as a state machine that does no I/O. Not shared between tasks; for one use.

    A method called out of turn raises ``ConfigError`` and ends the call.
    """

    def __init__(self, api: Api, endpoint: Endpoint, now: Callable[[], float]) -> None:
        self._api = wire_api(api)
        self._endpoint = expect(endpoint, Endpoint, "endpoint")
        self._now = now
        self._redactor = Redactor()
        self._state = State.READY
        self._error: SvirError | None = None
        self._first: SvirError | None = None
        self._response: ResponseHead | None = None
        self._success = False
        self._body: Reader = Silence(Events())

    @property
    def state(self) -> State:
        """Where the call is."""
        return self._state

    @property
    def done(self) -> bool:
        """Whether the call is over: answered, failed, or given up."""
        return self._state is State.OVER

    @property
    def error(self) -> SvirError | None:
        """What the call failed with, if it did."""
        return self._error

    @property
    def response(self) -> ResponseHead | None:
        """The head of the latest response, once there is one."""
        return self._response

    @property
    def redactor(self) -> Redactor:
        """What takes the secrets that the call was sent with out of a text; none before ``start``."""
        return self._redactor

    @property
    def raw_success(self) -> bool:
        """Whether the latest head is a success: its body can be relayed as it comes."""
        return self._success

    def start(self) -> HttpRequest:
        """The request to send. What is wrong with it is raised here, before a byte is sent, and ends the call."""
        self._move(Signal.START)
        try:
            return self._learned(self._request())
        except SvirError as error:
            self._over(error)
            raise

    def head(self, status: int, headers: Iterable[tuple[str | bytes, str | bytes]]) -> ReadStream | ReadError:
        """Judge the head of a response: how its body is to be read. 1xx responses are the transport's own."""
        if not isinstance(status, int) or not 200 <= status <= 999:
            raise self._misuse(ConfigError("the status of a final response is a number from 200 to 999"))
        try:
            response = ResponseHead(status, headers)
        except ConfigError as error:
            self._misuse(error)
            raise
        reason = self._reason(response) if status < 300 else None
        success = status < 300 and reason is None
        self._move(Signal.ACCEPTED if success else Signal.REFUSED)
        self._response, self._success = redact_head(response, self._redactor), success
        if success:
            self._body = self._reader()
            return READ_STREAM
        refusal = self._body = Refusal(response, self._now(), reason)
        return ReadError(refusal.limit, refusal.seconds)

    def push(self, data: bytes | bytearray | memoryview) -> Events:
        """The events that ``data`` completes: none for a refusal, none once the call is over."""
        self._move(Signal.DATA)
        events = self._body.push(data)
        if (events.error is not None or self._body.done) and self._state is not State.OVER:
            events = redact_events(events, self._redactor)
            self._over(events.error, events)
        return events

    def finish(self) -> Events | Retry:
        """The body ended: the last events, with the error when there is one, or one more request to send.

        Also to be called when the body was cut off, and when the seconds of a ``ReadError`` have run out.
        """
        before, body = self._state, self._body
        self._move(Signal.END)
        if isinstance(body, Refusal):
            request = self._retry(body) if self._first is None else None
            self._first = self._first or body.error()
            if request is not None:
                self._state = advance(before, Signal.RETRY)
                return Retry(self._learned(request))
            events = Events((), self._first)
        else:
            events = redact_events(body.finish(), self._redactor)
        if before is not State.OVER:
            self._over(events.error, events)
        return events

    def fail(self, error: SvirError) -> SvirError:
        """The transport failed, or a clock ran out: ends the call and returns the error to raise.

        That is ``error``, with what was delivered as its ``partial``; or, where the server had refused
        already, the refusal (the first one of a call that was tried twice); or the call's own error
        when it had one. Faults of this side (attachment, configuration) are returned as they are.
        """
        before, body = self._state, self._body
        self._move(Signal.FAILED)
        if before is State.OVER:
            return self._error or error
        if isinstance(body, Refusal) and error.kind not in LOCAL_KINDS:
            error = self._first or body.error()
        if error.partial is None:
            error.partial = self._partial()
        self._over(error)
        return error

    # --- what subclasses say -----------------------------------------------------------------------

    @abstractmethod
    def _request(self) -> HttpRequest:
        """The request to begin with."""

    def _reason(self, response: ResponseHead) -> str | None:
        """Why a 2xx response is no success, in our words; ``None`` when it is one."""
        return "the body has a content-encoding, which was not asked for" if encoded(response) else None

    @abstractmethod
    def _reader(self) -> Reader:
        """A success begins: what takes its body."""

    def _retry(self, refusal: Refusal) -> HttpRequest | None:
        """The one other request that may escape ``refusal``, or ``None``."""
        return None

    def _partial(self) -> Partial | None:
        """What has been delivered, or ``None`` when nothing could be."""
        return None

    # --- machinery ---------------------------------------------------------------------------------

    def _learned(self, request: HttpRequest) -> HttpRequest:
        """``request``, whose secrets are known from now on."""
        key = self._endpoint.key
        key_headers = () if key is None else self._api.key_headers(key)
        self._redactor |= Redactor.of_headers(request.headers, key=key, key_headers=key_headers)
        return request

    def _move(self, signal: Signal) -> None:
        try:
            self._state = advance(self._state, signal)
        except ConfigError as error:
            self._misuse(error)
            raise

    def _misuse(self, error: ConfigError) -> ConfigError:
        """End the call with the driver's mistake, unless it had ended already."""
        if self._state is not State.OVER:
            self._over(error)
        return error

    def _over(self, error: SvirError | None, last: Events | None = None) -> None:
        """The call is over; ``last`` are the events by which the caller learns of ``error``."""
        if error is not None:
            redact_error(error, self._redactor)
        self._state = State.OVER
        self._error = error
        self._body = Silence(Events() if last is None else last)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(state={self._state.value!r})"

"""A whole call without I/O: a request out, head and bytes in, events out.

    exchange = Exchange(openai_chat.API, request, endpoint)
    http_request = exchange.start()
    while True:
        ...                                     # send it, and read the head of the response
        step = exchange.head(status, headers)   # READ_STREAM, or ReadError(limit, seconds)
        for data in body:
            for event in exchange.push(data): ...
        last = exchange.finish()
        if not isinstance(last, Retry): break   # at most one retry in a call
        http_request = last.http_request
    for event in last: ...

Source: 00-architecture section 4, 10-chat-completions section 11.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from svir_core import compat as compatibility
from svir_core.call import READ_STREAM, Call, Reader, ReadError, ReadStream, Retry, request_of
from svir_core.check import expect
from svir_core.compat import Compatibility, Lesson
from svir_core.errors import SvirError
from svir_core.http_message import Endpoint, Headers, HeadersLike, HttpRequest, ResponseHead, caller_headers
from svir_core.redact_call import redact_completion
from svir_core.refusal import EVENT_STREAM, JSON, Refusal, media_type
from svir_core.request import Request
from svir_core.wire.api import Api, Clock, CodecOptions, Compat, Decoder, Mode

if TYPE_CHECKING:
    from svir_core.body import Measurements
    from svir_core.response import Completion, Partial

__all__ = ("READ_STREAM", "Exchange", "ReadError", "ReadStream", "Retry")

DEFAULT_OPTIONS: Final = CodecOptions()


class Exchange(Call):
    """One request of one wire API, answered by a stream of events. For one use, by one task.

    Args:
        api: the wire API; ``request``: what to ask; ``endpoint``: whom.
        compat: the memory of the server, to be shared by its calls; a fresh one remembers nothing.
        options: how to encode and decode.
        measured: sizes of the request's files on disk (``svir_client.files.measure``).
        headers: this call's own, over the endpoint's of the same name.
        include_usage: whether usage is asked for when the request leaves it open.
        clock: seconds for a completion's timing; ``now``: seconds since the epoch, for dates in ``Retry-After``.

    An argument of another type is a ``ConfigError`` at once. ``start`` raises one for a wrong header or
    setting, and whatever the API's encoder does: ``UnsupportedError``, ``AttachmentError``, ``ContextOverflowError``.
    """

    def __init__(
        self,
        api: Api,
        request: Request,
        endpoint: Endpoint,
        compat: Compatibility | None = None,
        *,
        options: CodecOptions = DEFAULT_OPTIONS,
        measured: Measurements | None = None,
        headers: HeadersLike = (),
        include_usage: bool | None = None,
        clock: Clock = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(api, endpoint, now)
        expect(request, Request, "request")
        if request.include_usage is None:
            request = request.replace(include_usage=include_usage)
        self._request_asked = request
        self._compat = Compatibility() if compat is None else expect(compat, Compatibility, "compat")
        self._options = expect(options, CodecOptions, "options")
        self._measured = measured
        self._headers = headers
        self._clock = clock
        self._checked: Headers = ()
        self._known = Compat()
        self._lesson = Lesson()
        self._decoder: Decoder | None = None

    @property
    def decoder(self) -> Decoder | None:
        """The decoder of the answer, from the head of a success on; it has the counters, and knows no secrets."""
        return self._decoder

    @property
    def completion(self) -> Completion | None:
        """The whole answer, once ``Completed`` was told."""
        completion = None if self._decoder is None else self._decoder.completion
        return None if completion is None else redact_completion(completion, self.redactor)

    def _request(self) -> HttpRequest:
        self._known = self._compat.known()
        self._checked = caller_headers(self._headers)
        return self._encoded(self._known)

    def _encoded(self, known: Compat) -> HttpRequest:
        return request_of(
            self._api,
            self._endpoint,
            "POST",
            self._endpoint.for_requests(self._api.path(self._request_asked)),
            EVENT_STREAM,
            headers=self._checked,
            body=self._api.encode(self._request_asked, self._options, known, self._measured),
        )

    def _reason(self, response: ResponseHead) -> str | None:
        kind = media_type(response)
        if kind == EVENT_STREAM or (kind == JSON and self._options.mode is Mode.LENIENT):
            return super()._reason(response)
        if not kind:
            return "the server answered without a content-type, so it is no event stream"
        return "the server answered with something else than an event stream"

    def _reader(self) -> Reader:
        self._compat.learn(omit=self._lesson.omit, rename=self._lesson.rename)
        self._decoder = self._api.decoder(self._options, self._clock)
        return self._decoder

    def _partial(self) -> Partial | None:
        return None if self._decoder is None else self._decoder.partial

    def _retry(self, refusal: Refusal) -> HttpRequest | None:
        if not refusal.allows_retry:
            return None
        known = self._known
        asked = self._api.optional_fields(self._request_asked)
        lesson = compatibility.lesson(
            refusal.failure(), asked - known.omit, self._api.alternatives(self._request_asked), known.rename
        )
        if lesson is None:
            return None
        try:
            request = self._encoded(Compat(known.omit | asked, {**known.rename, **lesson.rename}))
        except SvirError:
            return None  # a longer name may pass the admission's bound: then the refusal stands
        self._lesson = lesson
        return request

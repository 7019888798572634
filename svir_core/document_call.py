"""Calls that are answered by one document: a page of a server's models, the tokens of a request.

Driven like an ``exchange.Exchange``, without events and never retried: ``start``, ``head``, ``push``, ``finish``.
Source: 00-architecture section 4, 30-client section 2.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from svir_core.call import Call, Reader, request_of
from svir_core.check import as_bytes, expect
from svir_core.errors import ConfigError, ResponseLimitError, SvirError
from svir_core.event import Events
from svir_core.exchange import DEFAULT_OPTIONS
from svir_core.http_message import Endpoint, Headers, HeadersLike, HttpRequest, caller_headers
from svir_core.limits import DOCUMENT_BYTES
from svir_core.refusal import JSON
from svir_core.request import Request
from svir_core.wire.api import Api, CodecOptions, Compat, ModelPage

if TYPE_CHECKING:
    from svir_core.body import Body, Measurements


T = TypeVar("T")


class _Document(Generic[T]):
    """The body of an answer: up to 16 MiB, read whole at its end."""

    done = False

    def __init__(self, read: Callable[[bytes], T]) -> None:
        self._read = read
        self._data = bytearray()
        self.answer: T | None = None

    def push(self, data: bytes | bytearray | memoryview) -> Events:
        data = as_bytes(data)
        if len(self._data) + len(data) > DOCUMENT_BYTES:
            return Events((), ResponseLimitError(f"the answer is longer than {DOCUMENT_BYTES} bytes"))
        self._data += data
        return Events()

    def finish(self) -> Events:
        try:
            self.answer = self._read(bytes(self._data))
        except SvirError as error:
            return Events((), error)
        return Events()


class DocumentCall(Call, Generic[T]):
    """What :class:`Listing` and :class:`Counting` share."""

    def __init__(self, api: Api, endpoint: Endpoint, headers: HeadersLike, now: Callable[[], float]) -> None:
        super().__init__(api, endpoint, now)
        self._headers = headers
        self._document: _Document[T] | None = None

    def result(self) -> T:
        """The answer, once ``finish`` returned without an error; before that ``ConfigError``."""
        answer = None if self._document is None else self._document.answer
        if answer is None:
            raise ConfigError(f"the {type(self).__name__} has no answer: drive it to its end")
        return answer

    @abstractmethod
    def _read(self, document: bytes) -> T:
        """The answer that ``document`` is; raises when it is none."""

    def _reader(self) -> Reader:
        self._document = _Document(self._read)
        return self._document

    def _sent(self, method: str, path: str, headers: Headers, body: Body | None = None) -> HttpRequest:
        url = self._endpoint.at_base(path)
        return request_of(self._api, self._endpoint, method, url, JSON, headers=headers, body=body)


class Listing(DocumentCall[ModelPage]):
    """One page of a server's models; ``after`` of the page before asks for a later one.

    ``start`` raises ``ConfigError`` when the endpoint has no base URL, or for a wrong header.
    """

    def __init__(
        self,
        api: Api,
        endpoint: Endpoint,
        *,
        after: str | None = None,
        headers: HeadersLike = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(api, endpoint, headers, now)
        self._after = after

    def _request(self) -> HttpRequest:
        return self._sent("GET", self._api.models_path(self._after), caller_headers(self._headers))

    def _read(self, document: bytes) -> ModelPage:
        return self._api.models(document)


class Counting(DocumentCall[int]):
    """The tokens of a request, counted by the server without answering it.

    ``start`` raises ``UnsupportedError`` when the API counts none, what its encoder raises, and ``ConfigError`` as
    for :class:`Listing`.
    """

    def __init__(
        self,
        api: Api,
        request: Request,
        endpoint: Endpoint,
        known: Compat | None = None,
        *,
        options: CodecOptions = DEFAULT_OPTIONS,
        measured: Measurements | None = None,
        headers: HeadersLike = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(api, endpoint, headers, now)
        self._asked = expect(request, Request, "request")
        self._known = Compat() if known is None else expect(known, Compat, "known")
        self._options = expect(options, CodecOptions, "options")
        self._measured = measured

    def _request(self) -> HttpRequest:
        path = self._api.count_path(self._asked)
        body = self._api.encode_count(self._asked, self._options, self._known, self._measured)
        return self._sent("POST", path, caller_headers(self._headers), body)

    def _read(self, document: bytes) -> int:
        return self._api.count(document)

"""A transport that does what h11's does, for others to change one thing of."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from typing import Any, Final

import attrs

from svir_client import TransportResponse
from svir_core.http_message import HttpRequest, ResponseHead
from svir_transport.h11 import H11Response, H11Transport


class Response:
    """A response that does what h11's does."""

    def __init__(self, inner: H11Response, owner: Around) -> None:
        self.inner = inner
        self.owner = owner

    @property
    def head(self) -> ResponseHead:
        return self.inner.head

    @property
    def complete(self) -> bool:
        return self.inner.complete

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self.inner)

    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        await self.inner.drain(limit, seconds)

    async def aclose(self) -> None:
        await self.inner.aclose()


class Around:
    """A transport that does what h11's does; those below change one thing."""

    def __init__(self, kind: type[Response] = Response) -> None:
        self.kind = kind
        self.inner = H11Transport(**self.options())
        self._responses: list[weakref.ref[H11Response]] = []  # one that is dropped is none of a wrapper's to hold
        self.memory: list[bytes] = []
        self.held: list[H11Response] = []
        MADE.append(self)

    @property
    def responses(self) -> list[H11Response]:
        return [response for reference in self._responses if (response := reference()) is not None]

    def options(self) -> dict[str, Any]:
        return {}

    def request(self, request: HttpRequest) -> HttpRequest:
        return request

    def body(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        return body

    async def send(
        self, request: HttpRequest, body: AsyncIterator[bytes] | None, idle: float, connect: float | None
    ) -> H11Response:
        body = None if body is None else self.body(body)
        response = await self.inner.open(self.request(request), body, idle_timeout=idle, connect_timeout=connect)
        self._responses.append(weakref.ref(response))
        return response

    async def open(
        self,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
        *,
        idle_timeout: float = 300.0,
        connect_timeout: float | None = None,
    ) -> TransportResponse:
        return await self.wrap(await self.send(request, body, idle_timeout, connect_timeout))

    async def wrap(self, response: H11Response) -> Response:
        return self.kind(response, self)

    async def aclose(self) -> None:
        await self.inner.aclose()


MADE: Final[list[Around]] = []
"""Every transport made here: a broken one may fail to close what it holds, so the test does."""


def with_headers(request: HttpRequest, *headers: tuple[str, str]) -> HttpRequest:
    return attrs.evolve(request, headers=headers)


def length_of(request: HttpRequest) -> int:
    return int(request.get("content-length") or 0)


class Wrapped:
    """A body that hands its blocks on; ``aclose`` reaches the one inside."""

    def __init__(self, inner: AsyncIterator[bytes]) -> None:
        self.inner = inner

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self.inner)

    async def aclose(self) -> None:
        await close(self.inner)


async def close(body: object) -> None:
    aclose = getattr(body, "aclose", None)
    if aclose is not None:
        await aclose()

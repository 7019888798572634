"""Transports that break one rule each of sending a request."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import attrs

from svir_core.errors import ResponseTimeoutError, SvirError, TransportError
from svir_core.http_message import HttpRequest
from svir_transport.h11 import H11Response
from tests.svir_client.testing.around import Around, Response, Wrapped, close, length_of, with_headers


class SortsHeaders(Around):
    def request(self, request: HttpRequest) -> HttpRequest:
        return with_headers(request, *sorted(request.headers))


class AddsUserAgent(Around):
    def request(self, request: HttpRequest) -> HttpRequest:
        return with_headers(request, *request.headers, ("user-agent", "broken"))


class KeepsCookies(Around):
    def request(self, request: HttpRequest) -> HttpRequest:
        cookies = [("cookie", response.head.get("set-cookie") or "") for response in self.responses]
        return with_headers(request, *request.headers, *cookies)


class DropsAnEmptyBody(Around):
    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        if body is not None and not length_of(request):
            await close(body)
            request = with_headers(request, *(pair for pair in request.headers if pair[0] != "content-length"))
            body = None
        return await super().send(request, body, idle, connect)


class CorruptsLargeBlocks(Around):
    class Body(Wrapped):
        async def __anext__(self) -> bytes:
            block = await anext(self.inner)
            return block if len(block) < 100_000 else bytes(1) + block[1:]

    def body(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        return self.Body(body)


class CollectsTheBody(Around):
    class Body(Wrapped):
        whole: bytes | None = None

        async def __anext__(self) -> bytes:
            if self.whole is not None:
                raise StopAsyncIteration
            self.whole = b"".join([block async for block in self.inner])
            return self.whole

    def body(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        return self.Body(body)


class ForgetsTheBody(Around):
    class Body:
        def __init__(self, inner: AsyncIterator[bytes]) -> None:
            self.inner = inner

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            return await anext(self.inner)

    def body(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        return self.Body(body)


class TranslatesTheBodysError(Around):
    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        try:
            return await super().send(request, body, idle, connect)
        except LookupError:
            failure = TransportError("the body failed")
        raise failure


class FitsTheBody(Around):
    """Pads a body that is too short, and cuts one that is too long."""

    class Body(Wrapped):
        left = 0

        async def __anext__(self) -> bytes:
            if not self.left:
                raise StopAsyncIteration
            block = (await anext(self.inner, bytes(self.left)))[: self.left]
            self.left -= len(block)
            return block

    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        if body is not None and request.get("content-length") is not None:
            body = self.Body(body)
            body.left = length_of(request)
        return await super().send(request, body, idle, connect)


class AddsALength(Around):
    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        if body is not None and request.get("content-length") is None:
            request = with_headers(request, *request.headers, ("content-length", "1"))
        return await super().send(request, body, idle, connect)


class RaisesForStatus(Around):
    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        response = await super().send(request, body, idle, connect)
        if response.head.status >= 400:
            await response.aclose()
            raise TransportError("the server refused")
        return response


class _ReadAhead(Response):
    first = b""

    async def __anext__(self) -> bytes:
        first, self.first = self.first, b""
        return first or await anext(self.inner)


class ReadsAhead(Around):
    """Waits for the body's first byte before it hands over the head."""

    async def wrap(self, response: H11Response) -> Response:
        ahead = _ReadAhead(response, self)
        ahead.first = await anext(response, b"")
        return ahead


class Repeats(Around):
    """Sends a request again: when there was no answer, when it was refused, and where a redirect points."""

    def again(self, request: HttpRequest, response: H11Response) -> HttpRequest | None:
        return None

    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        response = await super().send(request, body, idle, connect)
        following = self.again(request, response)
        if following is None:
            return response
        await response.aclose()
        return await super().send(following, None, idle, connect)


class FollowsRedirects(Repeats):
    def again(self, request: HttpRequest, response: H11Response) -> HttpRequest | None:
        location = response.head.get("location")
        if location is None:
            return None
        return attrs.evolve(request, port=int(location.split(":")[2].split("/")[0]), target="/other")


class RepeatsRefusals(Repeats):
    def again(self, request: HttpRequest, response: H11Response) -> HttpRequest | None:
        return request if response.head.status >= 400 else None


class RepeatsWithoutAnAnswer(Around):
    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        try:
            return await super().send(request, body, idle, connect)
        except TransportError:
            if body is not None:
                raise
        return await super().send(request, body, idle, connect)


class AsksTheProxy(Around):
    def request(self, request: HttpRequest) -> HttpRequest:
        proxy = os.environ.get("http_proxy")
        return request if proxy is None else attrs.evolve(request, port=int(proxy.split(":")[2]))


class ForgetsTheConnectClock(Around):
    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        return await super().send(request, body, idle, 300.0)


class ForgetsTheIdleClock(Around):
    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        return await super().send(request, body, 300.0, connect)


class ConnectClockForAll(Around):
    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        with anyio.move_on_after(connect or math.inf):
            return await super().send(request, body, idle, connect)
        raise ResponseTimeoutError("no response in time")


class _Bounded(Response):
    deadline = math.inf

    async def __anext__(self) -> bytes:
        with anyio.CancelScope(deadline=self.deadline):
            return await anext(self.inner)
        raise ResponseTimeoutError("no response in time")


class IdleClockForAll(Around):
    deadline = math.inf

    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        self.deadline = anyio.current_time() + idle
        with anyio.CancelScope(deadline=self.deadline):
            return await super().send(request, body, idle, connect)
        raise ResponseTimeoutError("no response in time")

    async def wrap(self, response: H11Response) -> Response:
        bounded = _Bounded(response, self)
        bounded.deadline = self.deadline
        return bounded


class RoundsClocks(Around):
    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        return await super().send(request, body, max(1, int(idle)), connect)


class Changing(Around):
    """Raises another error in place of each."""

    def change(self, error: SvirError, request: HttpRequest) -> Exception:
        return error

    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        try:
            return await super().send(request, body, idle, connect)
        except SvirError as error:
            failure = self.change(error, request)
        raise failure


class NeverUnsent(Changing):
    def change(self, error: SvirError, request: HttpRequest) -> Exception:
        return type(error)(error.detail)


class AlwaysUnsent(Changing):
    def change(self, error: SvirError, request: HttpRequest) -> Exception:
        return type(error)(error.detail, unsent=True)


class RaisesForeignErrors(Changing):
    def change(self, error: SvirError, request: HttpRequest) -> Exception:
        return ConnectionError(error.detail)


class LeavesForeignErrorsBehind(Changing):
    def change(self, error: SvirError, request: HttpRequest) -> Exception:
        error.__context__ = OSError("to the server")
        return error


class ShowsThePort(Changing):
    def change(self, error: SvirError, request: HttpRequest) -> Exception:
        return type(error)(f"port {request.port} failed", unsent=error.unsent)


class ShowsTheTarget(Changing):
    def change(self, error: SvirError, request: HttpRequest) -> Exception:
        return type(error)(f"{request.target} failed", unsent=error.unsent)


class HoldsResponses(Around):
    async def wrap(self, response: H11Response) -> Response:
        self.held.append(response)
        return await super().wrap(response)


class KeepsNone(Around):
    def options(self) -> dict[str, Any]:
        return {"max_idle": 0}


class OpenGivesWay(Around):
    async def send(self, request: HttpRequest, body: Any, idle: float, connect: float | None) -> H11Response:
        response = await super().send(request, body, idle, connect)
        self.held.append(response)
        await anyio.lowlevel.checkpoint()
        return response


class NeverClosesItself(Around):
    async def aclose(self) -> None:
        pass


class SendsTheFirstBody(Around):
    class Body(Wrapped):
        memory: list[bytes]

        async def __anext__(self) -> bytes:
            self.memory.append(await anext(self.inner))
            return self.memory[0]

    def body(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        mixed = self.Body(body)
        mixed.memory = self.memory
        return mixed

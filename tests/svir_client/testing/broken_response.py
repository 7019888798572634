"""Responses that break one rule each."""

from __future__ import annotations

import gzip

import anyio
import anyio.lowlevel

from svir_core.errors import ConfigError, SvirError, TransportError
from svir_core.http_message import ResponseHead
from tests.svir_client.testing.around import Response


class JoinsHeaders(Response):
    @property
    def head(self) -> ResponseHead:
        return ResponseHead(self.inner.head.status, tuple(dict(self.inner.head.headers).items()))


class LosesBytes(Response):
    async def __anext__(self) -> bytes:
        return (await anext(self.inner))[:-1]


class AddsBytes(Response):
    added = False

    async def __anext__(self) -> bytes:
        try:
            return await anext(self.inner)
        except StopAsyncIteration:
            if self.added:
                raise
        self.added = True
        return b"\n"


class CollectsTheResponse(Response):
    """Reads the whole body before it hands over the first byte."""

    data: bytes | None = None

    def change(self, data: bytes) -> bytes:
        return data

    async def __anext__(self) -> bytes:
        if self.data is not None:
            raise StopAsyncIteration
        self.data = self.change(b"".join([data async for data in self.inner]))
        return self.data


class Decodes(CollectsTheResponse):
    def change(self, data: bytes) -> bytes:
        return gzip.decompress(data) if self.head.get("content-encoding") == "gzip" else data


class SwallowsFailures(Response):
    async def __anext__(self) -> bytes:
        try:
            return await anext(self.inner)
        except SvirError:
            pass
        raise StopAsyncIteration


class EndsAfterAFailure(Response):
    failed = False

    async def __anext__(self) -> bytes:
        if self.failed:
            raise StopAsyncIteration
        try:
            return await anext(self.inner)
        except SvirError:
            self.failed = True
            raise


class EndsWhenClosed(Response):
    closed = False

    async def __anext__(self) -> bytes:
        if self.closed:
            raise StopAsyncIteration
        return await anext(self.inner)

    async def aclose(self) -> None:
        self.closed = True
        await self.inner.aclose()


class CutOffWhenClosed(Response):
    async def __anext__(self) -> bytes:
        failure = None
        try:
            return await anext(self.inner)
        except ConfigError as error:
            failure = TransportError(error.detail)
        raise failure


class AlwaysComplete(Response):
    @property
    def complete(self) -> bool:
        return True


class AcloseReadsOn(Response):
    async def aclose(self) -> None:
        if not self.inner.complete:
            await self.inner.drain(1 << 40, 5)


class AcloseOnce(Response):
    closed = False

    async def aclose(self) -> None:
        if self.closed:
            raise ConfigError("it is closed")
        self.closed = True
        await self.inner.aclose()


class AcloseGivesWay(Response):
    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        await self.inner.aclose()


class AcloseClosesEveryResponse(Response):
    async def aclose(self) -> None:
        for response in self.owner.responses:
            await response.aclose()


class DrainCloses(Response):
    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        await self.inner.aclose()


class DrainsWithoutBounds(Response):
    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        await self.inner.drain(1 << 40, 5)


class DrainRaises(Response):
    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        async for _ in self.inner:
            pass


class DrainGivesWay(Response):
    async def drain(self, limit: int = 64 * 1024, seconds: float = 0.05) -> None:
        await anyio.lowlevel.checkpoint()
        await self.inner.drain(limit, seconds)


class ReadGivesWay(Response):
    async def __anext__(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        return await anext(self.inner)


class AnswersFromACache(CollectsTheResponse):
    def change(self, data: bytes) -> bytes:
        self.owner.memory.append(data)
        return self.owner.memory[0]

"""What every clause works with: a transport of its own, requests to loopback servers, and what it may expect."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import anyio
import attrs

from svir_client.testing.reply import Framing, Reply
from svir_client.testing.server import MockServer
from svir_client.testing.wait import Gate
from svir_client.transport import Transport, TransportResponse
from svir_core.errors import SvirError
from svir_core.http_message import HttpRequest

SOON: Final = 1.0
"""Seconds for what has to happen at once: long for a busy machine, short for a person."""

SHORT: Final = 0.2
"""Seconds of a clock that is meant to run out."""

AMPLE: Final = 5.0
"""Seconds of a clock that is not."""

HOST: Final = "127.0.0.1"
TARGET: Final = "/withheld/path?key=withheld-query"
SECRET_HEADER: Final = ("x-secret", "withheld-value")
MARKS: Final = (HOST, "name.invalid", "withheld")
"""What no error may show, beside the port: host, path, query and header value hold one of these each."""


class Broken(AssertionError):
    """A clause does not hold: what was seen."""


def expect(held: bool, seen: str) -> None:
    """Raise :class:`Broken` with what was ``seen``, unless the clause is ``held``."""
    if not held:
        raise Broken(seen)


@contextmanager
def within(seconds: float, what: str) -> Generator[None]:
    """Bound a wait for ``what`` ought to happen."""
    with anyio.move_on_after(seconds) as scope:
        yield
    expect(not scope.cancelled_caught, f"{what}: not within {seconds:g} s")


def soon(what: str) -> AbstractContextManager[None]:
    """Bound a wait for ``what`` has to happen at once."""
    return within(SOON, what)


def answer(*pieces: bytes | Gate, framing: Framing = Framing.LENGTH, **settings: Any) -> Reply:
    """A reply with this body; by default one after which the connection can be kept."""
    return Reply(body=pieces, framing=framing, **settings)


def raw(*pieces: bytes | Gate, **settings: Any) -> Reply:
    """A reply of exactly these bytes, head and all, each piece by itself."""
    return Reply(raw=b"", body=pieces, **settings)


class Blocks:
    """A request's body that gives blocks, raises what is an exception, awaits what is a function, and counts."""

    def __init__(self, *items: bytes | Exception | Callable[[], Awaitable[object]]) -> None:
        self._items = list(items)
        self.closed = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while self._items:
            item = self._items.pop(0)
            if isinstance(item, bytes):
                return item
            if isinstance(item, Exception):
                raise item
            await item()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Count it."""
        self.closed += 1


@attrs.frozen
class Failed:
    """What came of a body before it failed, and the failure."""

    received: bytes
    error: SvirError


class Bench:
    """One clause's transport, and every response it opened: closed when the clause is over."""

    def __init__(self, factory: Callable[[], Transport]) -> None:
        self._factory = factory
        self._transports: list[Transport] = []
        self._responses: list[TransportResponse] = []
        self._ports: set[int] = set()

    @property
    def transport(self) -> Transport:
        """The clause's transport, made when it is first asked for."""
        if not self._transports:
            self._transports.append(self._factory())
        return self._transports[0]

    async def aclose(self) -> None:
        """Close all that the clause has left open, then raise what the first failure of that was."""
        failure: Exception | None = None
        left: list[TransportResponse | Transport] = [*self._responses, *self._transports]
        for opened in left:
            try:
                await opened.aclose()
            except Exception as error:  # noqa: BLE001 - raised below
                failure = failure or error
        if failure is not None:
            raise failure

    async def open(
        self,
        to: MockServer | int,
        body: AsyncIterator[bytes] | None = None,
        *,
        length: int | None = None,
        headers: tuple[tuple[str, str], ...] = (("host", "server.example"), SECRET_HEADER),
        scheme: str = "http",
        host: str = HOST,
        target: str = TARGET,
        idle_timeout: float = AMPLE,
        connect_timeout: float | None = AMPLE,
        hold: bool = True,
    ) -> TransportResponse:
        """Open a request to a server or a port: a GET, or with ``length`` a POST of so many bytes.

        The response is closed with the bench; without ``hold`` the caller alone has it.
        """
        port = to if isinstance(to, int) else to.port
        self._ports.add(port)
        if length is not None:
            headers = (*headers, ("content-length", str(length)))
        request = HttpRequest("GET" if length is None else "POST", scheme, host, port, target, headers)
        response = await self.transport.open(request, body, idle_timeout=idle_timeout, connect_timeout=connect_timeout)
        if hold:
            self._responses.append(response)
        return response

    async def whole(self, to: MockServer | int, **options: Any) -> bytes:
        """The body of a response that is read to its end and closed."""
        response = await self.open(to, **options)
        data = await read(response)
        await response.aclose()
        return data

    async def failure(self, call: Awaitable[object], *kinds: type[SvirError], unsent: bool | None = None) -> SvirError:
        """The error that ``call`` raises: one of ours, of these ``kinds``, with nothing foreign behind it and
        nothing withheld in its words; ``unsent`` as given, unless that is ``None``."""
        error = await _raised(call)
        names = " or ".join(kind.__name__ for kind in kinds)
        expect(isinstance(error, kinds), f"{type(error).__name__} was raised in place of {names}")
        if unsent is not None:
            expect(error.unsent is unsent, f"{type(error).__name__} has unsent={error.unsent}")
        self._check_words(error)
        _check_chain(error)
        return error

    async def read_to_failure(
        self, response: TransportResponse, *kinds: type[SvirError], unsent: bool | None = False
    ) -> Failed:
        """What a body that is bound to fail gives, and its error, judged as in :meth:`failure`."""
        body = aiter(response)
        received = bytearray()

        async def all_of_it() -> None:
            async for data in body:
                received.extend(data)

        error = await self.failure(all_of_it(), *kinds, unsent=unsent)
        expect(not response.complete, "a body that failed calls itself complete")
        return Failed(bytes(received), error)

    def _check_words(self, error: SvirError) -> None:
        words = f"{error} {error!r}"
        shown = [mark for mark in MARKS if mark in words]
        shown += [str(port) for port in self._ports if re.search(rf"\b{port}\b", words)]
        expect(not shown, f"an error shows what it ought to withhold ({', '.join(shown)}): {error!r}")


async def read(response: TransportResponse) -> bytes:
    """The whole body."""
    return b"".join([data async for data in response])


async def read_until(body: AsyncIterator[bytes], length: int) -> bytes:
    """The body's first ``length`` bytes, and what comes with them."""
    data = b""
    while len(data) < length:
        data += await anext(body)
    return data


async def _raised(call: Awaitable[object]) -> SvirError:
    try:
        await call
    except SvirError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a foreign exception is the finding
        foreign = f"{type(error).__module__}.{type(error).__qualname__}"
    else:
        raise Broken("nothing was raised")
    raise Broken(f"a foreign exception came out: {foreign}")


def _check_chain(error: SvirError) -> None:
    seen: list[BaseException] = []
    behind: list[BaseException | None] = [error]
    while behind:
        link = behind.pop()
        if link is None or link in seen:
            continue
        kind = type(link)
        expect(
            isinstance(link, SvirError),
            f"behind {type(error).__name__} stands a foreign exception: {kind.__module__}.{kind.__qualname__}",
        )
        seen.append(link)
        behind += [link.__cause__, link.__context__]

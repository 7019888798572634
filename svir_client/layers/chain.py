"""The layers of one call, run from the outermost to the request itself (30 section 3).

Two rules hold for it. Of the streams that ``next`` gave a layer, all are closed but the one that the layer
returns, however it ends. What a layer returns is an open stream, or a ``ConfigError`` that names the layer.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from svir_client.driver import Driver
from svir_client.layers.layer import Layer, layer_name
from svir_client.open_response import request_id_of
from svir_client.stream import Stream
from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.exchange import Exchange
from svir_core.redact import Redactor
from svir_core.request import Request

if TYPE_CHECKING:
    from svir_client.stream import Attempt


class Chain:
    """One call through ``layers``: calling it gives the opened stream. ``begin`` makes the call of a request ready.

    Attributes:
        api: the name of the wire API of the client whose call it is.
        drivers: of the requests made so far, in order.
        elsewhere: whether an event was read of an answer of another client, which failed.
    """

    __slots__ = ("_begin", "_layers", "_request", "api", "drivers", "elsewhere")

    def __init__(
        self, layers: tuple[Layer, ...], begin: Callable[[Request], Driver[Exchange]], request: Request, *, api: str
    ) -> None:
        self._layers = layers
        self._begin = begin
        self._request = request
        self.api = api
        self.drivers: list[Driver[Exchange]] = []
        self.elsewhere = False

    async def __call__(self, attempt: Attempt) -> Stream:
        """``attempt`` makes a stream of a call that is ready. Raises what the outermost layer does."""
        return await self.through(0, self._request, attempt)

    async def through(self, index: int, request: Request, attempt: Attempt) -> Stream:
        """The stream that the layers from ``index`` on give for ``request``."""
        if index == len(self._layers):
            driver = self._begin(request)
            stream = attempt(driver)
            self.drivers.append(driver)
            return await stream.__aenter__()
        layer = self._layers[index]
        next = Next(self, index + 1, attempt, layer_name(layer))
        returned = None
        try:
            returned = stream = _checked(await _asked(layer, request, next), layer)
        finally:
            await next.end(returned)
        return stream


class Next:
    """What a layer asks for an opened stream, by ``await next(request)``: the layers inside it, and the server.

    It raises what they raise, and ``ConfigError`` when it is asked for something else than a ``Request``, or after
    its layer has returned. It may be asked several times, at the same time too.
    """

    __slots__ = ("_attempt", "_before", "_chain", "_given", "_index", "_name", "_over")

    def __init__(self, chain: Chain, index: int, attempt: Attempt, name: str) -> None:
        self._chain = chain
        self._index = index
        self._attempt = attempt
        self._name = name
        self._before = len(chain.drivers)
        self._given: list[Stream] = []
        self._over = False

    async def __call__(self, request: Request) -> Stream:
        """An opened stream for ``request``."""
        self._check_time()
        if not isinstance(request, Request):
            raise ConfigError(f"the layer {self._name} called next with {an(type(request))}, not a Request")
        stream = await self._chain.through(self._index, request, self._attempt)
        self._given.append(stream)
        if self._over:
            await self.end(None)
        self._check_time()
        return stream

    @property
    def sent(self) -> int:
        """How many requests were made so far by way of this layer: more than one when a layer inside it repeats."""
        return len(self._drivers)

    @property
    def events_read(self) -> bool:
        """Whether an event of their answers was read, by whoever: then the call must not be repeated."""
        return self._chain.elsewhere or any(driver.events_read for driver in self._drivers)

    def events_read_elsewhere(self) -> None:
        """An event was read of an answer that another client gave instead: it counts as one of this call."""
        self._chain.elsewhere = True

    @property
    def api(self) -> str:
        """The name of the wire API of the client whose call this is: ``openai_chat``."""
        return self._chain.api

    @property
    def request_id(self) -> str | None:
        """What the server calls the latest of these requests, a refused one too; ``None`` when it does not say."""
        head = self._drivers[-1].head if self._drivers else None
        return None if head is None else request_id_of(head)

    @property
    def redactor(self) -> Redactor:
        """What takes the secrets that these requests were sent with, their keys, out of a text."""
        redactor = Redactor()
        for driver in self._drivers:
            redactor |= driver.redactor
        return redactor

    @property
    def _drivers(self) -> list[Driver[Exchange]]:
        return self._chain.drivers[self._before :]

    async def end(self, returned: Stream | None) -> None:
        """The layer has ended, with ``returned``: close every other stream that it was given. What a stream's
        callback raises as it is closed is raised after the last, and then ``returned`` is closed too."""
        self._over = True
        async with contextlib.AsyncExitStack() as kept:
            if returned is not None:
                kept.push_async_callback(returned.aclose)
            async with contextlib.AsyncExitStack() as others:
                for stream in self._given:
                    if stream is not returned:
                        others.push_async_callback(stream.aclose)
                self._given.clear()
            kept.pop_all()

    def _check_time(self) -> None:
        if self._over:
            raise ConfigError(f"the layer {self._name} called next after it had returned")


async def _asked(layer: Layer, request: Request, next: Next) -> object:
    pending = layer(request, next)
    if not inspect.isawaitable(pending):
        raise ConfigError(f"the layer {layer_name(layer)} is no async function: what it returns cannot be awaited")
    return await pending


def _checked(stream: object, layer: Layer) -> Stream:
    if not isinstance(stream, Stream):
        raise ConfigError(f"the layer {layer_name(layer)} returned {an(type(stream))}, not a Stream")
    unfit = stream._unfit()
    if unfit is not None:
        raise ConfigError(f"the layer {layer_name(layer)} returned a Stream that {unfit}")
    return stream

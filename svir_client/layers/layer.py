"""What a layer is: a step around the call, from a request to an opened stream (30 section 3).

async def renamed(request: Request, next: Next) -> Stream:
    return await next(request.replace(model="qwen3-27b"))

client = AsyncClient.openai(url, layers=[Retry.transient(3), wrap(renamed)])
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.request import Request

if TYPE_CHECKING:
    from svir_client.layers.chain import Next
    from svir_client.stream import Stream


class Layer(Protocol):
    """Any object that is called so; an async function too. One object serves every call of its clients.

    A class that is one may name it as its base: mypy then takes a list of several for a list of layers.
    """

    def __call__(self, request: Request, next: Next, /) -> Awaitable[Stream]:
        """An opened stream for ``request``: one that ``next(request)`` gave, or any other that is open.

        It may ask ``next`` for several, or for none, and shape a stream by the stream's own methods. Of the streams
        that ``next`` gave, all are closed but the one that is returned; all of them when this raises or is
        cancelled. What it raises goes to the caller as it is.
        """
        ...


class FunctionLayer(Layer):
    """An async function as a layer, called by the function's name."""

    def __init__(self, function: Callable[[Request, Next], Awaitable[Stream]]) -> None:
        self._function = function
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))

    def __call__(self, request: Request, next: Next) -> Awaitable[Stream]:
        """What the function gives."""
        return self._function(request, next)

    def __repr__(self) -> str:
        return f"wrap({self.__name__})"


def wrap(function: Callable[[Request, Next], Awaitable[Stream]]) -> Layer:
    """A layer of ``async def function(request, next)``; a decorator too.

    Raises ``ConfigError`` for what is no async function, or does not take two arguments.
    """
    call: object = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    if not inspect.iscoroutinefunction(call) and not inspect.iscoroutinefunction(getattr(function, "func", None)):
        raise ConfigError("wrap takes an async function: async def layer(request, next)")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        pass
    else:
        return FunctionLayer(function)
    raise ConfigError(f"the layer {layer_name(function)} must take two arguments: request and next")


def layer_name(layer: object) -> str:
    """What errors call a layer; never its ``repr``, which may show anything."""
    return str(getattr(layer, "__name__", type(layer).__name__))


def checked_layers(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """``layers`` as a tuple; ``ConfigError`` when one of them cannot be called, or is a class."""
    given: object = layers
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise ConfigError(f"layers must be a sequence of layers, not {an(type(given))}")
    checked = tuple(layers)
    for number, layer in enumerate(checked):
        if isinstance(layer, type) or not callable(layer):
            what = f"the class {layer.__name__}" if isinstance(layer, type) else an(type(layer))
            raise ConfigError(f"layers[{number}] must be a layer, not {what}")
    return checked

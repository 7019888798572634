"""Which functions have to be awaited, and the callbacks that must not be such."""

from __future__ import annotations

import functools
import inspect
from typing import Any, TypeVar

from svir_client.watch import expect_callable
from svir_core.errors import ConfigError

F = TypeVar("F")


def is_async(function: Any) -> bool:
    """Whether calling ``function`` gives a coroutine, as far as can be seen before."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def expect_blocking(value: F, where: str) -> F:
    """``value``, which must be callable, and is called without ``await``; ``ConfigError`` otherwise."""
    if is_async(expect_callable(value, where)):
        raise ConfigError(f"{where} must be a function that is not async: it is called where nothing can wait")
    return value


def refuse_coroutine(made: object, where: str) -> None:
    """``ConfigError`` when what ``where`` gave would have to be awaited, which nobody does."""
    if inspect.iscoroutine(made):
        made.close()
        raise ConfigError(f"{where} must be a function that is not async: it is called where nothing can wait")

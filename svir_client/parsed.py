"""An answer that is read into a type of the caller's: what is asked for, and what comes of it (30 section 2)."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from svir_core.errors import SvirError
from svir_core.request import Request, ResponseFormat, Schema
from svir_core.response import Completion, Partial

T = TypeVar("T")


class Parsed(NamedTuple, Generic[T]):
    """A value and the answer it was read from: ``value, completion = await client.parse(request, T)``."""

    value: T
    completion: Completion


def readable(into: type[T]) -> type[T]:
    """``into``; ``ConfigError`` when JSON cannot be read into it, so that no answer is waited for in vain."""
    from svir_core.structure import check_readable  # imported late: most programs never parse

    check_readable(into, what="the answer")
    return into


def asking_for(request: Request, into: type[T]) -> Request:
    """``request``, which asks for a ``T`` unless it says itself what the answer must look like.

    Raises ``ConfigError`` for a type that JSON cannot be read into.
    """
    readable(into)
    if request.response_format is not ResponseFormat.TEXT:
        return request
    return request.replace(response_format=Schema.of(into))


def parsed(completion: Completion, into: type[T]) -> Parsed[T]:
    """``completion`` read into a ``T``; raises what ``Completion.parse`` raises, with the answer on ``.partial``."""
    try:
        return Parsed(completion.parse(into), completion)
    except SvirError as error:
        error.partial = Partial(completion.parts, completion.usage, completion.model, completion.id)
        raise

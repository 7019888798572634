"""What a function takes: each parameter as a field of its arguments' schema, and where the context goes."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final, get_args, get_origin

import attrs

from svir_client.tools.context import ToolContext
from svir_client.tools.docstring import described
from svir_core.errors import ConfigError
from svir_core.structure_class import Field

_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@attrs.frozen
class Signature:
    """A function as a tool.

    Attributes:
        name: its own name; ``None`` when it has none that a tool could have.
        words: what its docstring says.
        fields: its parameters, that of the context left out.
        contexts: the parameters that take the context.
        open: whether it takes any other name too.
    """

    name: str | None
    words: str
    fields: list[Field]
    contexts: tuple[str, ...]
    open: bool


def signature_of(function: Callable[..., Any]) -> Signature:
    """The signature of ``function``: a function, a method, a ``partial``, an object that can be called.

    Raises ``ConfigError`` when there is none, a parameter cannot be given by its name, an annotation names what is
    not there, or the function is a generator.
    """
    inner = _inner(function)
    name = getattr(inner, "__name__", None)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigError(f"{name} is a generator: a tool returns its result")
    parameters, hints = _read(function, inner)
    about = described(inner)
    fields: list[Field] = []
    contexts: list[str] = []
    for parameter in parameters:
        hint = hints.get(parameter.name, Any)
        if _is_context(hint):
            contexts.append(parameter.name)
        elif parameter.kind in _BY_NAME:
            fields.append(_field(parameter, hint, about.parameters.get(parameter.name)))
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            raise ConfigError(f"parameter {parameter.name} of {name} cannot be given by its name")
    is_open = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    return Signature(name if isinstance(name, str) else None, about.words, fields, tuple(contexts), is_open)


def _inner(function: Any) -> Any:
    """The function that is called in the end: where names, annotations and docstrings are."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__ if callable(function) else function


def _read(function: Callable[..., Any], inner: Any) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    name = getattr(inner, "__name__", type(function).__name__)
    try:
        parameters = list(inspect.signature(function).parameters.values())
        target = getattr(inner, "__init__", inner) if isinstance(inner, type) else inner
        return parameters, typing.get_type_hints(target, include_extras=True)
    except (TypeError, ValueError):
        problem = f"{name} has no signature"
    except (NameError, AttributeError):
        problem = f"an annotation of {name} names what is not there"
    raise ConfigError(problem)


def _is_context(hint: Any) -> bool:
    """Whether ``hint`` is the context's class, alone, annotated, or beside ``None``."""
    if get_origin(hint) is Annotated:
        return _is_context(get_args(hint)[0])
    if get_origin(hint) in (typing.Union, types.UnionType):
        return any(_is_context(member) for member in get_args(hint))
    return hint is ToolContext


def _field(parameter: inspect.Parameter, hint: Any, words: str | None) -> Field:
    required = parameter.default is inspect.Parameter.empty
    return Field(
        parameter.name,
        hint if words is None else Annotated[hint, words],
        required,
        dataclasses.MISSING if required else parameter.default,
    )

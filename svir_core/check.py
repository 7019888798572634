"""Checks of what a caller hands in: each failure is a ``ConfigError`` that names the field, never its value.

attrs' own validators put the value into the message, and an enum's own ``ValueError`` is no ``SvirError``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeVar

import attrs

from svir_core.errors import ConfigError

E = TypeVar("E", bound=Enum)
T = TypeVar("T")
Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def an(kind: type) -> str:
    """The name of ``kind`` behind its article: ``an int``, ``a str``, ``an SSLContext``."""
    name = kind.__name__ or "nameless class"
    spelled = name[1:2].isupper() and name[0] in "AEFHILMNORSX"  # letter by letter: an S, an S, an L
    return f"an {name}" if spelled or name[0] in "AEIOaeio" else f"a {name}"


def choice(kind: type[E], value: E | str, where: str) -> E:
    """``value`` as a member of ``kind``; ``ConfigError`` that lists the members when it is none."""
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(repr(member.value) for member in kind)
    raise ConfigError(f"{where} is one of {names}")


def expect(value: T, kind: type[T], where: str) -> T:
    """``value``, which must be a ``kind``; ``ConfigError`` when it is none."""
    if not isinstance(value, kind):
        raise ConfigError(f"{where} must be {an(kind)}, not {an(type(value))}")
    return value


def wire_api(value: T) -> T:
    """``value``, which must be a wire API; ``ConfigError`` that says what to give for a name, a module or a class."""
    if isinstance(value, type) or not callable(getattr(value, "decoder", None)):  # not `encode`: a str has that
        raise ConfigError(f"api must be a wire API, such as openai_chat.API of svir_core.wire, not {an(type(value))}")
    return value


def several(values: Iterable[T], kind: type[T], where: str) -> tuple[T, ...]:
    """``values``, each of which must be a ``kind``; ``ConfigError`` that names the place of one that is none."""
    if not isinstance(values, Iterable):
        raise ConfigError(f"{where} is {an(type(values))}, which cannot be iterated")
    found = tuple(values)
    for number, value in enumerate(found):
        expect(value, kind, f"{where}[{number}]")
    return found


def seconds(value: float, where: str, *, unsent: bool = False) -> float:
    """``value``, which must be a positive number of seconds, infinity included; ``ConfigError`` otherwise.

    An integer that no float can hold is as good as infinity: clocks count in floats. ``unsent``: what the error
    says of the request that the value was given for.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{where} must be a positive number of seconds", unsent=unsent)
    return float(value) if value < sys.float_info.max else math.inf


def count(value: int, minimum: int, where: str) -> int:
    """``value``, which must be an integer of ``minimum`` or more; a bool is none. ``ConfigError`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigError(f"{where} must be an integer of {minimum} or more")
    return value


def as_bytes(data: Any, where: str = "push()") -> bytes:
    """``data``, which ``where`` takes, as bytes; ``ConfigError`` when it is none."""
    if isinstance(data, bytes | bytearray):
        return bytes(data)
    if isinstance(data, memoryview):
        return data.tobytes()
    raise ConfigError(f"{where} takes bytes, not {type(data).__name__}")


def instance_of(*kinds: type) -> Validator:
    """An attrs validator: the value is one of ``kinds``. A bool passes for an int only where bool is named."""

    def validate(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
            return
        wanted = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise ConfigError(f"{type(instance).__name__}.{attribute.name} must be {wanted}, not {type(value).__name__}")

    return validate


def finite(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """An attrs validator: ``None`` or a finite number; JSON has no spelling for the others."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(
            f"{type(instance).__name__}.{attribute.name} must be a number or None, not {type(value).__name__}"
        )
    if not math.isfinite(value):
        raise ConfigError(f"{type(instance).__name__}.{attribute.name} must be finite")


def at_least(minimum: int) -> Validator:
    """An attrs validator: an integer of ``minimum`` or more; a bool is none."""

    def validate(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        count(value, minimum, f"{type(instance).__name__}.{attribute.name}")

    return validate

"""Checks of what a test hands in: a wrong argument is a ``ConfigError`` where it is given, which names it, and no
surprise inside the server later on."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from svir_core.check import an, count
from svir_core.errors import ConfigError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


def every(values: Iterable[T], kinds: tuple[type, ...], where: str) -> tuple[T, ...]:
    """``values``, each of which must be one of ``kinds``."""
    raw: Any = values
    if isinstance(raw, str | bytes | bytearray | memoryview | Mapping) or not isinstance(raw, Iterable):
        raise ConfigError(f"{where}: not a sequence of them, but {_shown(values)}")
    given = tuple(values)
    for value in given:
        one(value, kinds, where)
    return given


def one(value: T, kinds: tuple[type, ...], where: str) -> T:
    """``value``, which must be one of ``kinds``."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(an(kind) for kind in kinds if kind is not type(None))
        raise ConfigError(f"{where} must be {wanted}, not {_shown(value)}")
    return value


def function(value: F, where: str) -> F:
    """``value``, which must be callable."""
    if not callable(cast("Any", value)):
        raise ConfigError(f"{where} must be a function, not {_shown(value)}")
    return value


def pairs(headers: Headers) -> tuple[tuple[str, str], ...]:
    """Headers as pairs of a name and a value, both ``str``."""
    return _pairs(headers)


def _pairs(headers: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise ConfigError(f"headers must be a mapping or pairs, not {_shown(cast('object', headers))}")
    found: list[tuple[str, str]] = []
    for pair in _entries(headers):
        items: tuple[Any, ...] = tuple(cast("Iterable[Any]", pair)) if isinstance(pair, tuple | list) else ()
        if len(items) != 2 or not all(isinstance(item, str) for item in items):
            raise ConfigError("headers must be pairs of a name and a value, both str")
        found.append((items[0], items[1]))
    return tuple(found)


def _entries(headers: Any) -> Iterable[Any]:
    return cast("Mapping[str, str]", headers).items() if isinstance(headers, Mapping) else headers


def path(value: str | os.PathLike[str], where: str) -> str | os.PathLike[str]:
    """``value``, which must be a path; a number would be taken for an open descriptor."""
    if not isinstance(cast("Any", value), str | os.PathLike):
        raise ConfigError(f"{where} must be a path, not {_shown(value)}")
    return value


def transport(value: T) -> T:
    """``value``, which must have a transport's two methods."""
    if isinstance(value, type) or not all(callable(getattr(value, name, None)) for name in ("open", "aclose")):
        raise ConfigError(f"transport must have open and aclose, as {_shown(value)} has not")
    return value


def server_context(value: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """``value``, which must be a context for the server's side, or ``None``."""
    if value is not None and one(value, (ssl.SSLContext,), "tls").protocol is ssl.PROTOCOL_TLS_CLIENT:
        raise ConfigError("tls is a client's context: a server's is made with PROTOCOL_TLS_SERVER, or for CLIENT_AUTH")
    return value


def statuses(value: Iterable[int]) -> tuple[int, ...]:
    """``informational``: status codes."""
    return tuple(count(status, 100, "informational") for status in every(value, (int,), "informational"))


def _shown(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else an(type(value))

"""An error as a loop keeps it: of a class and with fields that have a JSON form, whoever made it (50, Loop)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import attrs

from svir_core import errors
from svir_core.errors import ConfigError, SvirError
from svir_core.response import Anomaly, Partial, Usage

_OURS: Final[frozenset[type[SvirError]]] = frozenset(
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, SvirError) and value is not SvirError
)


def _number(value: Any) -> bool:
    return _integer(value) or (type(value) is float and math.isfinite(value))  # JSON writers refuse its subclasses


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**64


def _boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _partial(value: Any) -> bool:
    return isinstance(value, Partial)


def _anomalies(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(anomaly, Anomaly) for anomaly in cast("tuple[object, ...]", value)
    )


_KEPT: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "retry_after": ("retry_after", _number),
    "status": ("status", _integer),
    "unsent": ("unsent", _boolean),
    "partial": ("partial", _partial),
    "server_message": ("_server_message", _text),
    "anomalies": ("anomalies", _anomalies),
    "offset": ("offset", _integer),
    "retryable": ("retryable", _boolean),
}
"""By the name of the constructor: the attribute, and what it has to be. ``progress`` is the loop's own."""

_NO_TOKENS: Final = Usage(0, 0, 0, 0, 0, 0)
"""Added to counters it changes none but those that no JSON form holds: they are not known then."""


def kept_error(error: SvirError) -> SvirError:
    """``error`` as it was before it ended a generation: a new one, without a traceback and ``progress``.

    One of a caller's own class becomes one of the nearest class of svir's among its bases, else of that of its
    ``kind``, else a ``ConfigError``. A field that is not what the class says it is is left out, and so is one that
    raises when it is read, and a counter of ``partial`` that passes 64 bits.
    """
    detail = _read(error, "detail")
    given = ((name, _read(error, attribute), fits) for name, (attribute, fits) in _KEPT.items())
    fields: dict[str, Any] = {name: value for name, value, fits in given if fits(value)}
    partial = fields.get("partial")
    if partial is not None and partial.usage is not None:
        fields["partial"] = attrs.evolve(partial, usage=partial.usage + _NO_TOKENS)
    return _class_of(error)(detail if isinstance(detail, str) and detail else type(error).__name__, **fields)


def _read(error: SvirError, attribute: str) -> Any:
    """It, or ``None`` when that raises: a property of a caller's class is no reason to lose the rest."""
    with contextlib.suppress(Exception):
        return getattr(error, attribute)
    return None


def _class_of(error: SvirError) -> type[SvirError]:
    kind = _read(error, "kind")
    nearest = (cls for cls in type(error).__mro__ if cls in _OURS)
    of_kind = (cls for cls in _OURS if cls.kind == kind)
    return next(nearest, None) or next(of_kind, ConfigError)

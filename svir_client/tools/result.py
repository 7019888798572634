"""What a function returned, as the content of a result (30 section 4).

The table at the end is that of docs/tools.md. What is returned is never cut, guessed or replaced: what JSON cannot
carry is refused.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import pathlib
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, cast

import attrs
import orjson

from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.json_text import NESTING, plain, sanitize
from svir_core.message import Image, Media, ResultPart, Text, TextFile
from svir_core.wire.json_value import is_array, is_object

Content = str | tuple[ResultPart, ...]

_PARTS: Final = (Text, Image, TextFile, Media)


def content_of(value: Any) -> Content:
    """The content for ``value``: a string as it is, a part or a sequence with parts as parts, all else as JSON text.

    Raises ``ConfigError`` for what JSON cannot carry.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return sanitize(value)
    if isinstance(value, _PARTS):
        return (value,)
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        if any(isinstance(item, _PARTS) for item in items):
            return tuple(_part(item) for item in items)
    return orjson.dumps(plain(_json(value, NESTING), "the result")).decode()


def _part(value: Any) -> ResultPart:
    if isinstance(value, str):
        return Text(sanitize(value))
    if isinstance(value, _PARTS):
        return value
    raise ConfigError(f"{an(type(cast('object', value)))} stands among the parts of a result")


def _json(value: Any, depth: int) -> Any:
    """``value`` as objects, arrays and what they hold; what none of the table takes stays as it is."""
    if isinstance(value, _PARTS):
        raise ConfigError("a part of a result stands inside a value")
    if depth == 0:
        raise ConfigError(f"the result nests deeper than {NESTING} levels")
    if isinstance(value, Enum):
        return _json(value.value, depth)
    for applies, convert in _TABLE:
        if applies(value):
            made = convert(value)
            if is_object(made):
                return {_key(key): _json(item, depth - 1) for key, item in made.items()}
            return [_json(item, depth - 1) for item in made] if is_array(made) else made
    return value


def _key(value: Any) -> Any:
    """``value`` as a key; what has parts is none, and :func:`plain` names it."""
    if isinstance(value, tuple | frozenset):
        return cast("Any", value)
    return _json(value, 1)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _of(module: str, base: str) -> Callable[[Any], bool]:
    """Whether a value is of another library's class; a library that is not loaded has no values."""
    return lambda value: module in sys.modules and isinstance(value, getattr(sys.modules[module], base))


def _is_namedtuple(value: Any) -> bool:
    return _is(tuple)(value) and hasattr(value, "_asdict")


def _by_attrs(value: Any) -> Any:
    return {field.alias: getattr(value, field.name) for field in attrs.fields(value.__class__)}


def _by_dataclass(value: Any) -> Any:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _by_msgspec(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


_TABLE: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], Any]], ...]] = (
    (_is(str, bool, int, float, type(None)), lambda value: value),
    (_is(Mapping), dict),
    (_is_namedtuple, lambda value: value._asdict()),
    (_is(list, tuple, set, frozenset, collections.deque), list),
    (_of("pydantic", "BaseModel"), lambda value: value.model_dump(mode="json", by_alias=True)),
    (_of("msgspec", "Struct"), _by_msgspec),
    (lambda value: attrs.has(value.__class__), _by_attrs),
    (lambda value: dataclasses.is_dataclass(value) and not isinstance(value, type), _by_dataclass),
    (_is(datetime.date, datetime.time), lambda value: value.isoformat()),
    (_is(uuid.UUID, decimal.Decimal, pathlib.PurePath), str),
)
"""Kinds of values, and what JSON says of them; the first that applies."""

"""The JSON form of every public type and error: a row for each in ``serial_table`` (00 section 3).

A value is an object with its ``type`` first, then its fields in the order of the table; a field that
has its default is left out. Bytes are base64, enums are their values, several values are an array
(and come back as a tuple). The form is a contract: fields are added with a default, never renamed.

What holds a credential has no form: ``Secret``, ``Endpoint``, ``HttpRequest`` and ``Retry`` are refused
with ``ConfigError``. So are values of types that are not in the table, subclasses too.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar, cast, overload

import orjson

from svir_core.json_form import Array, fail
from svir_core.serial_table import ANY

T = TypeVar("T")

_SEVERAL: Final = Array(ANY)


def to_json(value: Any) -> Any:
    """``value`` as what JSON is made of: ``dict``, ``list``, ``str``, numbers, ``bool``, ``None``.

    ``value`` is of a public type or an error, or a list or tuple of such values. Raises
    ``ConfigError``, naming the path, for anything that has no form: a ``Secret`` and what holds one,
    a value of another type or a field of the wrong type, a file name that is not valid Unicode, and
    caller's JSON that is none, nests deeper than ``NESTING`` or holds an integer beyond 64 bits.
    """
    if isinstance(value, list | tuple):
        return _SEVERAL.write(tuple(cast("list[Any]", value)), None)
    return ANY.write(value, None)


@overload
def from_json(document: Any) -> Any: ...
@overload
def from_json(document: Any, expected: type[T]) -> T: ...
def from_json(document: Any, expected: type[Any] = object) -> Any:
    """The value that ``document``, parsed JSON, stands for: the inverse of :func:`to_json`.

    An array gives a tuple. Raises ``ConfigError``, naming the path but no value, when the document
    is not the form of a public type, or its value is not an ``expected``.
    """
    value: Any = (_SEVERAL if isinstance(document, list | tuple) else ANY).read(document, None)
    if not isinstance(value, expected):
        fail(None, f"expected the form of {expected.__name__}, got that of {type(value).__name__}")
    return value


def dumps(value: Any) -> bytes:
    """:func:`to_json` as bytes of JSON: compact UTF-8, the same bytes each time."""
    return orjson.dumps(to_json(value))


@overload
def loads(data: bytes | bytearray | memoryview | str) -> Any: ...
@overload
def loads(data: bytes | bytearray | memoryview | str, expected: type[T]) -> T: ...
def loads(data: bytes | bytearray | memoryview | str, expected: type[Any] = object) -> Any:
    """:func:`from_json` of the JSON in ``data``; data that is no JSON is a ``ConfigError`` too."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        offset = error.pos
    else:
        return from_json(document, expected)
    return fail(None, f"not JSON, at character {offset}")

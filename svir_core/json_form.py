"""How one field of a public type looks in JSON: the forms that the table in ``serial_table.py`` is made of.

Three rules hold for all of them. Both directions check types, since a wrong document must fail where
it is read and a wrong value where it is written. A fault is a ``ConfigError`` that names the path
(``$.messages[2].parts[0].id``) and the types, never a value. Text is sanitised at this boundary: a
lone surrogate becomes U+FFFD (11 section D), since JSON readers disagree about it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from enum import Enum, Flag
from typing import Any, Final, NoReturn, Protocol, cast

from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.json_text import NESTING, sanitize

Path = tuple["Path", str | int] | None
"""Where a value stands, innermost step first: rendered only when something is wrong."""

_KEY_SHOWN: Final = 64
"""What a path shows of a key that a document chose."""

_SAID: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def said(value: object) -> str:
    """What ``value`` is, in JSON's words where it has any: ``an object``; else the name of its type."""
    return _SAID.get(type(value)) or f"a value of type {type(value).__name__}"


def where(path: Path) -> str:
    """``path`` as text: ``$.messages[2].id``."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        if isinstance(step, int):
            steps.append(f"[{step}]")
        elif step.isidentifier() and len(step) <= _KEY_SHOWN:
            steps.append(f".{step}")
        else:
            steps.append(f"[{step[:_KEY_SHOWN]!r}]")
    return "$" + "".join(reversed(steps))


def fail(path: Path, words: str) -> NoReturn:
    """Raise the ``ConfigError`` of a fault at ``path``."""
    raise ConfigError(f"{where(path)}: {words}")


class Form(Protocol):
    """One field's JSON: ``read(write(value)) == value``; both raise ``ConfigError`` naming ``path``."""

    def write(self, value: Any, path: Path) -> Any:
        """``value`` as JSON."""
        ...

    def read(self, document: Any, path: Path) -> Any:
        """The value that ``document`` stands for."""
        ...


class _Symmetric(ABC):
    """A form whose JSON is the value itself."""

    __slots__ = ()

    def write(self, value: Any, path: Path) -> Any:
        return self.read(value, path)

    @abstractmethod
    def read(self, document: Any, path: Path) -> Any:
        """``document`` itself, when it is of the right type."""


class _String(_Symmetric):
    __slots__ = ()

    def read(self, document: Any, path: Path) -> str:
        return (
            sanitize(document) if isinstance(document, str) else fail(path, f"expected a string, got {said(document)}")
        )


class _FilePath(_Symmetric):
    """A path must come back as it was: a name that is no Unicode is refused rather than changed."""

    __slots__ = ()

    def read(self, document: Any, path: Path) -> str:
        text = STRING.read(document, path)
        return text if text == document else fail(path, "a file name that is not valid Unicode has no JSON form")


class _Boolean(_Symmetric):
    __slots__ = ()

    def read(self, document: Any, path: Path) -> bool:
        return document if isinstance(document, bool) else fail(path, f"expected a boolean, got {said(document)}")


class _Integer(_Symmetric):
    __slots__ = ()

    def read(self, document: Any, path: Path) -> int:
        if isinstance(document, bool) or not isinstance(document, int):
            fail(path, f"expected an integer, got {said(document)}")
        if not -(2**63) <= document < 2**64:
            fail(path, "an integer of more than 64 bits is not portable JSON")
        return document


class _Number(_Symmetric):
    __slots__ = ()

    def read(self, document: Any, path: Path) -> float:
        if isinstance(document, int):
            return INTEGER.read(document, path)
        if not isinstance(document, float):
            fail(path, f"expected a number, got {said(document)}")
        return document if math.isfinite(document) else fail(path, "JSON has no infinity and no NaN")


class _Base64:
    __slots__ = ()

    def write(self, value: Any, path: Path) -> str:
        return (
            b64encode(value).decode() if isinstance(value, bytes) else fail(path, f"expected bytes, got {said(value)}")
        )

    def read(self, document: Any, path: Path) -> bytes:
        text = STRING.read(document, path)
        try:
            return b64decode(text, validate=True)
        except (Base64Error, ValueError):  # ValueError: text that is not ASCII
            pass
        return fail(path, "not base64")


class _Json(_Symmetric):
    """A JSON object that is the caller's or a server's own: kept in its order, copied, and checked."""

    __slots__ = ()

    def read(self, document: Any, path: Path) -> dict[str, Any]:
        if not isinstance(document, Mapping):
            fail(path, f"expected an object, got {said(document)}")
        return self._object(cast("Mapping[object, object]", document), path, 1)

    def _object(self, document: Mapping[object, object], path: Path, depth: int) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for key, value in document.items():
            if not isinstance(key, str) or sanitize(key) != key:
                fail(path, "the key of an object must be a string of valid Unicode")
            copy[str.__str__(key)] = self._value(value, (path, key), depth)
        return copy

    def _value(self, value: object, path: Path, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return sanitize(value)
        if isinstance(value, int | float):
            return NUMBER.read(value, path)
        if depth >= NESTING:
            fail(path, f"nested deeper than {NESTING} levels")
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[object, object]", value), path, depth + 1)
        if isinstance(value, list | tuple):
            items = cast("list[object]", value)
            return [self._value(item, (path, number), depth + 1) for number, item in enumerate(items)]
        return fail(path, f"{said(value)} is not JSON")


class _Strings(_Symmetric):
    """An object whose values are strings."""

    __slots__ = ()

    def read(self, document: Any, path: Path) -> dict[str, str]:
        return {key: STRING.read(value, (path, key)) for key, value in JSON.read(document, path).items()}


STRING: Final = _String()
FILE_PATH: Final = _FilePath()
BOOLEAN: Final = _Boolean()
INTEGER: Final = _Integer()
NUMBER: Final = _Number()
BASE64: Final = _Base64()
JSON: Final = _Json()
STRINGS: Final = _Strings()


class Optional:
    """``null``, or another form."""

    __slots__ = ("_form",)

    def __init__(self, form: Form) -> None:
        self._form = form

    def write(self, value: Any, path: Path) -> Any:
        """``None``, or what the other form writes."""
        return None if value is None else self._form.write(value, path)

    def read(self, document: Any, path: Path) -> Any:
        """``None``, or what the other form reads."""
        return None if document is None else self._form.read(document, path)


class Word:
    """A member of an enum, as its value."""

    __slots__ = ("_kind",)

    def __init__(self, kind: type[Enum]) -> None:
        self._kind = kind

    def write(self, value: Any, path: Path) -> Any:
        """The member's value."""
        if not isinstance(value, self._kind):
            fail(path, f"expected {an(self._kind)}, got {said(value)}")
        return value.value

    def read(self, document: Any, path: Path) -> Enum:
        """The member with this value."""
        for member in self._kind:
            if type(document) is type(member.value) and document == member.value:
                return member
        return fail(path, "expected one of " + ", ".join(repr(member.value) for member in self._kind))


class Flags:
    """A set of an enum's flags, as the array of their names in the enum's order."""

    __slots__ = ("_kind",)

    def __init__(self, kind: type[Flag]) -> None:
        self._kind = kind

    def write(self, value: Any, path: Path) -> list[str]:
        """The names of the members."""
        if not isinstance(value, self._kind):
            fail(path, f"expected {an(self._kind)}, got {said(value)}")
        return [name for name, member in self._kind.__members__.items() if member in value]

    def read(self, document: Any, path: Path) -> Flag:
        """The set of the members with these names."""
        if not isinstance(document, list | tuple):
            fail(path, f"expected an array, got {said(document)}")
        value = self._kind(0)
        for number, name in enumerate(cast("list[Any]", document)):
            if not isinstance(name, str) or name not in self._kind.__members__:
                fail((path, number), "expected one of " + ", ".join(self._kind.__members__))
            value |= self._kind[name]
        return value


class Array:
    """An array of one form, read into ``kind``; a set is written sorted, so that its bytes are stable."""

    __slots__ = ("_form", "_kind", "_length")

    def __init__(
        self, form: Form, kind: type[tuple[Any, ...]] | type[frozenset[Any]] = tuple, length: int | None = None
    ) -> None:
        self._form = form
        self._kind = kind
        self._length = length

    def write(self, value: Any, path: Path) -> list[Any]:
        """The items, as an array."""
        if not isinstance(value, self._kind):
            fail(path, f"expected {an(self._kind)}, got {said(value)}")
        values = cast("Iterable[Any]", value)
        items = [self._form.write(item, (path, number)) for number, item in enumerate(values)]
        return sorted(items) if self._kind is frozenset else items

    def read(self, document: Any, path: Path) -> Any:
        """The items, as ``kind``."""
        if not isinstance(document, list | tuple):
            fail(path, f"expected an array, got {said(document)}")
        items = cast("list[Any]", document)
        if self._length not in (None, len(items)):
            fail(path, f"expected {self._length} items, got {len(items)}")
        return self._kind(self._form.read(item, (path, number)) for number, item in enumerate(items))


class Choice:
    """One of two forms: ``first`` where the value is of ``kind`` (in JSON: of ``document_kind``)."""

    __slots__ = ("_document_kind", "_first", "_kind", "_other")

    def __init__(self, kind: type, document_kind: type, first: Form, other: Form) -> None:
        self._kind = kind
        self._document_kind = document_kind
        self._first = first
        self._other = other

    def write(self, value: Any, path: Path) -> Any:
        """What the form of the value's type writes."""
        return (self._first if isinstance(value, self._kind) else self._other).write(value, path)

    def read(self, document: Any, path: Path) -> Any:
        """What the form of the document's type reads."""
        return (self._first if isinstance(document, self._document_kind) else self._other).read(document, path)

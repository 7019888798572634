"""Reading a case: ASCII, JSON, and not one field that the notation does not know."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from typing import Self

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
T = TypeVar("T")
D = TypeVar("D")
Read: TypeAlias = Callable[[Json, str], T]
"""A reader takes a value and where it stands, and gives the value as a ``T`` or raises ``CaseError``."""


class CaseError(Exception):
    """A case that cannot be read, with where and why: a failure of the run, like any other."""


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise CaseError("a key stands twice in one object")
    return found


def load(path: Path) -> Json:
    """The JSON of a case file. ``CaseError`` when it is not ASCII, not JSON, or cannot be read."""
    try:
        text = path.read_bytes().decode("ascii")
    except UnicodeDecodeError as error:
        raise CaseError(f"byte {error.start} is not ASCII; other text is written with \\u escapes") from None
    except OSError as error:
        raise CaseError(f"cannot be read: {type(error).__name__}") from None
    return parse(text)


def parse(text: str | bytes) -> Json:
    """JSON with every key of an object once; ``CaseError`` otherwise."""
    try:
        return cast("Json", json.loads(text, object_pairs_hook=_unique))
    except (ValueError, RecursionError) as error:
        raise CaseError(f"not JSON: {error}") from None


def load_fixture(folder: Path, name: str, where: str) -> bytes:
    """The bytes of the file that a case names at ``where``; ``CaseError`` when it cannot be read."""
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise CaseError(f"{where}: {name!r} cannot be read: {type(error).__name__}") from None


class Fields:
    """The fields of one object, taken by name inside ``with``; a field that nobody took is unknown."""

    def __init__(self, value: Json, where: str) -> None:
        if not isinstance(value, dict):
            raise CaseError(f"{where}: an object is expected")
        self.where = where
        self._left = dict(value)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def required(self, name: str, read: Read[T]) -> T:
        """The field ``name``; ``CaseError`` when it is not there."""
        if name not in self._left:
            raise CaseError(f"{self.where}: the field {name!r} is missing")
        return read(self._left.pop(name), f"{self.where}.{name}")

    def optional(self, name: str, read: Read[T], default: D) -> T | D:
        """The field ``name``, or ``default``."""
        return self.required(name, read) if name in self._left else default

    def only(self, *names: str) -> str:
        """The one of ``names`` that is there; ``CaseError`` for none or several."""
        found = [name for name in names if name in self._left]
        if len(found) != 1:
            raise CaseError(f"{self.where}: exactly one of {', '.join(names)} is expected")
        return found[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None and self._left:
            raise CaseError(f"{self.where}: unknown field {', '.join(map(repr, sorted(self._left)))}")


# --- readers -------------------------------------------------------------------------------------


def anything(value: Json, where: str) -> Json:
    """Any JSON value."""
    return value


def text(value: Json, where: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise CaseError(f"{where}: a string is expected")
    return value


def flag(value: Json, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise CaseError(f"{where}: true or false is expected")
    return value


def integer(value: Json, where: str) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise CaseError(f"{where}: a whole number is expected")
    return value


def positive(value: Json, where: str) -> int:
    """A whole number above zero."""
    number = integer(value, where)
    if number <= 0:
        raise CaseError(f"{where}: a number above zero is expected")
    return number


def natural(value: Json, where: str) -> int:
    """A whole number, zero or above."""
    number = integer(value, where)
    if number < 0:
        raise CaseError(f"{where}: a number of at least zero is expected")
    return number


def number(value: Json, where: str) -> float:
    """A number; a whole one stays an ``int``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CaseError(f"{where}: a number is expected")
    return value


def content(value: Json, where: str) -> bytes:
    """Bytes: a string as its UTF-8, or ``{"hex": "ff"}``."""
    if isinstance(value, dict):
        with Fields(value, where) as fields:
            return hexadecimal(fields.required("hex", anything), where)
    try:
        return text(value, where).encode()
    except UnicodeEncodeError:
        raise CaseError(f"{where}: a lone surrogate has no bytes") from None


def hexadecimal(value: Json, where: str) -> bytes:
    """Bytes written as hexadecimal digits."""
    try:
        return bytes.fromhex(text(value, where))
    except ValueError:
        raise CaseError(f"{where}: hexadecimal digits are expected") from None


def nullable(read: Read[T]) -> Read[T | None]:
    """``read``, or null."""

    def read_nullable(value: Json, where: str) -> T | None:
        return None if value is None else read(value, where)

    return read_nullable


def items(read: Read[T]) -> Read[list[T]]:
    """A list."""

    def read_items(value: Json, where: str) -> list[T]:
        if not isinstance(value, list):
            raise CaseError(f"{where}: a list is expected")
        return [read(item, f"{where}[{index}]") for index, item in enumerate(value)]

    return read_items


def mapping(read: Read[T]) -> Read[Mapping[str, T]]:
    """An object with any keys."""

    def read_mapping(value: Json, where: str) -> Mapping[str, T]:
        if not isinstance(value, dict):
            raise CaseError(f"{where}: an object is expected")
        return {name: read(item, f"{where}.{name}") for name, item in value.items()}

    return read_mapping


def one_or_more(read: Read[T]) -> Read[list[T]]:
    """A list that is not empty, or one value in place of a list of one."""

    def read_values(value: Json, where: str) -> list[T]:
        values = items(read)(value if isinstance(value, list) else [value], where)
        if not values:
            raise CaseError(f"{where}: an empty list runs nothing")
        return values

    return read_values


def one_of(*words: str) -> Read[str]:
    """One of some words."""

    def read_word(value: Json, where: str) -> str:
        if value not in words:
            raise CaseError(f"{where}: one of {', '.join(words)} is expected")
        return str(value)

    return read_word


def header_pairs(value: Json, where: str) -> list[tuple[str, str]]:
    """Headers: an object, or a list of ``[name, value]``."""
    if isinstance(value, dict):
        return list(mapping(text)(value, where).items())
    pairs = items(items(text))(value, where)
    if any(len(pair) != 2 for pair in pairs):
        raise CaseError(f"{where}: pairs of name and value are expected")
    return [(pair[0], pair[1]) for pair in pairs]

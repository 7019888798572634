"""How one public type looks in JSON: a row of its fields, and the objects that say by their ``type`` whose row it is.

A field that has its default is left out. The table of all rows is ``serial_table.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, cast

import attrs

from svir_core.errors import SvirError
from svir_core.json_form import Form, Path, Word, fail, said


@attrs.frozen
class Field:
    """One field: its name in JSON, its form, its default, and how it is read from a value."""

    name: str
    form: Form
    default: Any
    get: Callable[[Any], Any]


@attrs.frozen
class Row:
    """One type: its tag, its fields in the order of its JSON, and what makes it again."""

    cls: type
    tag: str
    fields: tuple[Field, ...]

    def write(self, value: Any, path: Path) -> dict[str, Any]:
        """``value`` as an object."""
        document: dict[str, Any] = {"type": self.tag}
        for field in self.fields:
            content = field.get(value)
            if not _same(content, field.default):
                document[field.name] = field.form.write(content, (path, field.name))
        return document

    def read(self, document: Mapping[str, Any], path: Path) -> Any:
        """The value that ``document`` stands for."""
        values: dict[str, Any] = {}
        for field in self.fields:
            if field.name in document:
                values[field.name] = field.form.read(document[field.name], (path, field.name))
            elif field.default is attrs.NOTHING:
                fail((path, field.name), "is missing")
        for key in document:
            if key != "type" and key not in values:
                fail((path, str(key)), f"{self.tag!r} has no such field")
        try:
            return self.cls(**values)
        except SvirError as error:
            detail = error.detail
        return fail(path, detail)


def _same(value: Any, default: Any) -> bool:
    """Whether ``value`` may be left out. Keys in another order are another value: prompts are cached by bytes."""
    if type(value) is not type(default) or value != default:
        return False
    return not isinstance(value, dict) or list(cast("dict[str, Any]", value)) == list(default)


def record(tag: str, cls: type[attrs.AttrsInstance], **forms: Form) -> Row:
    """The row of an attrs class; its defaults are the class's own."""
    fields: list[Field] = []
    for name, form in forms.items():
        default: Any = getattr(attrs.fields(cls), name).default
        if isinstance(default, cast("type[Any]", attrs.Factory)):
            default = default.factory()
        fields.append(Field(name, form, default, attrgetter(name)))
    return Row(cls, tag, tuple(fields))


def word(tag: str, cls: type[Enum]) -> Row:
    """The row of an enum, for a member that stands alone; a field holds its value only."""
    return Row(cls, tag, (Field("value", Word(cls), attrs.NOTHING, lambda member: member),))


class Tagged:
    """An object of one of these types, known by its ``type``; without types, any that has a row."""

    __slots__ = ("_classes", "_rows")

    def __init__(self, rows: Rows, *classes: type) -> None:
        self._rows = rows
        self._classes = classes

    def write(self, value: Any, path: Path) -> dict[str, Any]:
        """What the row of the value's type writes."""
        row = self._rows.by_class.get(cast(object, value).__class__)
        if row is None:
            fail(path, f"{said(value)} has no JSON form")
        return self._expected(row, path).write(value, path)

    def read(self, document: Any, path: Path) -> Any:
        """What the row of the object's ``type`` reads."""
        if not isinstance(document, Mapping):
            fail(path, f"expected an object with a type, got {said(document)}")
        fields = cast("Mapping[str, Any]", document)
        if "type" not in fields:
            fail((path, "type"), "is missing")
        tag = fields["type"]
        row = self._rows.by_tag.get(tag) if isinstance(tag, str) else None
        if row is None:
            fail((path, "type"), "is not the name of a type")
        return self._expected(row, (path, "type")).read(fields, path)

    def _expected(self, row: Row, path: Path) -> Row:
        if self._classes and row.cls not in self._classes:
            names = " or ".join(repr(self._rows.by_class[cls].tag) for cls in self._classes)
            fail(path, f"expected {names}, got {row.tag!r}")
        return row


class Rows:
    """The rows of all types. Their fields hold forms that look here, so it is filled when they are all written.

    Attributes:
        by_class, by_tag: the rows; empty before :meth:`fill`.
    """

    __slots__ = ("by_class", "by_tag")

    def __init__(self) -> None:
        self.by_class: Mapping[type, Row] = {}
        self.by_tag: Mapping[str, Row] = {}

    def fill(self, rows: Sequence[Row]) -> None:
        """Know these rows."""
        self.by_class = {row.cls: row for row in rows}
        self.by_tag = {row.tag: row for row in rows}

    def tagged(self, *classes: type) -> Tagged:
        """The form of a value of one of ``classes``, or of any type that has a row."""
        return Tagged(self, *classes)

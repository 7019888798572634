"""The fields of a class: of attrs, a dataclass, a NamedTuple or a TypedDict, told alike.

A key is the name of the argument that the class takes: attrs' ``_code`` is ``code``. A field that takes
no argument is none here.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args, get_origin

import attrs

from svir_core.structure_fault import Unreadable


@attrs.frozen
class Field:
    """One field: the key and the argument it goes to, its type, whether it must be there, and what it is when it is
    not: ``dataclasses.MISSING`` where there is no default, or one that is made anew each time."""

    name: str
    kind: Any
    required: bool
    default: Any = dataclasses.MISSING


def _constant(default: Any) -> Any:
    """What attrs has as a default, unless it is none, or a factory."""
    made = default is attrs.NOTHING or hasattr(default, "takes_self")
    return dataclasses.MISSING if made else default


def _attrs_fields(kind: Any, hints: dict[str, Any]) -> list[Field]:
    return [
        Field(
            field.alias,
            hints.get(field.name, Any),
            field.default is attrs.NOTHING,
            _constant(field.default),
        )
        for field in attrs.fields(kind)
        if field.init
    ]


def _dataclass_fields(kind: Any, hints: dict[str, Any]) -> list[Field]:
    return [
        Field(
            field.name,
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            field.default,
        )
        for field in dataclasses.fields(kind)
        if field.init
    ]


def _namedtuple_fields(kind: Any, hints: dict[str, Any]) -> list[Field]:
    defaults: Mapping[str, Any] = kind._field_defaults
    return [
        Field(name, hints.get(name, Any), name not in defaults, defaults.get(name, dataclasses.MISSING))
        for name in kind._fields
    ]


def _typeddict_fields(kind: Any, hints: dict[str, Any]) -> list[Field]:
    # __required_keys__ does not see a NotRequired in a postponed annotation: the resolved one decides
    return [
        Field(
            name,
            hint,
            name in kind.__required_keys__ if _wrapper(hint) not in _REQUIREMENTS else _wrapper(hint) == "Required",
        )
        for name, hint in hints.items()
    ]


_REQUIREMENTS: Final = frozenset({"Required", "NotRequired"})


def _wrapper(hint: Any) -> str | None:
    return getattr(get_origin(hint), "_name", None)


def _has(kind: Any, base: type, mark: str) -> bool:
    return isinstance(kind, type) and issubclass(kind, base) and mark in dir(kind)


def _is_namedtuple(kind: Any) -> bool:
    return _has(kind, tuple, "_fields")


def _is_typeddict(kind: Any) -> bool:
    return _has(kind, dict, "__required_keys__")


_CLASSES: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any, dict[str, Any]], list[Field]]], ...]] = (
    (attrs.has, _attrs_fields),
    (dataclasses.is_dataclass, _dataclass_fields),
    (_is_namedtuple, _namedtuple_fields),
    (_is_typeddict, _typeddict_fields),
)
"""The kinds of classes, and how their fields are told."""


def fields_of(kind: Any) -> list[Field]:
    """The fields of a class, type variables replaced by the arguments it was given."""
    origin = get_origin(kind) or kind
    given = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
    try:
        hints = typing.get_type_hints(origin, include_extras=True)
        fields = next(tell for applies, tell in _CLASSES if applies(origin))(origin, hints)
        return [attrs.evolve(field, kind=_filled(field.kind, given)) for field in fields]
    except (NameError, TypeError, AttributeError):  # a name in an annotation that is not there
        raise Unreadable from None


def _filled(hint: Any, given: Mapping[Any, Any]) -> Any:
    if isinstance(hint, typing.TypeVar):
        return given.get(hint, Any)
    parameters = getattr(hint, "__parameters__", ()) if get_origin(hint) else ()
    return hint[tuple(given.get(parameter, Any) for parameter in parameters)] if parameters else hint


def is_class(kind: Any) -> bool:
    """Whether ``kind`` is a class whose fields can be told."""
    return any(applies(kind) for applies, _ in _CLASSES)

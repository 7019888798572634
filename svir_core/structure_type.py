"""From a type, the function that reads parsed JSON into it: built once per type, by the table at the end.

Strict, since a model's ``"3"`` for an integer is a mistake to tell it, not one to guess about:
``"3"`` is no integer, ``true`` no number, a string no list. Only an integer may stand for a float.
Unknown keys are refused: an argument that is dropped may have been the one that mattered.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, cast, get_args, get_origin

import orjson

from svir_core.json_form import said
from svir_core.structure_class import fields_of, is_class
from svir_core.structure_fault import Misfit, Reader, Unreadable
from svir_core.structure_model import reads_itself, tagged_reader
from svir_core.structure_note import words_of

_REFUSALS: Final = (ValueError, TypeError, AssertionError)
"""What a constructor, a validator or a ``__post_init__`` raises about a value; anything else is a fault of theirs."""


@functools.lru_cache(maxsize=256)
def _reader_of_class(kind: type) -> Reader:
    return _Readers().of(kind)


def reader_of(kind: Any) -> Reader:
    """The function that reads parsed JSON into a ``kind``; ``Unreadable`` when there is none."""
    if not isinstance(kind, abc.Hashable):
        raise Unreadable
    # typing calls ``A | B`` and ``B | A`` equal, and the first member that fits is taken: no cache for them
    return _reader_of_class(kind) if isinstance(kind, type) and not get_args(kind) else _Readers().of(kind)


class _Readers:
    """The readers of one type and of all that it holds; a type may hold itself."""

    def __init__(self) -> None:
        self._made: dict[Any, Reader] = {}

    def of(self, kind: Any) -> Reader:
        key = _key(kind)
        if key not in self._made:
            self._made[key] = functools.partial(self._late, key)
            self._made[key] = self._make(kind)
        return self._made[key]

    def _late(self, key: Any, value: Any) -> Any:
        """What a reader that is still being made does when it is used, later."""
        return self._made[key](value)

    def _make(self, kind: Any) -> Reader:
        origin = get_origin(kind) or kind
        if origin in _SIMPLE:
            return _SIMPLE[origin]
        for applies, make in _MAKERS:
            if applies(origin):
                return make(self, kind)
        raise Unreadable


def _key(kind: Any) -> Any:
    """``kind`` as a key that keeps the order of its arguments."""
    arguments = get_args(kind)
    return (get_origin(kind), *map(_key, arguments)) if arguments else (kind, type(kind))


# --- values that stand for themselves ----------------------------------------------------------------


def _itself(value: Any) -> Any:
    return value


def _exact(kind: type, words: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise Misfit(f"expected {words}, got {said(value)}")
        return value

    return read


def _float(value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise Misfit(f"expected a number, got {said(value)}")
    return float(value)


_array: Final = _exact(list, "an array")
_object: Final = _exact(dict, "an object")
_null: Final = _exact(types.NoneType, "null")

_SIMPLE: Final[Mapping[Any, Reader]] = {
    Any: _itself,
    object: _itself,
    None: _null,
    types.NoneType: _null,
    bool: _exact(bool, "a boolean"),
    int: _exact(int, "an integer"),
    float: _float,
    str: _exact(str, "a string"),
}


def _one_of(members: Iterable[Any]) -> Reader:
    """One of ``members``: literal values, or enum members known by their value."""
    table = [(member.value if isinstance(member, Enum) else member, member) for member in members]
    words = "expected one of " + ", ".join(repr(wanted) for wanted, _ in table)

    def read(value: Any) -> Any:
        for wanted, member in table:
            if type(value) is type(wanted) and value == wanted:
                return member
        raise Misfit(words)

    return read


def _literal(_readers: _Readers, kind: Any) -> Reader:
    return _one_of(get_args(kind))


def _enum(_readers: _Readers, kind: type[Enum]) -> Reader:
    return _one_of(kind)


# --- types that stand for others -----------------------------------------------------------------------


def _inner(readers: _Readers, kind: Any) -> Reader:
    return readers.of(get_args(kind)[0])


def _annotated(readers: _Readers, kind: Any) -> Reader:
    words_of(kind.__metadata__)
    return _inner(readers, kind)


def _supertype(readers: _Readers, kind: Any) -> Reader:
    return readers.of(kind.__supertype__)


def _alias(readers: _Readers, kind: Any) -> Reader:
    return readers.of(kind.__value__)


def _union(readers: _Readers, kind: Any) -> Reader:
    """The first member that fits; a float last, so that an integer stays one where it may. Structs with tags are one
    member: msgspec tells them apart."""
    arguments = get_args(kind)
    nullable = types.NoneType in arguments
    members = sorted(
        (member for member in arguments if member is not types.NoneType), key=lambda member: member is float
    )
    tagged = tagged_reader(members)
    if tagged is None:
        choices = [readers.of(member) for member in members]
    else:
        choices = [tagged[1], *(readers.of(member) for member in members if member not in tagged[0])]

    def read(value: Any) -> Any:
        if value is None and nullable:
            return None
        if len(choices) == 1:
            return choices[0](value)
        for choice in choices:
            with contextlib.suppress(Misfit):
                return choice(value)
        raise Misfit("fits no member of its union")

    return read


# --- arrays and objects --------------------------------------------------------------------------------


def _built(build: Callable[..., Any], *items: Any, **values: Any) -> Any:
    try:
        return build(*items, **values)
    except _REFUSALS:
        refused = Misfit("was refused")
    raise refused


def _each(read: Reader, items: Iterable[tuple[str, Any]]) -> list[Any]:
    """Every item read; all faults together, each below its step."""
    values: list[Any] = []
    faults: list[tuple[str, str]] = []
    for step, item in items:
        try:
            values.append(read(item))
        except Misfit as misfit:
            faults += misfit.below(step)
    if faults:
        raise Misfit(faults=faults)
    return values


_ARRAYS: Final[Mapping[Any, Callable[[list[Any]], Any]]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Iterable: list,
    abc.Collection: list,
    abc.Set: frozenset,
    abc.MutableSet: set,
}


def _of_array(readers: _Readers, kind: Any) -> Reader:
    origin = get_origin(kind) or kind
    build = _ARRAYS[origin]
    arguments = get_args(kind)
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return _of_fixed(readers, arguments)
    read_item = readers.of(arguments[0] if arguments else Any)

    def read(value: Any) -> Any:
        items = _each(read_item, ((f"[{number}]", item) for number, item in enumerate(_array(value))))
        return _built(build, items)

    return read


def _of_fixed(readers: _Readers, kinds: tuple[Any, ...]) -> Reader:
    """A tuple of so many items, each of its own type."""
    choices = [readers.of(kind) for kind in kinds]

    def read(value: Any) -> Any:
        if len(_array(value)) != len(choices):
            raise Misfit(f"expected {len(choices)} items, got {len(value)}")
        pairs = ((f"[{number}]", pair) for number, pair in enumerate(zip(choices, value, strict=True)))
        return tuple(_each(lambda pair: pair[0](pair[1]), pairs))

    return read


_OBJECTS: Final = frozenset({dict, abc.Mapping, abc.MutableMapping})


def _of_mapping(readers: _Readers, kind: Any) -> Reader:
    key_kind, item_kind = get_args(kind) or (str, Any)
    read_key = readers.of(key_kind)
    read_item = readers.of(item_kind)

    def read(value: Any) -> Any:
        pairs = (("[...]", pair) for pair in _object(value).items())  # a key is what was read: never shown
        return dict(_each(lambda pair: (read_key(pair[0]), read_item(pair[1])), pairs))

    return read


# --- classes ---------------------------------------------------------------------------------------------


def _of_class(readers: _Readers, kind: Any) -> Reader:
    fields = [(field.name, readers.of(field.kind), field.required) for field in fields_of(kind)]
    known = frozenset(name for name, _, _ in fields)

    def read(value: Any) -> Any:
        document: dict[str, Any] = _object(value)
        values: dict[str, Any] = {}
        faults: list[tuple[str, str]] = []
        for name, read_field, required in fields:
            if name in document:
                try:
                    values[name] = read_field(document[name])
                except Misfit as misfit:
                    faults += misfit.below(f".{name}")
            elif required:
                faults.append((f".{name}", "is missing"))
        if not known.issuperset(document):
            faults.append(("", "has keys that are not declared"))
        if faults:
            raise Misfit(faults=faults)
        return _built(kind, **values)

    return read


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and reads_itself(kind) is not None


def _of_model(_readers: _Readers, kind: Any) -> Reader:
    read = cast(Reader, reads_itself(kind))
    return lambda value: read(orjson.dumps(value))


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


_UNIONS: Final = (typing.Union, types.UnionType)
_WRAPPERS: Final = (typing.Required, typing.NotRequired, typing.Final)

_MAKERS: Final[tuple[tuple[Callable[[Any], bool], Callable[[_Readers, Any], Reader]], ...]] = (
    (lambda origin: origin is typing.Literal, _literal),
    (lambda origin: origin in _UNIONS, _union),
    (lambda origin: origin is typing.Annotated, _annotated),
    (lambda origin: origin in _WRAPPERS, _inner),
    (lambda origin: isinstance(origin, typing.NewType), _supertype),
    (lambda origin: hasattr(origin, "__value__"), _alias),  # ``type X = ...`` of Python 3.12
    (lambda origin: origin in _ARRAYS, _of_array),
    (lambda origin: origin in _OBJECTS, _of_mapping),
    (_is_model, _of_model),
    (is_class, _of_class),
    (_is_enum, _enum),
)
"""Kinds of types, by their origin, and what makes a reader for them; the first that applies."""

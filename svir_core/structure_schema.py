"""From a type, the JSON Schema that its values fit: the twin of the readers in ``structure_type`` (30 section 2).

Three rules hold for all of it. What fits the schema is what ``parse(T)`` reads, but for what no schema says: 1.0, an
integer to it, and what a class itself refuses. A class that stands inside another is told once, below ``$defs``. The
same type gives the same schema, key by key, so that a prompt prefix stays cached.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import textwrap
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, cast, get_args, get_origin

import orjson

from svir_core.errors import ConfigError
from svir_core.json_text import plain
from svir_core.structure_class import Field, fields_of, is_class
from svir_core.structure_fault import Unreadable
from svir_core.structure_model import schema_of_model
from svir_core.structure_note import words_of
from svir_core.wire.json_value import Json, is_array, is_object


def json_schema(kind: Any) -> Json:
    """The JSON Schema (2020-12) of ``kind``: an attrs class, dataclass, TypedDict, NamedTuple, enum, msgspec
    ``Struct``, pydantic model, or what typing makes of them.

    Descriptions come from docstrings, from ``Annotated[T, "words"]`` and ``Annotated[T, Doc("words")]``.
    Raises ``ConfigError`` for a type that JSON cannot be read into, and for a constraint in ``Annotated``.
    """
    try:
        return _whole(lambda schemas: schemas.root(kind))
    except Unreadable as unreadable:
        problem = f"{getattr(kind, '__name__', kind)} is not a type that JSON can be read into{unreadable.reason}"
    raise ConfigError(problem)


def fields_schema(name: str, fields: list[Field]) -> Json:
    """The JSON Schema of an object with ``fields``: of the parameters of the function ``name``.

    Raises ``ConfigError`` that names one of them whose type JSON cannot be read into.
    """
    for field in fields:
        try:
            _Schemas().of(field.kind)
        except Unreadable as unreadable:
            problem = f"a type that JSON cannot be read into{unreadable.reason}"
        else:
            continue
        raise ConfigError(f"parameter {field.name} of {name} has {problem}")
    return _whole(lambda schemas: _object(fields, schemas, {}))


def _whole(make: Callable[[_Schemas], Json]) -> Json:
    """What ``make`` gives, with the definitions that it refers to."""
    schemas = _Schemas()
    root = make(schemas)
    return {**root, "$defs": schemas.definitions} if schemas.definitions else root


class _Schemas:
    """The schemas of one type and of the classes it holds."""

    def __init__(self) -> None:
        self.definitions: dict[str, Json] = {}
        self._names: dict[Any, str] = {}
        self._adopted: dict[type, Json] = {}

    def root(self, kind: Any) -> Json:
        """The schema of the outermost type. A class that holds itself is a definition, as any other."""
        schema = self.of(kind)
        name = schema.get("$ref", "").removeprefix("#/$defs/")
        if schema.keys() == {"$ref"} and not self._refers_to(name):
            return self.definitions.pop(name)
        return schema

    def _refers_to(self, name: str) -> bool:
        reference = {"$ref": f"#/$defs/{name}"}
        return any(_holds(schema, reference) for schema in self.definitions.values())

    def of(self, kind: Any) -> Json:
        """The schema of ``kind``, of a class a reference to it."""
        origin = get_origin(kind) or kind
        if not isinstance(origin, abc.Hashable):
            raise Unreadable
        if origin in _SIMPLE:
            return dict(_SIMPLE[origin])
        for applies, make in _MAKERS:
            if applies(origin):
                return make(self, kind)
        raise Unreadable

    def key(self, kind: Any) -> Json:
        """The schema of the keys of an object, which are strings: of no other type is there any."""
        schema = self.of(kind)
        name = schema.get("$ref", "").removeprefix("#/$defs/")
        if self.definitions.get(name, schema).get("type") != "string":
            raise Unreadable
        return schema

    def define(self, kind: Any, make: Callable[[], Json]) -> Json:
        """A reference to ``kind``, whose schema is made once."""
        key = _key(kind)
        if key not in self._names:
            name = self._names[key] = self._free(_name(kind))
            self.definitions[name] = {}  # its place, in the order of first mention
            self.definitions[name] = make()
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def adopt(self, kind: type, schema: Json) -> Json:
        """A reference to ``kind``, of which another library made ``schema``: its definitions among ours, once."""
        if kind not in self._adopted:
            theirs: Mapping[str, Json] = schema.pop("$defs", {})
            names = {name: self._free(_plain_name(name)) for name in theirs}
            for name, definition in theirs.items():
                self.definitions[names[name]] = cast("Json", _renamed(definition, names))
            made = cast("Json", _renamed(schema, names))
            self._adopted[kind] = made if made.keys() == {"$ref"} else self.define(kind, lambda: made)
        return dict(self._adopted[kind])

    def _free(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.definitions:
            name, number = f"{wanted}{number}", number + 1
        return name


def _holds(schema: Any, reference: Json) -> bool:
    if is_object(schema):
        return schema.get("$ref") == reference["$ref"] or any(_holds(value, reference) for value in schema.values())
    return is_array(schema) and any(_holds(item, reference) for item in schema)


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if is_array(schema):
        return [_renamed(item, names) for item in schema]
    if not is_object(schema):
        return schema
    copied = {key: _renamed(value, names) for key, value in schema.items()}
    reference = copied.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix("#/$defs/")
        copied["$ref"] = f"#/$defs/{names.get(name, name)}"
    return copied


def _key(kind: Any) -> Any:
    arguments = get_args(kind)
    return (get_origin(kind), *map(_key, arguments)) if arguments else kind


def _name(kind: Any) -> str:
    words = [getattr(get_origin(kind) or kind, "__name__", "Type")]
    words += [getattr(argument, "__name__", "") for argument in get_args(kind)]
    return _plain_name("".join(words))


def _plain_name(name: str) -> str:
    """``name`` without what a pointer would have to escape."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


# --- values that stand for themselves ----------------------------------------------------------------

_SIMPLE: Final[Mapping[Any, Json]] = {
    Any: {},
    object: {},
    None: {"type": "null"},
    types.NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
}

_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    types.NoneType: "null",
}


def _one_of(values: list[Any]) -> Json:
    kinds = {_TYPES.get(value.__class__) for value in values}
    if None in kinds:
        raise Unreadable
    schema: Json = {"enum": values}
    return {"type": kinds.pop(), **schema} if len(kinds) == 1 else schema


def _literal(_schemas: _Schemas, kind: Any) -> Json:
    return _one_of([member.value if isinstance(member, Enum) else member for member in get_args(kind)])


def _enum(schemas: _Schemas, kind: type[Enum]) -> Json:
    return schemas.define(kind, lambda: {**_described(kind), **_one_of([member.value for member in kind])})


# --- types that stand for others -----------------------------------------------------------------------


def _annotated(schemas: _Schemas, kind: Any) -> Json:
    inner, *notes = get_args(kind)
    schema = schemas.of(inner)
    words = words_of(notes)
    return schema if words is None else {**schema, "description": words}


def _inner(schemas: _Schemas, kind: Any) -> Json:
    return schemas.of(get_args(kind)[0])


def _supertype(schemas: _Schemas, kind: Any) -> Json:
    return schemas.of(kind.__supertype__)


def _alias(schemas: _Schemas, kind: Any) -> Json:
    return schemas.of(kind.__value__)


def _union(schemas: _Schemas, kind: Any) -> Json:
    return {"anyOf": [schemas.of(member) for member in get_args(kind)]}


# --- arrays and objects --------------------------------------------------------------------------------

_ARRAYS: Final = frozenset({
    *(list, tuple, set, frozenset, collections.deque),
    *(abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection, abc.Set, abc.MutableSet),
})  # fmt: skip
_OBJECTS: Final = frozenset({dict, abc.Mapping, abc.MutableMapping})


def _of_array(schemas: _Schemas, kind: Any) -> Json:
    origin = get_origin(kind) or kind
    arguments = get_args(kind)
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        items = [schemas.of(argument) for argument in arguments]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    schema: Json = {"type": "array"}
    if arguments and (items_schema := schemas.of(arguments[0])):
        schema["items"] = items_schema
    return schema  # of a set too: an item that comes twice is read as one


def _of_mapping(schemas: _Schemas, kind: Any) -> Json:
    key_kind, item_kind = get_args(kind) or (str, Any)
    schema: Json = {"type": "object"}
    if (key_schema := schemas.key(key_kind)) != _SIMPLE[str]:
        schema["propertyNames"] = key_schema
    if item_schema := schemas.of(item_kind):
        schema["additionalProperties"] = item_schema
    return schema


# --- classes ---------------------------------------------------------------------------------------------


def _described(kind: Any) -> Json:
    """The docstring of a class, unless it has none of its own, or the one that a dataclass or NamedTuple writes."""
    written: Any = get_origin(kind) or kind
    words: Any = written.__dict__.get("__doc__")
    if not isinstance(words, str) or not words.strip() or words.startswith(f"{written.__name__}("):
        return {}
    return {"description": _cleaned(words)}


def _cleaned(words: str) -> str:
    """A docstring without the indentation of its code."""
    first, _, rest = words.expandtabs().partition("\n")
    return f"{first.strip()}\n{textwrap.dedent(rest)}".strip()


def _of_class(schemas: _Schemas, kind: Any) -> Json:
    return schemas.define(kind, lambda: _object(fields_of(kind), schemas, _described(kind)))


def _object(fields: list[Field], schemas: _Schemas, described: Json) -> Json:
    properties = {field.name: _property(field, schemas) for field in fields}
    schema: Json = {**described, "type": "object", "properties": properties}
    required = [field.name for field in fields if field.required]
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


def _property(field: Field, schemas: _Schemas) -> Json:
    schema = schemas.of(field.kind)
    if field.default is dataclasses.MISSING:
        return schema
    default = field.default.value if isinstance(field.default, Enum) else field.default
    try:
        return {**schema, "default": orjson.loads(orjson.dumps(plain(default, "default")))}
    except ConfigError:
        return schema  # JSON cannot carry it: that there is one is told by what is required


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and schema_of_model(kind) is not None


def _of_model(schemas: _Schemas, kind: Any) -> Json:
    return schemas.adopt(kind, cast("Json", schema_of_model(kind)))


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


_UNIONS: Final = (typing.Union, types.UnionType)
_WRAPPERS: Final = (typing.Required, typing.NotRequired, typing.Final)

_MAKERS: Final[tuple[tuple[Callable[[Any], bool], Callable[[_Schemas, Any], Json]], ...]] = (
    (lambda origin: origin is typing.Annotated, _annotated),
    (lambda origin: origin is typing.Literal, _literal),
    (lambda origin: origin in _UNIONS, _union),
    (lambda origin: origin in _WRAPPERS, _inner),
    (lambda origin: isinstance(origin, typing.NewType), _supertype),
    (lambda origin: hasattr(origin, "__value__"), _alias),  # ``type X = ...`` of Python 3.12
    (lambda origin: origin in _ARRAYS, _of_array),
    (lambda origin: origin in _OBJECTS, _of_mapping),
    (_is_model, _of_model),
    (is_class, _of_class),
    (_is_enum, _enum),
)
"""Kinds of types, by their origin, and what makes their schema; the first that applies."""

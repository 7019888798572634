"""The JSON Schema of a type: what it says, and that it accepts what ``parse(T)`` reads, no more and no less."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
import typing
from collections.abc import Iterable, Mapping, MutableSet, Sequence
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, NotRequired, Required, TypedDict, TypeVar

import attrs
import jsonschema
import msgspec
import orjson
import pydantic
import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st

from svir_core import ConfigError, ProtocolError, Schema, Tool
from svir_core.structure import parse_json
from svir_core.structure_class import Field
from svir_core.structure_schema import fields_schema, json_schema

T = TypeVar("T")
UserId = typing.NewType("UserId", int)
Alias = typing_extensions.TypeAliasType("Alias", int | list[str])


class Colour(enum.StrEnum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    A = (1, 2)


@attrs.frozen
class Place:
    """Where it is.

    More
        of it.
    """

    city: Annotated[str, "its name"]
    size: float = 0.5
    _code: int = 7
    seen: bool = attrs.field(init=False, default=False)


@attrs.define
class Trip:
    places: list[Place]
    start: Place | None = None
    colours: dict[Colour, int] = attrs.field(factory=dict[Colour, int])


@dataclasses.dataclass
class Order:
    id: int
    tags: tuple[str, ...] = ()
    notes: list[str] = dataclasses.field(default_factory=list[str])
    colour: Colour = Colour.RED
    level: Level | None = None
    far: float = float("inf")
    big: int = 2**70
    place: Place = dataclasses.field(default=Place("x"))


class Base(TypedDict):
    a: int


class Options(Base, total=False):
    """Options."""

    b: str
    c: Required[int]


class Loose(TypedDict):
    a: NotRequired[int]
    b: Literal["x", 1]


class Point(NamedTuple):
    x: int
    y: int = 2


@attrs.define
class Node:
    value: int
    children: list[Node] = attrs.field(factory=list["Node"])
    next: Node | None = None


@attrs.define
class Left:
    right: Right | None = None


@attrs.define
class Right:
    left: Left | None = None


@attrs.define
class Box(Generic[T]):
    item: T
    more: list[Box[T]] = attrs.field(factory=list["Box[T]"])


class Inner(pydantic.BaseModel):
    x: int


class Model(pydantic.BaseModel):
    a: int
    inner: Inner | None = None
    table: dict[str, int] = {}
    renamed: int = pydantic.Field(default=0, alias="other")


class Tree(pydantic.BaseModel):
    trees: list[Tree] = []


class Struct(msgspec.Struct):
    a: int
    colour: Colour | None = None


class Unschemed(msgspec.Struct):
    value: list[int] | set[int]


@attrs.define
class Mixed:
    one: Model
    two: list[Model]
    inner: Inner
    struct: Struct | None = None
    tree: Tree | None = None


def accepts(schema: Any, document: Any) -> bool:
    validator: Any = jsonschema.Draft202012Validator(schema)
    return bool(validator.is_valid(document))


def reads(kind: Any, document: Any) -> bool:
    try:
        parse_json(json.dumps(document), kind, what="it")
    except ProtocolError:
        return False
    return True


def of(generic: Any, *arguments: Any) -> Any:
    """``generic[arguments]``, where a type checker would want to know them."""
    first, *more = arguments
    return generic[arguments] if more else generic[first]


STRING = {"type": "string"}
INTEGER = {"type": "integer"}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (int, INTEGER),
        (float, {"type": "number"}),
        (str, STRING),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (type(None), {"type": "null"}),
        (Any, {}),
        (object, {}),
        (list, {"type": "array"}),
        (list[Any], {"type": "array"}),
        (list[int], {"type": "array", "items": INTEGER}),
        (Sequence[int], {"type": "array", "items": INTEGER}),
        (Iterable[int], {"type": "array", "items": INTEGER}),
        (collections.deque[int], {"type": "array", "items": INTEGER}),
        (set[int], {"type": "array", "items": INTEGER}),
        (MutableSet[int], {"type": "array", "items": INTEGER}),
        (tuple, {"type": "array"}),
        (tuple[int, ...], {"type": "array", "items": INTEGER}),
        (tuple[int, str], {"type": "array", "prefixItems": [INTEGER, STRING], "items": False, "minItems": 2}),
        (dict, {"type": "object"}),
        (dict[str, Any], {"type": "object"}),
        (Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (
            dict[Literal["a", "b"], int],
            {
                "type": "object",
                "propertyNames": {"type": "string", "enum": ["a", "b"]},
                "additionalProperties": INTEGER,
            },
        ),
        (
            dict[Colour, Any],
            {
                "type": "object",
                "propertyNames": {"$ref": "#/$defs/Colour"},
                "$defs": {"Colour": {"description": "A colour.", "type": "string", "enum": ["red", "blue"]}},
            },
        ),
        (Colour, {"description": "A colour.", "type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Literal["x", 1, None], {"enum": ["x", 1, None]}),
        (Literal[Colour.RED], {"type": "string", "enum": ["red"]}),
        (int | None, {"anyOf": [INTEGER, {"type": "null"}]}),
        (typing.Optional[int], {"anyOf": [INTEGER, {"type": "null"}]}),  # noqa: UP045 -- both spellings
        (Annotated[int, "words"], {**INTEGER, "description": "words"}),
        (Annotated[int, 5, "", typing_extensions.Doc("words"), "not these"], {**INTEGER, "description": "words"}),
        (Annotated[int, 5], INTEGER),
        (Final[int], INTEGER),
        (UserId, INTEGER),
        (Alias, {"anyOf": [INTEGER, {"type": "array", "items": STRING}]}),
        (
            Place,
            {
                "description": "Where it is.\n\nMore\n    of it.",
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "its name"},
                    "size": {"type": "number", "default": 0.5},
                    "code": {"type": "integer", "default": 7},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        ),
        (
            Options,
            {
                "description": "Options.",
                "type": "object",
                "properties": {"a": INTEGER, "b": STRING, "c": INTEGER},
                "required": ["a", "c"],
                "additionalProperties": False,
            },
        ),
        (
            Loose,
            {
                "type": "object",
                "properties": {"a": INTEGER, "b": {"enum": ["x", 1]}},
                "required": ["b"],
                "additionalProperties": False,
            },
        ),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": INTEGER, "y": {"type": "integer", "default": 2}},
                "required": ["x"],
                "additionalProperties": False,
            },
        ),
        (
            Left,
            {
                "$ref": "#/$defs/Left",
                "$defs": {
                    "Left": {
                        "type": "object",
                        "properties": {
                            "right": {"anyOf": [{"$ref": "#/$defs/Right"}, {"type": "null"}], "default": None}
                        },
                        "additionalProperties": False,
                    },
                    "Right": {
                        "type": "object",
                        "properties": {
                            "left": {"anyOf": [{"$ref": "#/$defs/Left"}, {"type": "null"}], "default": None}
                        },
                        "additionalProperties": False,
                    },
                },
            },
        ),
    ],
)
def test_what_a_type_says(kind: Any, schema: Any) -> None:
    made = json_schema(kind)
    assert made == schema
    assert orjson.dumps(made) == orjson.dumps(json_schema(kind))  # key by key: a prompt prefix stays cached
    jsonschema.Draft202012Validator.check_schema(made)


def test_defaults_that_json_carries_are_told() -> None:
    schema = json_schema(Order)
    defaults = {name: told.get("default", "none") for name, told in schema["properties"].items()}
    assert defaults == {
        "id": "none",
        "tags": [],
        "notes": "none",
        "colour": "red",
        "level": None,
        "far": "none",
        "big": 2.0**70,
        "place": "none",
    }
    assert schema["required"] == ["id"]
    assert list(schema["$defs"]) == ["Colour", "Level", "Place"]
    orjson.dumps(Tool("f", "", schema).schema)


def test_a_class_is_told_once_also_those_of_other_libraries() -> None:
    schema = json_schema(Mixed)
    assert list(schema["$defs"]) == ["Inner", "Model", "Inner2", "Struct", "Colour", "Tree"]  # a Model brings its own
    assert schema["properties"]["one"] == schema["properties"]["two"]["items"] == {"$ref": "#/$defs/Model"}
    assert schema["properties"]["inner"] == {"$ref": "#/$defs/Inner2"}
    jsonschema.Draft202012Validator.check_schema(schema)


def test_two_classes_of_one_name_are_two() -> None:
    first = attrs.make_class("Same", {"a": attrs.field(type=int)})
    second = attrs.make_class("Same", {"b": attrs.field(type=str)})
    schema = json_schema(of(tuple, first, second))
    assert schema["prefixItems"] == [{"$ref": "#/$defs/Same"}, {"$ref": "#/$defs/Same2"}]
    assert accepts(schema, [{"a": 1}, {"b": "x"}])
    assert not accepts(schema, [{"b": "x"}, {"a": 1}])


def test_a_name_that_a_pointer_would_have_to_escape() -> None:
    odd = attrs.make_class("a/b~c%d", {"x": attrs.field(type=int)})
    schema = json_schema(of(list, odd))
    assert schema["items"] == {"$ref": "#/$defs/a_b_c_d"}
    assert accepts(schema, [{"x": 1}])
    assert not accepts(schema, [{"x": "1"}])


def test_generic_classes_are_told_by_their_arguments() -> None:
    schema = json_schema(tuple[Box[int], Box[str], Box[Any]])
    assert list(schema["$defs"]) == ["Boxint", "Boxstr", "BoxAny"]
    assert accepts(schema, [{"item": 1}, {"item": "a", "more": [{"item": "b"}]}, {"item": None}])
    assert not accepts(schema, [{"item": 1}, {"item": "a", "more": [{"item": 2}]}, {"item": None}])


def test_the_schema_of_fields() -> None:
    schema = fields_schema("f", [Field("a", Node, True), Field("b", Colour, False, Colour.BLUE)])
    assert schema["properties"] == {
        "a": {"$ref": "#/$defs/Node"},
        "b": {"$ref": "#/$defs/Colour", "default": "blue"},
    }
    assert (schema["required"], schema["additionalProperties"]) == (["a"], False)
    assert list(schema["$defs"]) == ["Node", "Colour"]
    assert fields_schema("f", []) == {"type": "object", "properties": {}, "additionalProperties": False}
    with pytest.raises(ConfigError, match=r"^parameter a of f has a type that JSON cannot be read into$") as caught:
        fields_schema("f", [Field("a", complex, True)])
    assert caught.value.__context__ is None


class Unresolved(TypedDict):
    later: Nowhere  # type: ignore[name-defined] # noqa: F821  # a name that is not there is the case


class Broken(pydantic.BaseModel):
    later: Nowhere  # type: ignore[name-defined] # noqa: F821  # a name that is not there is the case


@pytest.mark.parametrize(
    "kind",
    [
        bytes,
        complex,
        datetime.date,
        list[complex],
        dict[str, bytes],
        dict[int, str],
        dict[Level, str],
        dict[str | int, str],
        [1],
        len,
        Odd,
        Literal[b"x"],
        Unresolved,
        Broken,
        Unschemed,
    ],
)
def test_what_has_no_schema(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r" is not a type that JSON can be read into$") as caught:
        json_schema(kind)
    assert caught.value.__context__ is None


LEAVES: Final[list[Any]] = [
    *(int, float, str, bool, None, Any, list, tuple, dict, Colour, Level, UserId, Alias),
    *(Place, Trip, Options, Loose, Point, Node, Left, Box[int], Box[Colour], Model, Struct, Tree, Mixed),
    *(Literal["a", 1, None, True], Literal[Colour.RED], set[int], frozenset[str], dict[Colour, int]),
]


def _class(fields: list[tuple[str, Any, bool]]) -> Any:
    """A TypedDict, or an attrs class whose optional fields have a default."""
    if len(fields) % 2:
        keys = {name: Required[kind] if required else NotRequired[kind] for name, kind, required in fields}
        return typing.cast("Any", TypedDict)("Drawn", keys)
    made = {
        name: attrs.field(type=kind, default=attrs.NOTHING if required else None, kw_only=True)
        for name, kind, required in fields
    }
    return attrs.make_class("Drawn", made)


def _combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "city", "value"])
    fields = st.lists(st.tuples(names, inner, st.booleans()), max_size=3, unique_by=lambda field: field[0])
    return st.one_of(
        inner.map(lambda kind: of(list, kind)),
        inner.map(lambda kind: of(tuple, kind, ...)),
        st.tuples(inner, inner).map(lambda kinds: of(tuple, *kinds)),
        inner.map(lambda kind: of(dict, str, kind)),
        inner.map(lambda kind: of(dict, Colour, kind)),
        inner.map(lambda kind: of(Annotated, kind, "words")),
        st.lists(inner, min_size=2, max_size=3).map(lambda kinds: of(typing.Union, *kinds)),
        fields.map(_class),
    )


TYPES = st.recursive(st.sampled_from(LEAVES), _combined, max_leaves=5)

# No number like 1.0: a JSON Schema calls it an integer, and so do some servers, but a model that writes one means none.
NUMBERS = st.floats(-1e6, 1e6).filter(lambda number: not number.is_integer())
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NUMBERS | st.sampled_from(["", "a", "red", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "city", "value", "red"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def fitting(draw: st.DrawFn, schema: Any, definitions: Any, depth: int = 0) -> Any:
    """A document that fits ``schema``, or, now and then in some place, any other."""
    if depth > 6 or draw(st.integers(0, 15)) == 0:
        return draw(ANY)

    def inside(inner: Any) -> Any:
        return draw(fitting(inner, definitions, depth + 1))

    if "$ref" in schema:
        return inside(definitions[schema["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in schema:
        return inside(draw(st.sampled_from(schema["anyOf"])))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type")
    if kind == "array" and "prefixItems" in schema:
        return [inside(item) for item in schema["prefixItems"]]
    if kind == "array":
        return [inside(schema.get("items", {})) for _ in range(draw(st.integers(0, 2)))]
    if kind == "object":
        required = schema.get("required", ())
        known = schema.get("properties", {})
        document = {name: inside(inner) for name, inner in known.items() if name in required or draw(st.booleans())}
        if isinstance(more := schema.get("additionalProperties"), dict):
            for key in draw(st.lists(st.sampled_from(["a", "red", "blue"]), max_size=2)):
                document[key] = inside(more)
        return document
    simple = {"integer": st.integers(-9, 9), "number": NUMBERS, "string": st.text(max_size=3), "boolean": st.booleans()}
    return draw(st.none() if kind == "null" else simple.get(kind, ANY))


@settings(max_examples=150)
@given(st.data())
def test_it_accepts_what_parse_reads_and_nothing_else(data: st.DataObject) -> None:
    kind = data.draw(TYPES)
    schema = json_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    document = data.draw(fitting(schema, schema.get("$defs", {})))
    assert accepts(schema, document) == reads(kind, document), (kind, schema, document)
    strict = Schema.of(kind, strict=True).schema
    jsonschema.Draft202012Validator.check_schema(strict)
    narrowed = data.draw(fitting(strict, strict.get("$defs", {})))
    if accepts(strict, narrowed):  # at least as narrow, so that what a strict mode gives is read
        assert reads(kind, narrowed), (kind, strict, narrowed)

"""Reading a model's JSON into types: strict, by path, and never with a value in an error."""

import collections
import dataclasses
import datetime
import enum
import json
import pathlib
import typing
from collections.abc import Iterable, Mapping, MutableSet, Sequence
from typing import Any, Generic, Literal, NamedTuple, NotRequired, Required, TypedDict, TypeVar

import attrs
import msgspec
import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError, ProtocolError, SvirError
from svir_core.message import Text, ToolCall
from svir_core.response import Completion
from svir_core.structure import FAULTS_SHOWN, check_readable, parse_json

T = TypeVar("T")
UserId = typing.NewType("UserId", int)
Alias = typing_extensions.TypeAliasType("Alias", int | list[str])


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@attrs.frozen
class Place:
    city: str
    size: float = 0.0


@attrs.define
class Trip:
    places: list[Place]
    start: Place | None = None
    colours: "dict[Colour, int]" = attrs.field(factory=dict[Colour, int])
    seen: bool = attrs.field(init=False, default=False)
    _code: int = 7


@dataclasses.dataclass
class Order:
    id: int
    tags: tuple[str, ...] = ()
    notes: list[str] = dataclasses.field(default_factory=list[str])
    total: int = dataclasses.field(init=False, default=0)


class Base(TypedDict):
    a: int


class Options(Base, total=False):
    b: str
    c: Required[int]


class Loose(TypedDict):
    a: "NotRequired[int]"
    b: Literal["x", 1]


class Point(NamedTuple):
    x: int
    y: int = 2


Bare = collections.namedtuple("Bare", "x")  # pyright: ignore[reportUntypedNamedTuple] -- that it has no types is the point


@attrs.define
class Node:
    value: int
    children: "list[Node]" = attrs.field(factory=list["Node"])
    next: "Node | None" = None


@attrs.define
class Box(Generic[T]):
    item: T
    more: "list[Box[T]]" = attrs.field(factory=list["Box[T]"])
    plain: Any = None


@attrs.frozen
class Positive:
    value: int = attrs.field(validator=attrs.validators.gt(0))


@attrs.frozen
class Untyped:
    value = attrs.field(default=None)  # type: ignore[var-annotated]  # a field without an annotation is the case


class Inner(pydantic.BaseModel):
    x: int


class Model(pydantic.BaseModel):
    a: int
    inner: Inner | None = None
    table: dict[str, int] = {}
    renamed: int = pydantic.Field(default=0, alias="other")


class Broken(pydantic.BaseModel):
    later: "Nowhere"  # type: ignore[name-defined] # noqa: F821  # a name that is not there is the case


class Struct(msgspec.Struct):
    a: int
    colour: Colour | None = None
    table: dict[str, int] = {}


class Odd(msgspec.Struct):
    value: list[int] | set[int]


class Mixed(TypedDict):
    model: Model
    structs: list[Struct]


def parse(text: str, into: Any) -> Any:
    return parse_json(text, into, what="it")


@pytest.mark.parametrize(
    ("into", "text", "value"),
    [
        (int, "1", 1),
        (float, "1", 1.0),
        (float, "1.5", 1.5),
        (str, '"a"', "a"),
        (bool, "true", True),
        (None, "null", None),
        (type(None), "null", None),
        (Any, '{"a": [1]}', {"a": [1]}),
        (object, "[1]", [1]),
        (dict, '{"a": [1]}', {"a": [1]}),
        (list, '[1, "a"]', [1, "a"]),
        (tuple, "[1]", (1,)),
        (dict[str, object], '{"a": 1}', {"a": 1}),
        (Mapping[str, int], '{"a": 1}', {"a": 1}),
        (dict[Colour, int], '{"red": 1}', {Colour.RED: 1}),
        (list[float], "[1, 2.5]", [1.0, 2.5]),
        (Sequence[int], "[1]", [1]),
        (Iterable[int], "[1]", [1]),
        (set[int], "[1, 1]", {1}),
        (frozenset[str], '["a"]', frozenset({"a"})),
        (MutableSet[int], "[1]", {1}),
        (collections.deque[int], "[1]", collections.deque([1])),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (tuple[int, ...], "[1, 2]", (1, 2)),
        (Colour, '"red"', Colour.RED),
        (Level, "1", Level.LOW),
        (Literal["x", 1, None], "null", None),
        (Literal[Colour.RED], '"red"', Colour.RED),
        (typing.Optional[int], "null", None),  # noqa: UP045 -- both spellings
        (int | str, '"a"', "a"),
        (float | int, "1", 1),
        (float | str, "1", 1.0),
        (Colour | str, '"red"', Colour.RED),
        (str | Colour, '"red"', "red"),
        (Place | Order, '{"id": 1}', Order(1)),
        (typing.Annotated[int, "a note"], "1", 1),
        (UserId, "1", 1),
        (Alias, '["a"]', ["a"]),
        (Place, '{"city": "Oslo", "size": 1}', Place("Oslo", 1.0)),
        (
            Trip,
            '{"places": [{"city": "a"}], "start": {"city": "b"}, "colours": {"red": 2}, "code": 8}',
            Trip([Place("a")], Place("b"), {Colour.RED: 2}, 8),
        ),
        (Order, '{"id": 1, "tags": ["a"], "notes": []}', Order(1, ("a",))),
        (Options, '{"a": 1, "c": 2}', {"a": 1, "c": 2}),
        (Loose, '{"b": "x"}', {"b": "x"}),
        (Loose, '{"b": 1, "a": 2}', {"a": 2, "b": 1}),
        (Point, '{"x": 1}', Point(1)),
        (Bare, '{"x": [1]}', Bare([1])),
        (Untyped, "{}", Untyped()),
        (Node, '{"value": 1, "children": [{"value": 2}], "next": {"value": 3}}', Node(1, [Node(2)], Node(3))),
        (Box[int], '{"item": 1, "more": [{"item": 2}]}', Box(1, [Box(2)])),
        (Box, '{"item": "any"}', Box("any")),
        (Positive, '{"value": 1}', Positive(1)),
        (Model, '{"a": 1, "inner": {"x": 2}, "other": 3}', Model(a=1, inner=Inner(x=2), other=3)),
        (Struct, '{"a": 1, "colour": "red"}', Struct(1, Colour.RED)),
        (Mixed, '{"model": {"a": 1}, "structs": [{"a": 2}]}', {"model": Model(a=1), "structs": [Struct(2)]}),
        (list[Model], '[{"a": 1}]', [Model(a=1)]),
    ],
)
def test_what_fits_is_read(into: Any, text: str, value: Any) -> None:
    result = parse(text, into)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("into", "text", "words"),
    [
        (int, '"hunter2"', "int: $: expected an integer, got a string"),
        (int, "true", "int: $: expected an integer, got a boolean"),
        (int, "1.0", "int: $: expected an integer, got a number"),
        (float, "true", "float: $: expected a number, got a boolean"),
        (str, "1", "str: $: expected a string, got a number"),
        (bool, "1", "bool: $: expected a boolean, got a number"),
        (None, "0", "None: $: expected null, got a number"),
        (dict, "[]", "dict: $: expected an object, got an array"),
        (list[str], '"hunter2"', "list: $: expected an array, got a string"),
        (list[str], '{"hunter2": 1}', "list: $: expected an array, got an object"),
        (list[int], '[1, "hunter2", null]', "list: $[1]: expected an integer, got a string; $[2]: expected"),
        (dict[str, int], '{"hunter2": "a"}', "dict: $[...]: expected an integer, got a string"),
        (dict[Colour, int], '{"hunter2": 1}', "dict: $[...]: expected one of 'red'"),
        (tuple[int, str], "[1]", "tuple: $: expected 2 items, got 1"),
        (tuple[int, str], "[1, 2]", "tuple: $[1]: expected a string, got a number"),
        (set[Any], "[[1]]", "set: $: was refused"),
        (Literal[1], "true", "Literal: $: expected one of 1"),
        (Colour, '"hunter2"', "Colour: $: expected one of 'red'"),
        (Level, "true", "Level: $: expected one of 1"),
        (Place | None, '{"city": 1}', "$.city: expected a string, got a number"),
        (int | float, "true", "int | float: $: fits no member of its union"),
        (Place, "[]", "Place: $: expected an object, got an array"),
        (Place, "{}", "Place: $.city: is missing"),
        (Place, '{"city": "a", "hunter2": 1}', "Place: $: has keys that are not declared"),
        (
            Place,
            '{"city": 1, "size": "2", "x": 3}',
            "$.city: expected a string, got a number; $.size: expected a number",
        ),
        (Trip, '{"places": [{"city": "a"}, {"city": []}]}', "Trip: $.places[1].city: expected a string, got an array"),
        (Trip, '{"places": [], "seen": true}', "Trip: $: has keys that are not declared"),
        (Order, '{"id": 1, "total": 5}', "Order: $: has keys that are not declared"),
        (Options, '{"a": 1}', "Options: $.c: is missing"),
        (Loose, "{}", "Loose: $.b: is missing"),
        (Point, "[1, 2]", "Point: $: expected an object, got an array"),
        (Node, '{"value": 1, "next": {"value": "hunter2"}}', "Node: $.next.value: expected an integer"),
        (Box[int], '{"item": "hunter2"}', "Box: $.item: expected an integer, got a string"),
        (Box[int], '{"item": 1, "more": [{"item": null}]}', "Box: $.more[0].item: expected an integer, got null"),
        (Positive, '{"value": -5150}', "Positive: $: was refused"),
        (Model, '{"a": "1", "inner": {"x": "hunter2"}}', "Model: $.a: int type; $.inner.x: int type"),
        (Model, '{"a": 1, "table": {"hunter2": "a"}}', "Model: $.table[...]: int type"),
        (Model, '{"a": 1, "other": "hunter2"}', "Model: $.other: int type"),
        (list[Model], '[{"a": 1}, {}]', "list: $[1].a: missing"),
        (Struct, '{"a": "hunter2"}', "Struct: $.a: expected `int`, got `str`"),
        (Struct, "{}", "Struct: $: object missing required field `a`"),
        (Struct, '{"a": 1, "colour": "hunter2"}', "Struct: $.colour: was refused"),
        (Struct, '{"a": 1, "table": {"hunter2": null}}', "Struct: $.table[...]: expected `int`, got `null`"),
        (Mixed, '{"model": {}, "structs": [{"a": []}]}', "Mixed: $.model.a: missing; $.structs[0].a: expected `int`"),
    ],
)
def test_what_does_not_fit_is_named_by_path_and_never_shown(into: Any, text: str, words: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse(text, into)
    message = str(caught.value)
    assert message.startswith("it: does not fit ")
    assert words in message
    assert "hunter2" not in message
    assert "5150" not in message
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("into", [dict, Place, Model, Struct])
@pytest.mark.parametrize("text", ["", "{", "hunter2", "'a'", "{}{}", '"\ud800"', "NaN"])
def test_what_is_no_json(into: Any, text: str) -> None:
    with pytest.raises(ProtocolError, match=r"^it: not JSON$") as caught:
        parse(text, into)
    assert caught.value.__context__ is None


class Unresolved(TypedDict):
    later: "Nowhere"  # type: ignore[name-defined] # noqa: F821  # a name that is not there is the case


@pytest.mark.parametrize(
    "into",
    [
        bytes,
        complex,
        datetime.date,
        pathlib.Path,
        list[complex],
        dict[str, bytes],
        "Place",
        [1],
        len,
        Unresolved,
        Broken,
        Odd,
    ],
)
def test_what_cannot_be_read_into(into: Any) -> None:
    with pytest.raises(ConfigError, match=r"^it: .* is not a type that JSON can be read into$") as caught:
        parse('{"later": 1, "value": 1}', into)
    assert caught.value.__context__ is None


def test_a_type_is_checked_before_there_is_anything_to_read() -> None:
    for into in (bytes, list[complex], "Place", len, Unresolved):
        with pytest.raises(ConfigError, match=r"^it: .* is not a type that JSON can be read into$") as caught:
            check_readable(into, what="it")
        assert caught.value.__context__ is None
    for kind in (Place, list[Place], Broken):
        check_readable(kind, what="it")


def test_unions_in_another_order_are_another_type() -> None:
    for _ in range(2):
        assert type(parse('{"city": "a"}', Place | dict[str, str])) is Place
        assert type(parse('{"city": "a"}', dict[str, str] | Place)) is dict
        assert type(parse('[{"city": "a"}]', list[Place | dict[str, str]])[0]) is Place
        assert type(parse('[{"city": "a"}]', list[dict[str, str] | Place])[0]) is dict


def test_an_error_names_only_some_of_many_faults() -> None:
    with pytest.raises(ProtocolError) as caught:
        parse(json.dumps(["x"] * (FAULTS_SHOWN + 3)), list[int])
    assert str(caught.value).endswith("; and 3 more")
    assert str(caught.value).count("$") == FAULTS_SHOWN


@pytest.mark.parametrize("levels", [50, 1_000, 100_000])
def test_deep_nesting_is_a_value_or_a_typed_error(levels: int) -> None:
    text = '{"value": 1, "next": ' * levels + "null" + "}" * levels
    if levels == 50:
        assert parse(text, Node).value == 1
        return
    with pytest.raises(ProtocolError, match=r"^it: (nested too deep for Node|not JSON)$"):
        parse(text, Node)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abx") | st.text(max_size=2), inner)
        ),
    ),
    st.sampled_from([Place, Trip, Order, Options, Loose, Point, Node, Model, Struct, Mixed, Alias, dict, list[int]]),
)
def test_any_json_is_a_value_or_a_typed_error(document: Any, into: Any) -> None:
    outcome: Any = None
    try:
        parse(json.dumps(document), into)
    except SvirError as error:
        outcome = error
    assert outcome is None or type(outcome) is ProtocolError


def test_a_call_parses_its_arguments() -> None:
    assert ToolCall("c", "f", '{"city": "Oslo"}').parse(Place) == Place("Oslo")
    assert ToolCall("c", "f", "").parse(dict) == {}
    assert ToolCall("c", "f", "").parse(Options.__base__ or dict) == {}
    with pytest.raises(ProtocolError, match=r"^the arguments of a tool call: incomplete, so not parsed$"):
        ToolCall("c", "f", '{"city": "Oslo"}', complete=False).parse(Place)
    with pytest.raises(
        ProtocolError, match=r"^the arguments of a tool call: does not fit Place: \$\.city: is missing$"
    ):
        ToolCall("c", "hunter2", "").parse(Place)


def test_only_an_answer_that_stopped_is_parsed() -> None:
    parts = (Text('{"city": '), Text('"Oslo"}'))
    assert Completion("stop", parts).parse(Place) == Place("Oslo")
    for finish in ("length", "tool_calls", "content_filter", "refusal", "pause", "other"):
        with pytest.raises(ProtocolError, match=finish):
            Completion(finish, parts).parse(Place)
    with pytest.raises(ProtocolError, match=r"^the answer: not JSON$"):
        Completion("stop", (Text("Sure! {}"),)).parse(Place)

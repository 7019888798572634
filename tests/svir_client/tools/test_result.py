"""What a function returns, as the content of a result."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from types import MappingProxyType
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.tools.result import content_of
from svir_core import ConfigError, Image, Media, Text, TextFile

IMAGE = Image.data(b"x", "image/png")


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.Enum):
    LOW = 1


@attrs.frozen
class Place:
    city: str
    _code: int = 7


@dataclasses.dataclass
class Order:
    place: Place
    level: Level = Level.LOW


class Point(NamedTuple):
    x: int
    y: int


class Model(pydantic.BaseModel):
    day: datetime.date
    renamed: int = pydantic.Field(default=0, alias="other")


class Struct(msgspec.Struct):
    a: int
    colour: Colour = Colour.RED


class Wrapped(enum.Enum):
    ONE = Struct(1)
    NAMED = "name"


DAY = datetime.date(2026, 1, 2)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ("", ""),
        (Text("a"), (Text("a"),)),
        (IMAGE, (IMAGE,)),
        ([Text("a"), IMAGE], (Text("a"), IMAGE)),
        (("a", Media.data(b"x", "audio/wav")), (Text("a"), Media.data(b"x", "audio/wav"))),
        ([TextFile.data("x", "a.txt")], (TextFile.data("x", "a.txt"),)),
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (2**70, str(2**70)),
        (1.5, "1.5"),
        ([], "[]"),
        (["a", "b"], '["a","b"]'),
        ({"a": (1, {2}), "b": collections.deque([None])}, '{"a":[1,[2]],"b":[null]}'),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        ({Colour.RED: 1}, '{"red":1}'),
        (Colour.RED, '"red"'),
        (Level.LOW, "1"),
        (Order(Place("Oslo")), '{"place":{"city":"Oslo","code":7},"level":1}'),
        (Point(1, 2), '{"x":1,"y":2}'),
        ([Model(day=DAY, other=3)], '[{"day":"2026-01-02","other":3}]'),
        (Struct(1), '{"a":1,"colour":"red"}'),
        ([DAY, datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)], '["2026-01-02","2026-01-02T03:00:00+00:00"]'),
        (
            [uuid.UUID(int=1), decimal.Decimal("1.10"), pathlib.PurePosixPath("a/b")],
            '["00000000-0000-0000-0000-000000000001","1.10","a/b"]',
        ),
        ("a\ud800", "a\ufffd"),
        (["a\ud800", Text("b")], (Text("a\ufffd"), Text("b"))),
        (Wrapped.ONE, '{"a":1,"colour":"red"}'),
        ({Wrapped.NAMED: Wrapped.ONE}, '{"name":{"a":1,"colour":"red"}}'),
        (["a\ud800"], '["a\ufffd"]'),
    ],
)
def test_what_is_returned(value: Any, content: Any) -> None:
    assert content_of(value) == content


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        b"bytes",
        float("nan"),
        [float("inf")],
        {1: 2},
        {(1,): 2},
        {"a": IMAGE},
        [[IMAGE]],
        [IMAGE, 5],
        CYCLE,
        Place,
        Order,
        len,
        1j,
    ],
)
def test_what_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError):
        content_of(value)


@pytest.mark.parametrize("key", [(1,), frozenset({1}), 1])
def test_a_key_that_is_no_string_is_named_by_its_type(key: Any) -> None:
    with pytest.raises(ConfigError, match=f"has a key of type {type(key).__name__}"):
        content_of({key: 2})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_stays_what_it_is(value: Any) -> None:
    content = content_of(value)
    assert isinstance(content, str)
    assert value == content if isinstance(value, str) else json.loads(content) == value

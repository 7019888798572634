from __future__ import annotations

import math
import ssl
import uuid
from enum import StrEnum
from types import NoneType
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.check import an, as_bytes, at_least, choice, expect, finite, instance_of, seconds, wire_api
from svir_core.errors import ConfigError, SvirError
from svir_core.wire import openai_chat


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Thing:
    word: Any = attrs.field(default="", validator=instance_of(str))
    count: Any = attrs.field(default=None, validator=instance_of(int, NoneType))
    flag: Any = attrs.field(default=True, validator=instance_of(bool))
    ratio: Any = attrs.field(default=None, validator=finite)
    size: Any = attrs.field(default=5, validator=at_least(2))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("word", "x"),
        ("count", 5),
        ("count", None),
        ("flag", False),
        ("ratio", 0.5),
        ("ratio", 1),
        ("ratio", None),
        ("size", 2),
    ],
)
def test_what_fits_is_taken(field: str, value: Any) -> None:
    assert getattr(Thing(**{field: value}), field) == value


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("word", 5, "Thing.word must be str, not int"),
        ("word", None, "Thing.word must be str, not NoneType"),
        ("count", True, "Thing.count must be int or None, not bool"),
        ("count", "5", "Thing.count must be int or None, not str"),
        ("flag", 1, "Thing.flag must be bool, not int"),
        ("ratio", "1", "Thing.ratio must be a number or None, not str"),
        ("ratio", True, "Thing.ratio must be a number or None, not bool"),
        ("ratio", float("nan"), "Thing.ratio must be finite"),
        ("ratio", float("inf"), "Thing.ratio must be finite"),
        ("size", 1, "Thing.size must be an integer of 2 or more"),
        ("size", True, "Thing.size must be an integer of 2 or more"),
        ("size", 2.0, "Thing.size must be an integer of 2 or more"),
    ],
)
def test_what_does_not_fit_is_named(field: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Thing(**{field: value})
    assert str(caught.value) == says


def test_a_choice_takes_members_and_their_words() -> None:
    assert choice(Colour, "red", "Thing.colour") is Colour.RED
    assert choice(Colour, Colour.BLUE, "Thing.colour") is Colour.BLUE


@given(st.text() | st.none() | st.integers() | st.lists(st.text()))
def test_a_choice_of_anything_else_lists_the_members(value: Any) -> None:
    if value in ("red", "blue"):
        return
    with pytest.raises(ConfigError) as caught:
        choice(Colour, value, "Thing.colour")
    assert str(caught.value) == "Thing.colour is one of 'red', 'blue'"
    assert caught.value.__context__ is None


def test_a_type_is_expected_by_name() -> None:
    assert expect("x", str, "word") == "x"
    word: Any = 5
    with pytest.raises(ConfigError) as caught:
        expect(word, str, "word")
    assert str(caught.value) == "word must be a str, not an int"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (str, "a str"),
        (int, "an int"),
        (object, "an object"),
        (Colour, "a Colour"),
        (Any, "an Any"),
        (SvirError, "a SvirError"),
        (ssl.SSLContext, "an SSLContext"),
        (uuid.UUID, "a UUID"),
        (type("X", (), {}), "a X"),
        (type("", (), {}), "a nameless class"),
    ],
)
def test_a_type_has_its_article(kind: type, words: str) -> None:
    assert an(kind) == words


@pytest.mark.parametrize("value", ["openai_chat", openai_chat, type(openai_chat.API), None])
def test_what_is_no_wire_api_is_told_what_is(value: object) -> None:
    assert wire_api(openai_chat.API) is openai_chat.API
    with pytest.raises(ConfigError, match=r"must be a wire API, such as openai_chat\.API of svir_core\.wire, not a"):
        wire_api(value)


@pytest.mark.parametrize(
    ("value", "taken"), [(1, 1.0), (0.5, 0.5), (math.inf, math.inf), (10**400, math.inf), (5e-324, 5e-324)]
)
def test_seconds_are_positive(value: float, taken: float) -> None:
    assert seconds(value, "limit") == taken
    assert type(seconds(value, "limit")) is float


@pytest.mark.parametrize("value", [0, -1, -(10**400), math.nan, -math.inf, True, "1", None])
def test_what_is_no_number_of_seconds_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="limit must be a positive number of seconds"):
        seconds(value, "limit")


@given(st.binary())
def test_bytes_of_every_type_are_read(data: bytes) -> None:
    pushed: list[tuple[bytes | bytearray | memoryview, bytes]] = [
        (data, data),
        (bytearray(data), data),
        (memoryview(data)[::-1], data[::-1]),
        (memoryview(data * 4 or bytes(4)).cast("I"), data * 4 or bytes(4)),
    ]
    for given_, expected in pushed:
        found = as_bytes(given_)
        assert type(found) is bytes
        assert found == expected


@pytest.mark.parametrize("data", ["x", None, 5, [1]])
def test_what_is_no_bytes_is_refused(data: Any) -> None:
    with pytest.raises(ConfigError, match=r"push\(\) takes bytes, not"):
        as_bytes(data)

"""The second reading of JSON: 11-quirks section B."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ProtocolError
from svir_core.json_text import sanitize
from svir_core.limits import JSON_DEPTH
from svir_core.slow_json import (
    HugeNumber,
    Nesting,
    NumberText,
    exact_text,
    loosely,
    read_any,
    read_exact,
    read_huge,
    read_numbers,
    read_surrogates,
    read_without_huge,
    too_deep,
    without_lone_surrogates,
)

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=10,
)


@pytest.mark.parametrize("number", ["0.10", "-0", "1e5", "1E+05", "123456789012345678901234567890", "9" * 5000])
def test_numbers_keep_their_spelling(number: str) -> None:
    (found,) = read_numbers(f"[{number}]")
    assert isinstance(found, NumberText)
    assert str(found) == number


@given(values)
def test_what_needs_no_second_reading_reads_the_same(value: Any) -> None:
    text = orjson.dumps(value).decode()
    assert read_surrogates(text) == value
    assert without_lone_surrogates(text) == text
    assert not too_deep(text)


@given(st.text(st.characters(codec=None, categories=("Cs", "Lu", "Po")), max_size=8))
def test_lone_surrogates_are_replaced_and_pairs_are_not(text: str) -> None:
    escaped = json.dumps({"a": text})
    clean = orjson.loads(without_lone_surrogates(escaped))["a"]
    assert clean == sanitize(text)
    assert sanitize(read_surrogates(escaped)["a"]) == clean


NUMBERS = (
    "5", "-1.5", "18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809",
    "123456789012345678901", "9" * 300,
)  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_those_of_the_fast_reader(number: str) -> None:
    value = read_surrogates(number)
    assert value == orjson.loads(number)
    assert type(value) is type(orjson.loads(number))


HUGE = ("9" * 309, "-" + "9" * 5000, "1e400", "-1.5E+999")
"""Numbers that no float holds."""


@pytest.mark.parametrize("number", HUGE)
def test_a_number_that_no_float_holds_keeps_its_spelling(number: str) -> None:
    text = f'{{"a":[{number},1,2.5,18446744073709551616],"b":"1e400"}}'
    huge = {"a": [HugeNumber(number), 1, 2.5, 2.0**64], "b": "1e400"}
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(text)
    assert read_huge(text) == read_any(text) == loosely(text.encode()) == read_surrogates(text) == huge
    assert read_without_huge(text) == {"a": [number, 1, 2.5, 2.0**64], "b": "1e400"}
    assert exact_text(read_exact(text)) == text


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("0.1234567890123456789012", "0.1234567890123456789012"),
        ("-9007199254740993.0", "-9007199254740993.0"),
        ("1e-400", "1e-400"),
        ("-1e-99999999999999999999", "-1e-99999999999999999999"),
        ("1.50", "1.5"),
        ("1E2", "100.0"),
        ("0.1", "0.1"),
        ("0e99999999999999999999", "0.0"),
        ("-0.00", "-0.0"),
    ],
)
def test_a_number_is_written_equal_in_value(number: str, written: str) -> None:
    assert exact_text(read_exact(f"[{number}]")) == f"[{written}]"


def test_what_is_read_may_be_too_deep_to_be_written() -> None:
    value = read_exact("[" * 255 + "]" * 255)
    assert exact_text(value[0]) == "[" * 254 + "]" * 254
    with pytest.raises(ProtocolError, match="deeper"):
        exact_text(value)


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[Infinity]",
        '{"a":-Infinity}',
        "[1e400",
        "[1e400,]",
        '{"a":1e400} 1',
        "01e400",
        "\ufeff1e400",
        '"\n1e400"',
    ],
)
def test_what_is_no_json_is_none_with_a_huge_number_too(text: str) -> None:
    assert read_any(text) is None
    assert loosely(text.encode()) is None


def test_a_huge_number_is_not_read_below_the_depth_limit() -> None:
    def nest(levels: int) -> str:
        return "[" * levels + "1e400" + "]" * levels

    assert read_huge(nest(JSON_DEPTH)) is not None
    assert read_huge(nest(JSON_DEPTH + 1)) is None


@pytest.mark.parametrize("read", [read_numbers, read_surrogates])
@pytest.mark.parametrize(
    ("levels", "fine"), [(JSON_DEPTH, True), (JSON_DEPTH + 1, False), (1100, False), (10**6, False)]
)
def test_depth_is_bounded(read: Any, levels: int, fine: bool) -> None:
    text = "[" * levels + "]" * levels
    assert too_deep(text) is not fine
    if fine:
        assert isinstance(read(text), list)
    else:
        with pytest.raises(ProtocolError, match="256 levels"):
            read(text)


def test_a_nearly_full_stack_is_a_typed_error() -> None:
    text = "[" * JSON_DEPTH + "]" * JSON_DEPTH

    def dive(depth: int) -> None:
        if depth:
            dive(depth - 1)
        else:
            read_numbers(text)

    room = sys.getrecursionlimit()
    frame: Any = sys._getframe()
    used = 0
    while frame is not None:
        used += 1
        frame = frame.f_back
    with pytest.raises(ProtocolError) as raised:
        dive(room - used - 60)
    assert raised.value.__context__ is None


@given(values, st.lists(st.integers(0, 200), max_size=5))
def test_nesting_finds_where_a_value_closes_at_any_cut(value: Any, places: list[int]) -> None:
    data = orjson.dumps([value]) + b'] "[{'
    end = len(data) - 5
    cuts = sorted({0, len(data), *(place for place in places if place < len(data))})
    nesting = Nesting()
    for start, stop in pairwise(cuts):
        found = nesting.push(data[start:stop])
        if found is not None:
            assert start + found == end
            return
    raise AssertionError("it never closed")

"""Further fields of a model under those of a call: 50, Options."""

from __future__ import annotations

import copy
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.models import merge_extra
from svir_core.errors import ConfigError
from svir_core.wire.json_value import is_array, is_object

VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)


def objects(value: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from("abc"), value, max_size=3)


ANY = objects(st.recursive(VALUES, lambda inner: objects(inner) | st.lists(inner, max_size=2)))


def agreeing(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that agree on which keys hold objects: those in upper case do."""
    plain = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3)
    if depth == 0:
        return plain
    inner = st.dictionaries(st.sampled_from("ABC"), agreeing(depth - 1), max_size=3)
    return st.tuples(plain, inner).map(lambda both: both[0] | both[1])


def ids(value: Any) -> set[int]:
    """Every list and object in ``value``, itself too."""
    if not (is_object(value) or is_array(value)):
        return set()
    inner = value.values() if is_object(value) else value
    return {id(value)}.union(*map(ids, inner))


@pytest.mark.parametrize(
    ("under", "over", "expected"),
    [
        ({}, {}, {}),
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": 3}}}, {"a": {"b": {"c": 3, "d": 2}}}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 2}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": [{"b": 1}]}, {"a": [{"c": 1}]}, {"a": [{"c": 1}]}),
        ({"a": (1, {"b": (2,)})}, {}, {"a": [1, {"b": [2]}]}),
        ({"a": types.MappingProxyType({"b": 1})}, {"a": types.MappingProxyType({"c": 2})}, {"a": {"b": 1, "c": 2}}),
    ],
)
def test_merging(under: dict[str, Any], over: dict[str, Any], expected: dict[str, Any]) -> None:
    assert merge_extra(under, over) == expected


def test_siblings_of_a_nested_setting_stay() -> None:
    model: dict[str, Any] = {"generationConfig": {"topK": 4, "mediaResolution": "LOW"}, "tools": [{"googleSearch": {}}]}
    call = {"generationConfig": {"topK": 8}}
    assert merge_extra(model, call) == {
        "generationConfig": {"topK": 8, "mediaResolution": "LOW"},
        "tools": [{"googleSearch": {}}],
    }


def test_keys_stand_in_the_order_of_the_first() -> None:
    assert list(merge_extra({"b": 1, "a": 2}, {"c": 3, "a": 4})) == ["b", "a", "c"]


@given(ANY, ANY)
def test_nothing_is_changed_or_shared(under: dict[str, Any], over: dict[str, Any]) -> None:
    before = copy.deepcopy((under, over))
    merged = merge_extra(under, over)
    assert (under, over) == before
    assert not ids(merged) & (ids(under) | ids(over))


@given(ANY)
def test_nothing_under_or_over_changes_nothing(extra: dict[str, Any]) -> None:
    assert merge_extra({}, extra) == merge_extra(extra, {}) == merge_extra(extra, extra) == extra


@given(ANY, ANY)
def test_what_is_over_wins(under: dict[str, Any], over: dict[str, Any]) -> None:
    merged = merge_extra(under, over)
    assert merged.keys() == under.keys() | over.keys()
    assert merge_extra(merged, over) == merged
    for key, value in over.items():
        if is_object(value) and is_object(under.get(key)):
            assert merged[key] == merge_extra(under[key], value)
        else:
            assert merged[key] == value


@given(agreeing(2), agreeing(2), agreeing(2))
def test_three_are_merged_the_same_from_either_side(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    assert merge_extra(merge_extra(a, b), c) == merge_extra(a, merge_extra(b, c))


def test_a_value_between_two_objects_hides_the_first() -> None:
    first, between, last = {"a": {"b": 1}}, {"a": None}, {"a": {"c": 2}}
    assert merge_extra(merge_extra(first, between), last) == last
    assert merge_extra(first, merge_extra(between, last)) == {"a": {"b": 1, "c": 2}}


CYCLE: dict[str, Any] = {}
CYCLE["a"] = CYCLE


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (5, "extra is a mapping, not an int"),
        ([("a", 1)], "extra is a mapping, not a list"),
        ({"a": {"b": object()}}, "extra.a.b is an object"),
        ({"a": [float("inf")]}, r"extra.a\[0\] is a number that is not finite"),
        ({5: 1}, "extra has a key of type int"),
        (CYCLE, "nests deeper"),
    ],
)
def test_what_json_cannot_carry_is_refused(wrong: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        merge_extra(wrong, {})
    with pytest.raises(ConfigError, match=named):
        merge_extra({}, wrong)

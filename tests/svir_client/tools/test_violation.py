"""Violations of a schema: each place by its path, in words of the schema's, never of the document's."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.tools.violation import violations
from svir_core import ConfigError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "name": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]+$"},
        "kind": {"enum": ["a", "b", 1]},
        "fixed": {"const": "x"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2, "uniqueItems": True},
        "place": {"$ref": "#/$defs/Place"},
        "maybe": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
        "either": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        "table": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
        "not": {"not": {"type": "string"}},
    },
    "required": ["count"],
    "additionalProperties": False,
    "$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city", "size"]}},
}
FIND = violations("f", SCHEMA)


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"count": 1}, []),
        ([], ['$: expected "object"']),
        ({}, ["$.count: is missing"]),
        ({"count": 0}, ["$.count: must be at least 1"]),
        ({"count": 10}, ["$.count: must be at most 9"]),
        ({"count": "hunter2"}, ['$.count: expected "integer"']),
        ({"count": True}, ['$.count: expected "integer"']),
        ({"count": 1, "name": "HUNTER2"}, ["$.name: most characters: 3", '$.name: must match "^[a-z]+$"']),
        ({"count": 1, "name": ""}, ["$.name: fewest characters: 1", '$.name: must match "^[a-z]+$"']),
        ({"count": 1, "kind": "hunter2"}, ['$.kind: expected one of ["a","b",1]']),
        ({"count": 1, "kind": True}, ['$.kind: expected one of ["a","b",1]']),
        ({"count": 1, "fixed": "hunter2"}, ['$.fixed: expected "x"']),
        ({"count": 1, "tags": []}, ["$.tags: fewest items: 1"]),
        ({"count": 1, "tags": ["a", 2]}, ['$.tags[1]: expected "string"']),
        ({"count": 1, "tags": ["a", "b", "a"]}, ["$.tags: most items: 2", "$.tags: violates uniqueItems"]),
        ({"count": 1, "place": {}}, ["$.place.city: is missing", "$.place.size: is missing"]),
        ({"count": 1, "maybe": {"city": 1}}, ['$.maybe.city: expected "string"', "$.maybe.size: is missing"]),
        ({"count": 1, "maybe": "hunter2"}, ["$.maybe: violates anyOf"]),
        ({"count": 1, "either": None}, ["$.either: violates oneOf"]),
        ({"count": 1, "table": {"hunter2": "x"}}, ['$.table[...]: expected "integer"']),
        ({"count": 1, "table": {"hunter2": 1, "b": 2}}, ["$.table: most keys: 1"]),
        ({"count": 1, "not": "hunter2"}, ["$.not: violates not"]),
        ({"count": 1, "hunter2": 1}, ["$: violates additionalProperties"]),
    ],
)
def test_a_place_and_what_was_expected(document: Any, found: list[str]) -> None:
    assert sorted(f"${path}: {words}" for path, words in FIND(document)) == sorted(found)


def test_deep_nesting_is_a_violation() -> None:
    find = violations("f", {"$ref": "#/$defs/N", "$defs": {"N": {"properties": {"n": {"$ref": "#/$defs/N"}}}}})
    document: Any = {}
    for _ in range(900):
        document = {"n": document}
    found = list(find(document))
    assert found in ([], [("", "is nested too deep")])
    schema: dict[str, Any] = {}
    for _ in range(2000):
        schema = {"properties": {"n": schema}}
    with pytest.raises(ConfigError, match="nested too deep"):
        violations("f", schema)


def test_a_union_with_null_is_a_schema() -> None:
    find = violations("f", {"properties": {"a": {"type": ["string", "null"]}}})
    assert list(find({"a": None})) == list(find({"a": "x"})) == []
    assert list(find({"a": 1})) == [(".a", 'expected ["string","null"]')]


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "integer"}, 1, True),
        ({"type": "integer"}, 1.0, True),
        ({"type": "integer"}, 1.5, False),
        ({"type": "integer"}, True, False),
        ({"type": "number"}, 1, True),
        ({"type": "number"}, 1.5, True),
        ({"type": "number"}, True, False),
        ({"enum": [1, 2]}, 1.0, True),
        ({"enum": [1, 2]}, True, False),
        ({"enum": [0]}, False, False),
        ({"enum": [True]}, 1, False),
        ({"const": 1}, True, False),
    ],
)
def test_numbers_are_those_of_json_schema(schema: dict[str, Any], value: Any, fits: bool) -> None:
    assert (list(violations("f", {"properties": {"a": schema}})({"a": value})) == []) is fits


def test_references_inside_what_is_no_schema_are_not_followed() -> None:
    schema = {"enum": [{"$ref": "http://127.0.0.1:1/"}], "properties": {"$ref": {"type": "string"}}}
    assert list(violations("f", schema)({"$ref": "http://127.0.0.1:1/"})) == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 12) | st.sampled_from(["", "a", "abcd", "hunter2"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*SCHEMA["properties"], "city", "size", "hunter2"]), inner, max_size=4)
    ),
)


@given(VALUES, VALUES, st.sampled_from(list(SCHEMA["properties"])))
def test_there_are_violations_where_the_library_sees_some(document: Any, value: Any, key: str) -> None:
    validator: Any = jsonschema.Draft202012Validator(SCHEMA)
    for tried in (document, {"count": 1, key: value}):
        found = list(FIND(tried))
        assert bool(found) is not validator.is_valid(tried)
        assert "hunter2" not in str(found)
        assert len(set(found)) == len(found)

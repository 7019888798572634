"""References of a schema: each from where it stands, in what is a schema alone."""

from __future__ import annotations

from typing import Any

import pytest

from svir_client.tools.violation import violations
from svir_core import ConfigError

NOWHERE = {"$ref": "#/$defs/None"}
EMBEDDED = {"$id": "http://x/a", "$ref": "#/$defs/B", "$defs": {"B": {"type": "integer"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"default": NOWHERE}},
        {"properties": {"enum": NOWHERE}},
        {"$defs": {"const": NOWHERE}},
        {"patternProperties": {"examples": NOWHERE}},
        {"properties": {"q": {"$dynamicRef": "http://127.0.0.1:1/"}}},
        {"$ref": "#/elsewhere", "elsewhere": {"items": NOWHERE}},
        {"$ref": "#/elsewhere", "elsewhere": {"$ref": 5}},
        {"$ref": "#/elsewhere", "elsewhere": {"properties": 5}},
        {"$defs": {"A": {**EMBEDDED, "$ref": "#/$defs/C"}, "C": {}}},
        {"anyOf": [{"not": NOWHERE}]},
    ],
)
def test_a_reference_that_leads_nowhere(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="leads nowhere"):
        violations("f", schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "http://x/a"}}, "$defs": {"A": EMBEDDED}},
        {"$id": "http://x/y", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "integer"}}},
        {"properties": {"a": {"$ref": "#A"}}, "$defs": {"A": {"$anchor": "A", "type": "integer"}}},
        {"properties": {"a": {"$dynamicRef": "#A"}}, "$defs": {"A": {"$dynamicAnchor": "A", "type": "integer"}}},
        {"properties": {"a": {"type": "integer", "default": NOWHERE, "examples": [NOWHERE]}}},
        {"properties": {"a": {"$ref": "#/elsewhere"}}, "elsewhere": {"type": "integer"}},
    ],
)
def test_a_reference_that_leads_somewhere(schema: dict[str, Any]) -> None:
    find = violations("f", schema)
    assert list(find({"a": 1})) == []
    assert list(find({"a": "x"})) == [(".a", 'expected "integer"')]

"""Schemas in the form that strict modes take; that they stay as narrow is held in test_structure_schema."""

from __future__ import annotations

import copy
from typing import Annotated, Any

import attrs
import jsonschema
import pydantic
import pytest

from svir_core import Schema
from svir_core.structure_strict import strict_schema

OBJECT = {"type": "object", "properties": {"a": {"type": "integer", "default": 1}, "default": {"type": "string"}}}
STRICT = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "default": {"type": "string"}},
    "required": ["a", "default"],
    "additionalProperties": False,
}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/Tree", "description": "the next"}},
}
STRICT_TREE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/Tree"}},
    "required": ["next"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({}, {}),
        ({"type": "object"}, {"type": "object"}),
        (OBJECT, STRICT),
        ({"type": "array", "items": OBJECT}, {"type": "array", "items": STRICT}),
        (
            {"type": "array", "prefixItems": [OBJECT], "items": False},
            {"type": "array", "prefixItems": [STRICT], "items": False},
        ),
        ({"oneOf": [OBJECT, {"type": "null"}]}, {"anyOf": [STRICT, {"type": "null"}]}),
        ({"type": "object", "additionalProperties": OBJECT}, {"type": "object", "additionalProperties": STRICT}),
        (
            {"enum": [OBJECT, {"default": 1}], "examples": [{"default": 1}], "const": {"default": 1}},
            {"enum": [OBJECT, {"default": 1}], "examples": [{"default": 1}], "const": {"default": 1}},
        ),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": OBJECT}},
            {"$ref": "#/$defs/A", "$defs": {"A": STRICT}},
        ),
        (
            {"items": {"$ref": "#/$defs/A", "default": None}, "$defs": {"A": OBJECT}},
            {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": STRICT}},
        ),
        (
            {"items": {"$ref": "#/$defs/A", "description": "an a"}, "$defs": {"A": OBJECT}},
            {"items": {**STRICT, "description": "an a"}, "$defs": {"A": STRICT}},
        ),
        (
            {"items": {"$ref": "#/$defs/None", "description": "lost"}, "$defs": {}},
            {"items": {"$ref": "#/$defs/None"}, "$defs": {}},
        ),
        (
            {"items": {"$ref": "#/$defs/A", "description": "x"}, "$defs": 1},
            {"items": {"$ref": "#/$defs/A"}, "$defs": 1},
        ),
        ({"$ref": 1, "default": 2}, {"$ref": 1}),
        (
            {"type": "object", "properties": 1},
            {"type": "object", "properties": 1},
        ),
        (
            {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}},
            {
                "$ref": "#/$defs/Tree",
                "$defs": {
                    "Tree": {
                        **STRICT_TREE,
                        "properties": {"next": {**STRICT_TREE, "description": "the next"}},
                    }
                },
            },
        ),
    ],
)
def test_a_strict_form(schema: Any, strict: Any) -> None:
    before = copy.deepcopy(schema)
    assert strict_schema(schema) == strict
    assert schema == before


@attrs.define
class Answer:
    """An answer."""

    text: str
    sources: Annotated[list[str], "where it is from"] = attrs.field(factory=list[str])
    certain: bool | None = None


class Leaf(pydantic.BaseModel):
    name: str = "x"
    leaves: list[Leaf] = []


def test_schema_of_a_type() -> None:
    made = Schema.of(Answer, strict=True)
    assert (made.name, made.strict) == ("Answer", True)
    assert made.schema["required"] == ["text", "sources", "certain"]
    assert "default" not in str(made.schema)
    assert Schema.of(Answer, name="other").name == "other"
    loose = Schema.of(Answer)
    assert (loose.schema["required"], loose.strict) == (["text"], False)
    assert Schema.of(dict[str, int]).name == "dict"
    assert Schema.of(int | None).name


def test_a_model_that_holds_itself() -> None:
    schema = strict_schema(dict(Schema.of(Leaf).schema))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator: Any = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"name": "a", "leaves": [{"name": "b", "leaves": []}]})
    assert not validator.is_valid({"name": "a", "leaves": [{"name": "b"}]})

"""A JSON Schema as the strict modes of servers take it: every property required, nothing else allowed (20 section 4).

What is asked for stays at least as narrow: a property with a default is asked for always. What a strict mode
has no words for (``default``, and keys beside a ``$ref``) is put where it counts, or left out where it
describes only what an absent value would be.
"""

from __future__ import annotations

from typing import Any, Final

from svir_core.wire.json_value import Json, is_array, is_object

_DEFINITIONS: Final = "#/$defs/"


def strict_schema(schema: Json) -> Json:
    """``schema`` for a strict mode; the given one stays as it is."""
    definitions = schema.get("$defs")
    strict = _strict(schema, definitions if is_object(definitions) else {}, frozenset())
    return strict if is_object(strict) else {}


def _strict(schema: Any, definitions: Json, inside: frozenset[str]) -> Any:
    if is_array(schema):
        return [_strict(item, definitions, inside) for item in schema]
    if not is_object(schema):
        return schema
    inlined = _inlined(schema, definitions, inside)
    if inlined is not None:
        return inlined
    strict: Json = {}
    for key, value in schema.items():
        if key == "oneOf":
            strict["anyOf"] = _strict(value, definitions, inside)
        elif key in ("properties", "$defs") and is_object(value):
            strict[key] = {name: _strict(inner, definitions, inside) for name, inner in value.items()}
        elif key in ("enum", "const", "examples", "description", "title"):
            strict[key] = value
        elif key != "default":
            strict[key] = _strict(value, definitions, inside)
    if schema.get("type") == "object" and is_object(schema.get("properties")):
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict


def _inlined(schema: Json, definitions: Json, inside: frozenset[str]) -> Json | None:
    """What a reference with keys beside it refers to, and those keys; ``None`` for all others.

    A definition that holds itself stays a reference, without the keys beside it.
    """
    reference = schema.get("$ref")
    beside = {key: value for key, value in schema.items() if key not in ("$ref", "default", "$defs")}
    if not isinstance(reference, str) or "$defs" in schema:
        return None
    name = reference.removeprefix(_DEFINITIONS)
    if not beside or name in inside or not is_object(definitions.get(name)):
        return {"$ref": reference}
    return {**_strict(definitions[name], definitions, inside | {name}), **beside}

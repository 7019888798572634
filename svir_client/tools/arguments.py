"""The JSON text that a model wrote as the arguments of a call, read into what the function takes.

Two ways, one per way to declare a tool: by the types of its parameters, or by a schema of the caller's. Of both,
what does not fit never reaches the function, and the model is told every place, by path, up to a bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final, NotRequired, Required, TypedDict, cast

import orjson

from svir_client.tools.signature import Signature
from svir_client.tools.violation import violations
from svir_core.errors import ConfigError, ProtocolError
from svir_core.json_text import plain
from svir_core.structure import parse_json
from svir_core.structure_class import Field
from svir_core.structure_schema import fields_schema
from svir_core.wire.json_value import Json

FAULTS_TOLD: Final = 50
"""So many places are told: a model mends no more at once, and a megabyte that fits nowhere has a hundred thousand."""

Read = Callable[[str], dict[str, Any]]
"""JSON text in, what the function is called with out; raises ``ProtocolError`` with words for the model."""


def by_types(name: str, fields: list[Field]) -> tuple[Json, Read]:
    """The schema of ``fields``, and what reads arguments into their types.

    Raises ``ConfigError`` that names the parameter whose type JSON cannot be read into.
    """
    schema = fields_schema(name, fields)
    keys = {field.name: Required[field.kind] if field.required else NotRequired[field.kind] for field in fields}
    kind: Any = cast("Any", TypedDict)("the schema", keys)  # its name is what an error says they do not fit

    def read(text: str) -> dict[str, Any]:
        values: dict[str, Any] = parse_json(text or "{}", kind, what=f"the arguments of {name}", faults=FAULTS_TOLD)
        return values

    return schema, read


def by_schema(name: str, given: Mapping[str, Any], signature: Signature) -> tuple[Json, Read]:
    """A copy of the ``given`` schema, and what reads arguments that it allows and the function takes.

    Raises ``ConfigError`` when it is no JSON Schema (2020-12) of an object.
    """
    schema: Json = orjson.loads(orjson.dumps(plain(given, f"the schema of {name}")))
    if schema.get("type") != "object":
        raise ConfigError(f'the schema of {name} must have "type": "object": arguments are an object')
    find = violations(name, schema)
    required = [field.name for field in signature.fields if field.required]
    known = {field.name for field in signature.fields}

    def read(text: str) -> Json:
        document = _loaded(name, text)
        faults = find(document)
        told = [f"${path}: {words}" for path, words in itertools.islice(faults, FAULTS_TOLD)]
        if not told:
            told = [f"$.{each}: is missing" for each in required if each not in document]
            if not signature.open and not known.issuperset(document):
                told.append("$: has keys that are not declared")
        if not told:
            return document
        more = "; and more" if next(faults, None) is not None else ""
        raise ProtocolError(f"the arguments of {name}: does not fit the schema: {'; '.join(told)}{more}")

    return schema, read


def _loaded(name: str, text: str) -> Json:
    """The object that ``text`` is; what is no object fits no schema of one, as the schema then says itself."""
    try:
        document: Json = orjson.loads(text or "{}")
        return document
    except orjson.JSONDecodeError:
        problem = f"the arguments of {name}: not JSON"
    raise ProtocolError(problem)

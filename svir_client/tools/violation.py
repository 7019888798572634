"""Where a document violates a JSON Schema (2020-12), in our words: the schema's, never the document's.

``jsonschema`` finds the places. Its own messages quote what was read, and a key that nobody declared is what
was read too: it stands as ``[...]`` in a path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from svir_client.tools.reference import leads_nowhere
from svir_core.errors import ConfigError
from svir_core.wire.json_value import Json, is_object

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Violation = tuple[str, str]
"""The path to a place, and what was expected there."""


def violations(name: str, schema: Json) -> Callable[[Any], Iterator[Violation]]:
    """What finds the violations of ``schema``, each place once.

    A reference that leads out of the schema is not followed: nothing is fetched. Raises ``ConfigError`` when
    ``schema`` is none, or has a reference that leads nowhere.
    """
    import jsonschema  # imported late: most programs have no schema of their own
    from referencing import Registry

    problem = _problem(name, schema, jsonschema.Draft202012Validator, jsonschema.SchemaError)
    if problem is not None:
        raise ConfigError(problem)
    registry: Any = Registry[Any]()
    if leads_nowhere(schema, registry):
        raise ConfigError(f"the schema of {name} has a reference that leads nowhere, or out of it")
    validator: Any = jsonschema.Draft202012Validator(schema, registry=registry)

    def find(document: Any) -> Iterator[Violation]:
        seen: set[Violation] = set()
        try:
            for error in validator.iter_errors(document):
                for violation in _told(error):
                    if violation not in seen:
                        seen.add(violation)
                        yield violation
        except RecursionError:
            yield "", "is nested too deep"

    return find


def _problem(name: str, schema: Json, validator: Any, wrong: type[Exception]) -> str | None:
    try:
        validator.check_schema(schema)
    except wrong as error:
        return f"the schema of {name} is no JSON Schema: {getattr(error, 'json_path', '$')} is wrong"
    except RecursionError:
        return f"the schema of {name} is nested too deep"
    return None


def _told(error: ValidationError) -> Iterator[Violation]:
    """One error of the library's as violations: those of the one branch that was meant, where that is known."""
    branch = _meant(error)
    if branch:
        for inner in branch:
            yield from _told(inner)
    elif error.validator == "required" and is_object(error.instance):
        required: list[str] = cast("Any", error.validator_value)
        yield from ((f"{_path(error)}.{name}", "is missing") for name in required if name not in error.instance)
    else:
        yield _path(error), _words(error)


def _meant(error: ValidationError) -> list[ValidationError]:
    """Of the branches of an ``anyOf`` or ``oneOf``, the faults of the only one of the right sort."""
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    of_its_sort = [faults for faults in branches.values() if not any(map(_is_another_sort, faults))]
    return of_its_sort[0] if len(of_its_sort) == 1 else []


def _is_another_sort(error: ValidationError) -> bool:
    return not error.relative_path and error.validator in ("type", "const", "enum")


def _words(error: ValidationError) -> str:
    words = _WORDS.get(str(error.validator))
    said = orjson.dumps(error.validator_value).decode()
    return f"violates {error.validator}" if words is None else f"{words} {said}"


_WORDS: Final[Mapping[str, str]] = {
    "type": "expected",
    "enum": "expected one of",
    "const": "expected",
    "pattern": "must match",
    "minimum": "must be at least",
    "maximum": "must be at most",
    "exclusiveMinimum": "must be more than",
    "exclusiveMaximum": "must be less than",
    "multipleOf": "must be a multiple of",
    "minLength": "fewest characters:",
    "maxLength": "most characters:",
    "minItems": "fewest items:",
    "maxItems": "most items:",
    "minProperties": "fewest keys:",
    "maxProperties": "most keys:",
}
"""What a keyword asks, before its value; of the others it is said that they are violated."""


def _path(error: ValidationError) -> str:
    """The way to the place. A name stands in it when it is the schema's."""
    declared = {step for step in error.absolute_schema_path if isinstance(step, str)}
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if step in declared else "[...]"
        for step in error.absolute_path
    )

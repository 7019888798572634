"""Notes beside a type: words are told, constraints that nobody would check are refused."""

from __future__ import annotations

from typing import Annotated, Any

import annotated_types
import attrs
import msgspec
import pydantic
import pytest
from typing_extensions import Doc

from svir_core import ConfigError, Schema
from svir_core.structure import check_readable, parse_json
from svir_core.structure_note import words_of


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ([], None),
        (["a", "b"], "a"),
        (["", Doc("b")], "b"),
        ([5, object(), Doc("a")], "a"),
        ([annotated_types.doc("a")], "a"),
    ],
)
def test_words(notes: list[Any], words: str | None) -> None:
    assert words_of(notes) == words


@attrs.frozen
class Size:
    width: Annotated[int, annotated_types.Gt(0)]


class Model(pydantic.BaseModel):
    width: Annotated[int, pydantic.Field(gt=0)]


class Struct(msgspec.Struct):
    width: Annotated[int, msgspec.Meta(gt=0)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Annotated[int, pydantic.Field(ge=5)], "FieldInfo"),
        (list[Annotated[str, "words", msgspec.Meta(min_length=3)]], "Meta"),
        (Annotated[int, annotated_types.Interval(gt=5)], "Interval"),
        (Annotated[str, pydantic.StringConstraints(min_length=3)], "StringConstraints"),
        (Size, "Gt"),
    ],
)
def test_a_constraint_is_refused_by_name(kind: Any, name: str) -> None:
    words = f"is not a type that JSON can be read into: {name} in Annotated is not checked"
    with pytest.raises(ConfigError, match=words):
        Schema.of(kind)
    with pytest.raises(ConfigError, match=words):
        check_readable(kind, what="it")
    with pytest.raises(ConfigError, match=words) as caught:
        parse_json("1", kind, what="it")
    assert caught.value.__context__ is None


@pytest.mark.parametrize("kind", [Model, Struct])
def test_a_class_of_the_library_checks_its_own(kind: Any) -> None:
    assert "exclusiveMinimum" in str(Schema.of(kind).schema)
    assert parse_json('{"width": 1}', kind, what="it").width == 1

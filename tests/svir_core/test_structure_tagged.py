"""A union of Structs with tags is msgspec's to tell apart."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from svir_core import ConfigError, ProtocolError
from svir_core.structure import parse_json


class Cat(msgspec.Struct, tag=True):
    name: str


class Dog(msgspec.Struct, tag=True):
    name: str


class Twin(msgspec.Struct, tag="Cat"):
    name: str


class Plain(msgspec.Struct, forbid_unknown_fields=True):
    name: str


def read(text: str, kind: Any) -> Any:
    return parse_json(text, kind, what="it")


ANY: Any = Cat | Dog | int | Plain | None


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ('{"type": "Dog", "name": "a"}', Cat | Dog, Dog("a")),
        ('{"name": "a", "type": "Cat"}', Dog | Cat, Cat("a")),
        ('[{"type": "Dog", "name": "a"}]', list[Cat | Dog | None], [Dog("a")]),
        ('{"type": "Dog", "name": "a"}', ANY, Dog("a")),
        ('{"name": "a"}', ANY, Plain("a")),
        ("7", ANY, 7),
        ("null", ANY, None),
        ('{"type": "Dog", "name": "a"}', Dog | None, Dog("a")),
    ],
)
def test_the_tag_says_which(text: str, kind: Any, value: Any) -> None:
    assert read(text, kind) == value


@pytest.mark.parametrize(
    "text", ['{"name": "a"}', '{"type": "Cow", "name": "a"}', '{"type": "Dog"}', '{"type": 1, "name": "a"}', "7"]
)
def test_without_its_tag_it_is_none(text: str) -> None:
    with pytest.raises(ProtocolError, match="does not fit") as caught:
        read(text, Cat | Dog)
    assert "Cow" not in str(caught.value)


def test_two_of_one_tag_are_no_type() -> None:
    with pytest.raises(ConfigError, match="not a type that JSON can be read into"):
        read('{"type": "Cat", "name": "a"}', Cat | Twin)


def test_where_msgspec_is_not_loaded_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "msgspec")
    assert read("7", str | int) == 7

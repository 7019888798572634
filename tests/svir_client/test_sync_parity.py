"""The twin has everything that the async classes have, by the same names, with the same signatures."""

from __future__ import annotations

import inspect
import re

import pytest

from svir_client import (
    AsyncClient,
    Client,
    PartialItems,
    PartialStream,
    RawStream,
    Stream,
    SyncPartialItems,
    SyncPartialStream,
    SyncRawStream,
    SyncStream,
    SyncTextStream,
    TextStream,
)

TWINS: dict[type, type] = {
    AsyncClient: Client,
    Stream: SyncStream,
    TextStream: SyncTextStream,
    RawStream: SyncRawStream,
    PartialStream: SyncPartialStream,
    PartialItems: SyncPartialItems,
}

NAMES = {
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__repr__": "__repr__",
}
"""The names that an async class has and how its twin spells them; every public name is spelled the same."""

CLASSES = {kind.__name__: twin.__name__ for kind, twin in TWINS.items()}

ITEMS = {SyncStream: "Event", SyncRawStream: "bytes"}
"""What ``Item`` stands for in the base of these two; tests/typing holds that it does."""


def members(kind: type) -> set[str]:
    own = {name for base in kind.__mro__[:-1] for name in vars(base)}
    return {name for name in own if not name.startswith("_") or name in NAMES or name in NAMES.values()}


def shape(kind: type, name: str) -> str:
    """What calls it: a property's or a method's parameters, defaults and annotations, classes by the twin's names."""
    attribute = inspect.getattr_static(kind, name)
    if isinstance(attribute, property):
        assert attribute.fget is not None
        text = f"property {inspect.signature(attribute.fget)}"
    else:
        text = str(inspect.signature(getattr(kind, name)))
    names = {**CLASSES, "Item": ITEMS.get(kind, "Item")}
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_names_are_the_same(kind: type) -> None:
    assert {NAMES.get(name, name) for name in members(kind)} == members(TWINS[kind])


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_signatures_are_the_same(kind: type) -> None:
    twin = TWINS[kind]
    for name in members(kind):
        assert shape(twin, NAMES.get(name, name)) == shape(kind, name), name


@pytest.mark.parametrize("twin", TWINS.values(), ids=lambda twin: twin.__name__)
def test_nothing_of_the_twin_is_awaited(twin: type) -> None:
    for name in members(twin):
        assert not inspect.iscoroutinefunction(getattr(twin, name)), name


def test_the_constructors_give_a_client_and_say_what_they_take() -> None:
    class Special(Client):
        pass

    assert type(Client.openai("http://127.0.0.1:1")) is Client
    assert type(Special.openai("http://127.0.0.1:1")) is Special
    assert inspect.getdoc(Client.openai) == inspect.getdoc(AsyncClient.openai)
    assert repr(Client.openai("http://127.0.0.1:1", api_key="sk-secret")) == "<Client openai_chat open>"

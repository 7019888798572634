from __future__ import annotations

import pickle
from typing import Any

import pytest

from svir_core.errors import ConfigError
from svir_core.limits import Limits
from svir_core.think import Think
from svir_core.wire.api import CodecOptions, Compat, Mode, Model


def test_options_and_facts_are_values() -> None:
    options = CodecOptions("lenient", Think(markers=("[", "]")), Limits(tool_calls=1), 5, 0)
    assert options.mode is Mode.LENIENT
    for value in (options, CodecOptions(), Compat(frozenset({"a"}), {"b": "c"}), Model("a", "A")):
        assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "loose"),
        ("mode", None),
        ("think", "maybe"),
        ("think", None),
        ("limits", None),
        ("limits", 5),
        ("context_tokens", 0),
        ("context_tokens", -1),
        ("context_tokens", True),
        ("context_tokens", "5"),
        ("image_tokens", -1),
        ("image_tokens", 1.5),
        ("extra", 1),
    ],
)
def test_an_option_that_is_wrong_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        CodecOptions(**{name: value})

"""The bounds of a generation: their defaults, which the table of the docstring states, and wrong values."""

from __future__ import annotations

import ast
import re
from typing import Any

import attrs
import pytest

from svir_core.errors import ConfigError
from svir_core.loop_limits import LoopLimits


def test_the_defaults_are_those_of_the_table() -> None:
    rows = re.findall(r"^\s*\| ``(\w+)`` \| (?:``)?(\w+)(?:``)? \|", LoopLimits.__doc__ or "", re.MULTILINE)
    assert {name: ast.literal_eval(default) for name, default in rows} == attrs.asdict(LoopLimits())
    assert LoopLimits() == LoopLimits(rounds=8, tool_calls=64, parallel=4, stop_on_tool_error=False)


@pytest.mark.parametrize("name", ["rounds", "tool_calls", "parallel"])
@pytest.mark.parametrize("value", [0, -1, True, 1.0, "8", None])
def test_a_bound_is_a_positive_integer(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^LoopLimits\.{name} must be an integer of 1 or more$"):
        LoopLimits(**{name: value})


@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_stop_on_tool_error_is_a_bool(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^LoopLimits\.stop_on_tool_error must be bool"):
        LoopLimits(stop_on_tool_error=value)

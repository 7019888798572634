"""The set of quirks: its names, and what is no set."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError
from svir_core.quirk import NONE, Quirk, named, names_of, spelled
from svir_core.wire.openai_chat import Decoder


@given(st.sets(st.sampled_from(Quirk)))
def test_names_stand_for_the_set_in_the_order_of_the_table(chosen: set[Quirk]) -> None:
    quirks = NONE
    for quirk in chosen:
        quirks |= quirk
    names = names_of(quirks)
    assert named(names) == named(reversed(names)) == quirks
    assert names == [name for name, quirk in Quirk.__members__.items() if quirk in quirks]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"TOOL_INDEX_MISSING, .*USAGE_INCREMENTS"):
        named(["DONE_OPTIONAL", "done_optional"])


@pytest.mark.parametrize("value", [None, 0, 1, "DONE_OPTIONAL", [Quirk.DONE_OPTIONAL]])
def test_only_a_quirk_is_a_set_of_quirks(value: Any) -> None:
    with pytest.raises(ConfigError, match="quirks must be a Quirk, not a"):
        Decoder(quirks=value)


def test_a_set_is_spelled_as_a_caller_writes_it() -> None:
    assert spelled(Quirk.FINISH_OPEN | Quirk.DONE_OPTIONAL) == "DONE_OPTIONAL | FINISH_OPEN"
    assert spelled(NONE) == ""

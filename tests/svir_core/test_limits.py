from __future__ import annotations

import pickle
from typing import Any

import pytest

from svir_core import limits
from svir_core.errors import ConfigError
from svir_core.limits import Limits


def test_the_defaults_are_the_documented_ones() -> None:
    assert Limits() == Limits(wire_bytes=64 * 1024 * 1024, event_bytes=256 * 1024, tool_calls=64)
    assert limits.ERROR_BODY_BYTES == 64 * 1024
    assert limits.ERROR_BODY_SECONDS == 0.3
    assert limits.DOCUMENT_BYTES == 16 * 1024 * 1024
    assert limits.RETRY_AFTER_SECONDS == 30
    assert limits.SERVER_MESSAGE_BYTES == 4 * 1024
    assert limits.BLOCK_BYTES % 3 == 0


@pytest.mark.parametrize("name", ["wire_bytes", "event_bytes", "tool_calls"])
@pytest.mark.parametrize("value", [0, -1, True, False, "5", 5.0, None])
def test_a_bound_is_a_positive_integer(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^Limits\.{name} must be an integer of 1 or more$"):
        Limits(**{name: value})


def test_limits_are_a_value() -> None:
    assert pickle.loads(pickle.dumps(Limits(tool_calls=5))) == Limits(tool_calls=5) != Limits()
    assert hash(Limits()) == hash(Limits())

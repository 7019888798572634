"""What a server says beyond the protocol, kept when the caller asks (11 section B)."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final

from svir_core.wire.json_value import Json, is_array, is_object

MERGED_LEVELS: Final = 2
"""Objects are merged this deep, so that ``logprobs.content`` grows chunk by chunk; deeper ones are values."""


def keep(kept: Json, said: Json, known: Set[str]) -> None:
    """Add the keys of ``said`` that are not ``known`` to ``kept``: the last value that is not null, lists one after
    the other, objects key by key."""
    for key, value in said.items():
        if key not in known:
            _merge(kept, key, value, MERGED_LEVELS)


def _merge(kept: Json, key: str, value: Any, levels: int) -> None:
    if value is None:
        return
    if is_array(value):
        before = kept.get(key)
        if is_array(before):
            before.extend(value)
            return
    elif is_object(value) and levels:
        before = kept.get(key)
        if not is_object(before):
            before = kept[key] = {}
        for name, inner in value.items():
            _merge(before, name, inner, levels - 1)
        return
    kept[key] = value

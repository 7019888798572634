"""Two mappings of further fields, one under the other: a model's and a call's (50, Options)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from svir_core.errors import ConfigError
from svir_core.json_text import plain
from svir_core.wire.json_value import is_object


def merge_extra(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``under`` and ``over`` as one: objects are merged key by key, and everything else of ``over`` replaces what
    stands there, lists and ``None`` too. A new value; neither argument is changed or shared.

    Keys stand in the order of ``under``, then those that ``over`` adds. Merging three is the same from either side
    wherever they agree on which keys hold objects: a value between two objects hides the first from the last.

    Raises ``ConfigError`` that names the place of what JSON cannot carry.
    """
    for each in (under, over):
        if not isinstance(each, Mapping):
            raise ConfigError(f"extra is a mapping, not a {type(each).__name__}")
        plain(each, "extra")
    return _merged(under, over)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = {key: _copied(value) for key, value in under.items()}
    for key, value in over.items():
        known = merged.get(key)
        if is_object(known) and isinstance(value, Mapping):
            merged[key] = _merged(known, cast("Mapping[str, Any]", value))
        else:
            merged[key] = _copied(value)
    return merged


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _merged({}, cast("Mapping[str, Any]", value))
    if isinstance(value, list | tuple):
        return [_copied(each) for each in cast("Sequence[Any]", value)]
    return value

"""Two mappings of further fields, one under the other: a model's and a call's (50, Options)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.json_text import copied
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
            raise ConfigError(f"extra is a mapping, not {an(type(each))}")
    return _merged(copied(under, "extra"), copied(over, "extra"))


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    for key, value in over.items():
        known = under.get(key)
        under[key] = _merged(known, value) if is_object(known) and is_object(value) else value
    return under

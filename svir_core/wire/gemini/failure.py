"""Failures as this API alone tells them: without ``error`` around them, or by a number without a word.

Source: 22 section 11, 11-quirks section A.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from svir_core.slow_json import loosely
from svir_core.wire.failure import Failure, describe
from svir_core.wire.json_value import Json, is_array, is_object

STATUSES: Final[Mapping[int, str]] = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""The status that a numeric code stands for where the server names none; any other is the server's own trouble."""


def _object(value: Any) -> Json | None:
    found = value[0] if is_array(value) and value else value
    return found if is_object(found) else None


def flat_failure(value: Any) -> Failure | None:
    """A failure without ``error`` around it, as Vertex may send one, alone or first in an array."""
    told = _object(value)
    if told is None or "candidates" in told or type(told.get("code")) is not int:
        return None
    return describe(told) if any(isinstance(told.get(key), str) for key in ("status", "message")) else None


def by_number(failure: Failure, words: str) -> Failure:
    """``failure``, whose ``words`` are its payload; one that names neither a code nor a status has that of its
    number."""
    if failure.code is not None or failure.type is not None:
        return failure
    told = _object(loosely(words.encode()))
    inner = (told or {}).get("error", told)
    code = inner.get("code") if is_object(inner) else None
    return attrs.evolve(failure, type=STATUSES.get(code)) if type(code) is int else failure

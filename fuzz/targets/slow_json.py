"""Where the fast JSON reader has a value the slow readers have the same, and no depth is a ``RecursionError``.

Nesting is the same at any cut, and ends where the value does.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from fuzz.check import Target, require, same
from fuzz.mutate import json_body
from fuzz.plan import Plan, read
from svir_core.errors import ProtocolError
from svir_core.json_text import sanitize
from svir_core.slow_json import (
    Nesting,
    NumberText,
    loosely,
    read_numbers,
    read_surrogates,
    too_deep,
    without_lone_surrogates,
)
from svir_core.wire.payload import second_look

NOTHING = object()


def check(raw: bytes) -> None:
    plan = read(raw)
    value = _fast(plan.data)
    found = loosely(plan.data)
    if value is not NOTHING:
        same("loosely() reads another value", found, value)
        _slow_readers(plan.data.decode(), value)
    _nesting(plan, found)
    try:
        payload = second_look(plan.data)
    except ProtocolError:
        require(too_deep(plan.data.decode("utf-8", "replace")), "refused without being deep")
        return
    if payload.chunk is not None:
        same("a second look reads another value", payload.chunk, found)
        if not payload.codes:  # nothing is wrong with it, so another reader takes it too
            json.loads(plan.data.decode())
        if payload.raw is not None:
            require(len(payload.raw) >= len(payload.chunk), "keys were lost", payload.raw)


def _fast(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return NOTHING


def _slow_readers(text: str, value: Any) -> None:
    same("a text without lone surrogates was changed", without_lone_surrogates(text), text)
    same("a text without surrogates was changed", sanitize(text), text)
    try:
        surrogates = read_surrogates(text)
        numbers = read_numbers(text)
    except ProtocolError:
        require(too_deep(text), "refused without being deep")
        return
    same("read_surrogates() reads another value", surrogates, value)
    same("read_numbers() reads another value", _as_numbers(numbers), value)


def _as_numbers(value: Any) -> Any:
    """``value`` with every spelled number read."""
    if isinstance(value, NumberText):
        return orjson.loads(str(value))
    if isinstance(value, list):
        return [_as_numbers(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {key: _as_numbers(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _nesting(plan: Plan, value: Any) -> None:
    """Where the outermost value closes, at any cut; at its end when the whole is one value."""
    nesting = Nesting()
    end = nesting.push(plan.data)
    cut = Nesting()
    passed = 0
    found: int | None = None
    for piece in plan.pieces():
        found = cut.push(piece)
        if found is not None:
            found += passed
            break
        passed += len(piece)
    same("the cut matters", (found, cut.deepest), (end, nesting.deepest))
    if isinstance(value, dict | list):
        same("it does not close at its end", end, len(plan.data.rstrip(b" \t\r\n")))


TARGET = Target(check, "bodies", json_body, max_size=256)

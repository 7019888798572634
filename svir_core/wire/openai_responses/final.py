"""The final response: the last event of a stream, or a document (20 section 7)."""

from __future__ import annotations

from typing import Any, TypeGuard

from svir_core.response import AnomalyCode
from svir_core.slow_json import read_without_huge, without_lone_surrogates
from svir_core.wire.json_value import Json, is_array, is_object
from svir_core.wire.openai_responses.table import EVENT_KEYS, RESPONSE_KEYS
from svir_core.wire.policy import Forgive


def is_item(value: Any) -> TypeGuard[Json]:
    """Whether ``value`` is an item: an object with a type."""
    return is_object(value) and isinstance(value.get("type"), str)


def is_document(value: Any) -> TypeGuard[Json]:
    """Whether ``value`` is a whole response."""
    return is_object(value) and (value.get("object") == "response" or is_array(value.get("output")))


def status(response: Json) -> str | None:
    """The status of the response, where it has one."""
    value = response.get("status")
    return value if isinstance(value, str) and value else None


def items(response: Json, forgive: Forgive) -> list[tuple[int, Json]]:
    """The items of the response, each with its number; none where a gateway left them out."""
    output = response.get("output")
    if output is None:
        return []
    found = [(number, item) for number, item in enumerate(output) if is_item(item)] if is_array(output) else []
    if not is_array(output) or len(found) != len(output):
        forgive(AnomalyCode.WRONG_TYPE)
    return found


def at(payload: Any, where: tuple[str, ...]) -> Any:
    """The response in its payload: under these keys; ``None`` where there is none."""
    for key in where:
        payload = payload.get(key)
    return payload


def beyond(payload: bytes, where: tuple[str, ...]) -> Json:
    """What the server says beyond the protocol, in the response and beside it, and the usage report as it came."""
    value = read_without_huge(without_lone_surrogates(payload.decode("utf-8", "replace")))
    response = at(value, where)
    beside = {key: kept for key, kept in value.items() if where and key not in EVENT_KEYS}
    said = response if is_object(response) else {}
    inside = {key: kept for key, kept in said.items() if key not in RESPONSE_KEYS or key == "usage"}
    return {key: kept for key, kept in (beside | inside).items() if kept is not None}

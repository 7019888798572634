"""A second, slow look at payloads that the JSON library does not take (10 section 1, 11 section B)."""

from __future__ import annotations

from typing import Any

import attrs
import orjson

from svir_core.errors import ProtocolError
from svir_core.limits import JSON_DEPTH
from svir_core.response import AnomalyCode
from svir_core.slow_json import read_huge, read_surrogates, too_deep, without_lone_surrogates
from svir_core.wire.json_value import Json, is_object


@attrs.frozen
class Payload:
    """What a payload holds after all.

    Attributes:
        chunk: its JSON object, or ``None``.
        codes: what is wrong with it, in order.
        raw: the object again, lone surrogates still in it; ``None`` when there are none.
        huge: whether it holds numbers that no float holds.
    """

    chunk: Json | None
    codes: tuple[AnomalyCode, ...]
    raw: Json | None = None
    huge: bool = False


def second_look(payload: bytes) -> Payload:
    """Read ``payload`` again. Raises ``ProtocolError`` when it is nested deeper than ``JSON_DEPTH``: in both modes,
    since a chunk that cannot be read may hold part of the answer."""
    if payload[:1] == b":":
        return Payload(None, (AnomalyCode.PAYLOAD_WITH_COLON,))
    codes: list[AnomalyCode] = []
    text = payload.decode("utf-8", "replace")
    if text.encode() != payload:
        codes.append(AnomalyCode.INVALID_UTF8)
    clean = without_lone_surrogates(text)
    chunk: Any
    huge = False
    try:
        chunk = orjson.loads(clean)
    except orjson.JSONDecodeError:
        chunk = read_huge(clean)
        huge = chunk is not None
    if chunk is None and too_deep(text):
        raise ProtocolError(f"a payload is nested deeper than {JSON_DEPTH} levels")
    if not is_object(chunk):
        return Payload(None, (*codes, AnomalyCode.NOT_AN_OBJECT))
    if clean == text:
        return Payload(chunk, tuple(codes), huge=huge)
    return Payload(chunk, (*codes, AnomalyCode.LONE_SURROGATE), read_surrogates(text), huge)

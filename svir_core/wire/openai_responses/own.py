"""Items that came from this API, on their way back to it (20 sections 3.3 and 6).

An item counts only while what it stands beside is what it says: a text that was changed, or arguments that were, are
sent without it.
"""

from __future__ import annotations

from typing import Any

from svir_core.errors import ConfigError
from svir_core.json_text import sanitize
from svir_core.message import Opaque, Part, Reasoning, Text, ToolCall
from svir_core.slow_json import read_any
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.openai_responses.speech import texts_of
from svir_core.wire.openai_responses.table import API_NAME, CALL_TEXTS, CUSTOM, MESSAGE, REASONING


def verbatim(opaque: Opaque) -> bytes:
    """The item as it came."""
    return sanitize(opaque.json.strip()).encode()


def own_item(part: Part, where: str) -> Opaque | None:
    """The item of this API that ``part`` is, or stands beside unchanged; ``None`` when there is none.

    Raises ``ConfigError`` for data of this API that is no item.
    """
    if isinstance(part, Opaque):
        return part if _read(part, where) is not None else None
    opaque = part.opaque if isinstance(part, Text | Reasoning | ToolCall) else None
    fields = _read(opaque, where)
    return opaque if fields is not None and _says(fields, part) else None


def is_custom(call: ToolCall, where: str) -> bool:
    """Whether ``call`` is of a custom tool: its item says so, also when the call was changed."""
    fields = _read(call.opaque, where)
    return fields is not None and fields["type"] == CUSTOM


def _read(opaque: Opaque | None, where: str) -> Json | None:
    """The item in ``opaque``; ``None`` for none, and for data of another API."""
    if opaque is None or opaque.api != API_NAME:
        return None
    fields: Any = read_any(opaque.json)
    if not is_object(fields) or not isinstance(fields.get("type"), str):
        raise ConfigError(f"{where}: opaque data of {API_NAME} must be an item, a JSON object with a type")
    return fields


def _says(fields: Json, part: Part) -> bool:
    """Whether an item says what ``part`` does."""
    kind = fields["type"]
    if isinstance(part, ToolCall):
        return kind in CALL_TEXTS and (part.id, part.name, part.arguments) == tuple(
            fields.get(key) for key in ("call_id", "name", CALL_TEXTS[kind])
        )
    if isinstance(part, Reasoning):
        return kind == REASONING and part.text == "".join(
            text for found, *_, text in texts_of(fields, kind) if found.source == part.source
        )
    return (
        isinstance(part, Text) and kind == MESSAGE and part.text == "".join(text for *_, text in texts_of(fields, kind))
    )

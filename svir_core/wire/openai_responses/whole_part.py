"""The parts of a whole answer as the items they were: what this API gave beside them goes out as it came.

Another API's opaque data is no business of this one's clients, and stays out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.json_text import sanitize
from svir_core.message import Opaque, Part, Reasoning, Text, ToolCall
from svir_core.slow_json import read_any
from svir_core.wire.json_value import Json
from svir_core.wire.openai_responses.event_writer import EventWriter, call_of, part_of
from svir_core.wire.openai_responses.finish import Told
from svir_core.wire.openai_responses.output import id_of
from svir_core.wire.openai_responses.own import own_item, verbatim
from svir_core.wire.openai_responses.speech import texts_of
from svir_core.wire.openai_responses.table import (
    CALL_TEXTS,
    FUNCTION,
    KINDS,
    MESSAGE,
    RAW_SOURCE,
    REASONING,
    SUMMARY_SOURCE,
    Step,
)

NAMES = ("id", "type", "role", "phase", "call_id", "name")
"""What says which item it is, from its beginning."""

SUMMARIES = frozenset({SUMMARY_SOURCE, "thought"})
"""The sources of reasoning that are summaries; that of any other source goes out as the thoughts themselves."""


def reasoning_part(source: str) -> str:
    """The type of the part that reasoning of this source goes out as."""
    return "summary_text" if source in SUMMARIES else RAW_SOURCE


def text_item(item_id: str, part_type: str, text: str, status: str) -> Json:
    """A message or reasoning, as an item of one part; without a part when it is in progress."""
    kind = KINDS[part_type]
    parts = [] if status == "in_progress" else [part_of(part_type, text)]
    if kind.item == MESSAGE:
        return {"id": item_id, "type": MESSAGE, "status": status, "role": "assistant", "content": parts}
    return {"id": item_id, "type": REASONING, "summary": [], **{kind.list: parts}}


def told_of(parts: Sequence[Part], *, refusal: bool) -> list[Told]:
    """What the parts of an answer count for; ``ConfigError`` when one is none of an answer's."""
    told: list[Told] = []
    for number, part in enumerate(parts):
        own = own_item(part, f"parts[{number}]")
        if own is not None:
            fields: Any = read_any(own.json)
            texts = [(part_type, text) for _, _, part_type, text in texts_of(fields, fields["type"])]
            spoken = any(text for part_type, text in texts if part_type == "output_text")
            refused = any(text for part_type, text in texts if part_type == "refusal")
            told.append(Told(fields, refused, spoken))
        elif isinstance(part, Text):
            told.append(Told({"type": MESSAGE}, refusal and bool(part.text), bool(part.text) and not refusal))
        elif isinstance(part, ToolCall):
            told.append(Told({"type": FUNCTION}))
        elif not isinstance(part, Reasoning | Opaque):
            raise ConfigError(f"{an(type(part))} is no part of an answer")
    return told


def write_text(writer: EventWriter, part_type: str, text: str) -> None:
    """Write a text as an item of its own."""
    kind = KINDS[part_type]
    item_id = writer.new_id(kind.item)
    place = writer.open(text_item(item_id, part_type, "", "in_progress"))
    writer.open_part(place, item_id, part_type, 0)
    writer.grow_part(place, item_id, part_type, 0, text)
    writer.close_part(place, item_id, part_type, 0, text)
    writer.close(place, text_item(item_id, part_type, text, "completed"))


def write_parts(writer: EventWriter, parts: Iterable[Part], *, refusal: bool) -> None:
    """Write every part of an answer."""
    raw = ""  # the thoughts in the item before, which may be a part of their own
    for number, part in enumerate(parts):
        own = own_item(part, f"parts[{number}]")
        if isinstance(part, Reasoning) and own is None and part.source == RAW_SOURCE and part.text == raw != "":
            raw = ""
            continue
        raw = ""
        if own is not None:
            fields = _write_own(writer, own)
            raw = _raw(fields) if isinstance(part, Reasoning) and part.source != RAW_SOURCE else ""
        elif isinstance(part, Text | Reasoning) and part.text:
            said = "refusal" if refusal else "output_text"
            write_text(writer, said if isinstance(part, Text) else reasoning_part(part.source), part.text)
        elif isinstance(part, ToolCall):
            _write_call(writer, part)


def trailing(parts: Sequence[Part]) -> Iterator[Part]:
    """The parts behind everything that deltas tell: opaque items, and reasoning that is hidden."""
    last = max(
        (number for number, part in enumerate(parts) if not isinstance(part, Opaque) and not _is_hidden(part)),
        default=-1,
    )
    yield from parts[last + 1 :]


def _is_hidden(part: Part) -> bool:
    return isinstance(part, Reasoning) and not part.text


def _raw(fields: Json) -> str:
    return "".join(text for kind, _, _, text in texts_of(fields, REASONING) if kind.source == RAW_SOURCE)


def _write_call(writer: EventWriter, call: ToolCall) -> None:
    item_id = writer.new_id(FUNCTION)
    place = writer.open(call_of(FUNCTION, item_id, call.id, call.name, "", "in_progress"))
    if call.arguments:
        writer.arguments(place, item_id, FUNCTION, call.arguments)
    writer.arguments(place, item_id, FUNCTION, call.arguments, Step.CLOSES)
    status = "completed" if call.complete else "incomplete"
    writer.close(place, call_of(FUNCTION, item_id, call.id, call.name, call.arguments, status))


def _begun(fields: Json, whole: orjson.Fragment) -> Any:
    """An item as it opens: a text or a call without what comes of it later, any other as it is."""
    kind = fields["type"]
    if kind not in (MESSAGE, REASONING, *CALL_TEXTS):
        return whole
    begun: Json = {key: sanitize(fields[key]) for key in NAMES if isinstance(fields.get(key), str)}
    nothing: dict[str, Json] = {
        MESSAGE: {"status": "in_progress", "content": []},
        REASONING: {"summary": []},
    }
    return begun | (nothing.get(kind) or {"status": "in_progress", CALL_TEXTS[kind]: ""})


def _write_own(writer: EventWriter, own: Opaque) -> Json:
    """Write an item of this API: opened empty, grown by its texts, ended as it came. What is in it."""
    fields: Json = read_any(own.json)
    kind = fields["type"]
    whole = orjson.Fragment(verbatim(own))
    place = writer.open(_begun(fields, whole))
    item_id = id_of(fields) or ""
    for _, index, part_type, text in texts_of(fields, kind):
        writer.open_part(place, item_id, part_type, index)
        if text:
            writer.grow_part(place, item_id, part_type, index, text)
        writer.close_part(place, item_id, part_type, index, text)
    if kind in CALL_TEXTS:
        writer.arguments(place, item_id, kind, fields[CALL_TEXTS[kind]])
        writer.arguments(place, item_id, kind, fields[CALL_TEXTS[kind]], Step.CLOSES)
    writer.close(place, whole)
    return fields

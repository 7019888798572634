"""The events of a stream as a server writes them: numbered, named, each item opened, grown and ended (20 section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from svir_core.json_text import plain, sanitize
from svir_core.wire.json_value import Json
from svir_core.wire.openai_responses.table import CALL_EVENTS, CALL_TEXTS, FUNCTION, KINDS, MESSAGE, TEXT_EVENTS, Step

_PREFIXES: Final[Mapping[str, str]] = {MESSAGE: "msg", FUNCTION: "fc"}
"""How the id of an item begins; of reasoning: ``rs``."""

TEXT_NAMES: Final[Mapping[tuple[str, Step], tuple[str, str]]] = {
    (event.part, event.step): (name, event.key) for name, event in TEXT_EVENTS.items()
}
CALL_NAMES: Final[Mapping[tuple[str, Step], tuple[str, str]]] = {
    (event.item, event.step): (name, event.key) for name, event in CALL_EVENTS.items()
}
"""The event about a part or a call, and the key of its text."""


def part_of(part_type: str, text: str) -> Json:
    """A part of this type."""
    part: Json = {"type": part_type, KINDS[part_type].text: sanitize(text)}
    return part | {"annotations": [], "logprobs": []} if part_type == "output_text" else part


class EventWriter:
    """Writes one stream; ``taken`` gives what was written since.

    Attributes:
        output: the items that have ended, by their place.
    """

    __slots__ = ("_frame", "_next", "_number", "_written", "output")

    def __init__(self, model: str, id: str, created: int) -> None:
        self._frame: Json = {
            "id": sanitize(id),
            "object": "response",
            "created_at": created,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": sanitize(model),
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
        }
        self._number = 0
        self._next = 0
        self._written: list[bytes] = []
        self.output: dict[int, Any] = {}

    def taken(self) -> bytes:
        """The bytes since the last call."""
        data = b"".join(self._written)
        self._written.clear()
        return data

    def event(self, name: str, **fields: Any) -> None:
        """One event. What is an ``orjson.Fragment`` is written as it is."""
        data = orjson.dumps({"type": name, "sequence_number": self._number, **fields})
        self._written.append(b"event: " + name.encode() + b"\ndata: " + data + b"\n\n")
        self._number += 1

    def begin(self) -> None:
        """The response begins, once."""
        if not self._number:
            self.event("response.created", response=self._frame)
            self.event("response.in_progress", response=self._frame)

    def end(self, name: str, **fields: Any) -> None:
        """The response has ended, with these fields and all its items."""
        output = [self.output[index] for index in sorted(self.output)]
        self.event(name, response={**self._frame, "output": output, **fields})

    # --- items -----------------------------------------------------------------------------------

    def open(self, item: Any) -> int:
        """An item begins; its place."""
        index = self._next
        self._next += 1
        self.begin()
        self.event("response.output_item.added", output_index=index, item=item)
        return index

    def new_id(self, kind: str) -> str:
        """An id for the item that opens next: no other answer has it."""
        return f"{_PREFIXES.get(kind, 'rs')}_{self._frame['id']}_{self._next}"

    def close(self, index: int, item: Any) -> None:
        """An item has ended."""
        self.output[index] = item
        self.event("response.output_item.done", output_index=index, item=item)

    def open_part(self, index: int, item_id: str, part_type: str, place: int) -> None:
        """A part of an item begins."""
        kind = KINDS[part_type]
        name = "content_part" if kind.list == "content" else "reasoning_summary_part"
        where = {"item_id": item_id, "output_index": index, kind.index: place}
        self.event(f"response.{name}.added", **where, part=part_of(part_type, ""))

    def grow_part(self, index: int, item_id: str, part_type: str, place: int, text: str) -> None:
        """A piece of a part's text."""
        self._text(index, item_id, part_type, place, Step.GROWS, text)

    def close_part(self, index: int, item_id: str, part_type: str, place: int, text: str) -> None:
        """A part has ended, with all of its text."""
        self._text(index, item_id, part_type, place, Step.CLOSES, text)
        kind = KINDS[part_type]
        name = "content_part" if kind.list == "content" else "reasoning_summary_part"
        where = {"item_id": item_id, "output_index": index, kind.index: place}
        self.event(f"response.{name}.done", **where, part=part_of(part_type, text))

    def _text(self, index: int, item_id: str, part_type: str, place: int, step: Step, text: str) -> None:
        name, key = TEXT_NAMES[part_type, step]
        where: Json = {"item_id": item_id, "output_index": index, KINDS[part_type].index: place}
        logprobs: Json = {"logprobs": []} if part_type == "output_text" else {}
        self.event(name, **where, **{key: sanitize(text)}, **logprobs)

    def arguments(self, index: int, item_id: str, kind: str, text: str, step: Step = Step.GROWS) -> None:
        """A piece of what a call is called with, or all of it."""
        name, key = CALL_NAMES[kind, step]
        self.event(name, item_id=item_id, output_index=index, **{key: sanitize(text)})


def call_of(kind: str, item_id: str, call_id: str, name: str, text: str, status: str) -> Json:
    """A call as an item."""
    item = {"id": item_id, "type": kind, "status": status, "call_id": call_id, "name": name, CALL_TEXTS[kind]: text}
    clean: Json = plain(item, "a tool call")
    return clean

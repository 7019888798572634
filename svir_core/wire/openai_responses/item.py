"""One item of the output, and the neutral parts it becomes (20 sections 3.3, 7 and 9).

A message is a text, reasoning is reasoning, a call is a call, each with the whole item beside it; every other item
is kept as it is. An item that never ended is what came of it, with nothing beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from svir_core.message import Opaque, Part, Reasoning, Text
from svir_core.wire.json_value import Json
from svir_core.wire.openai_responses.call import Call
from svir_core.wire.openai_responses.finish import Told
from svir_core.wire.openai_responses.speech import Speech
from svir_core.wire.openai_responses.table import API_NAME, MESSAGE, RAW_SOURCE, SUMMARY_SOURCE, State

Key = tuple[int, int]
"""Where an item stands: its ``output_index``, and a place behind that one for items that were not streamed."""

Deliver = Callable[[str | None, str], None]
"""Takes the source, ``None`` for what is said, and the text."""


class Item:
    """One item.

    Attributes:
        key: where it stands.
        type: its type.
        id: its id, as first seen.
        fields: the item as it began, then as it ended.
        json: the whole item as it came; ``None`` before it ended.
        state: how far it is.
        live: whether its texts are delivered as they come; until then they are held, so that texts come in the order
            of their items.
        speech: its texts, when it is a message or reasoning.
        call: the call that it is.
    """

    __slots__ = ("_deliver", "_held", "call", "fields", "id", "json", "key", "live", "speech", "state", "type")

    def __init__(self, key: Key, kind: str, fields: Json, deliver: Deliver) -> None:
        self.key = key
        self.type = kind
        self.id: str | None = None
        self.fields = fields
        self.json: str | None = None
        self.state = State.OPEN
        self.live = True
        self.speech: Speech | None = None
        self.call: Call | None = None
        self._deliver = deliver
        self._held: list[tuple[str | None, str]] = []

    def say(self, source: str | None, text: str) -> None:
        """Deliver a text, or hold it until those of the items before have come."""
        if self.live:
            self._deliver(source, text)
        else:
            self._held.append((source, text))

    def go_live(self) -> None:
        """The items before have ended: deliver what was held."""
        self.live = True
        for source, text in self._held:
            self._deliver(source, text)
        self._held.clear()

    @property
    def speaks(self) -> bool:
        """Whether it brought a text or a call."""
        if self.speech is not None:
            return any(self.speech.text(source) for source in (None, SUMMARY_SOURCE, RAW_SOURCE))
        return self.call is not None

    @property
    def told(self) -> Told:
        """What it counts for."""
        refusals = [] if self.speech is None else self.speech.texts("refusal")
        texts = [] if self.speech is None else self.speech.texts("output_text")
        return Told(self.fields, any(refusals), any(texts))

    def parts(self, *, whole: bool) -> list[Part]:
        """What the item is, now that the answer has ended, ``whole`` or cut. Raises as ``Call.part`` does."""
        opaque = None if self.json is None else Opaque(API_NAME, self.json)
        if self.call is not None:
            return [self.call.part(opaque, cut=self.fields.get("status") == "incomplete", may_be_empty=whole)]
        if self.speech is None:
            return [] if opaque is None else [opaque]
        if self.type == MESSAGE:
            text = self.speech.text(None)
            return [Text(text, opaque)] if text or opaque else []
        return self._reasoning(self.speech, opaque)

    def _reasoning(self, speech: Speech, opaque: Opaque | None) -> list[Part]:
        """One part per source; the item stands beside the first. Hidden reasoning is an empty summary."""
        texts = [(source, speech.text(source)) for source in (SUMMARY_SOURCE, RAW_SOURCE)]
        said = [(source, text) for source, text in texts if text]
        if opaque is not None and not said:
            return [Reasoning(SUMMARY_SOURCE, "", opaque)]
        return [Reasoning(source, text, None if number else opaque) for number, (source, text) in enumerate(said)]

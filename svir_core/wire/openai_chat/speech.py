"""What a delta says in words: its texts by key, in the order they are read (10 sections 2 and 5, 11 section C).

Reasoning comes first, then content, then a refusal. Three quirks change what counts as text, and nothing
else does: ``CONTENT_PARTS`` takes content as a list, ``REASONING_DETAILS`` keeps ``reasoning_details`` and shows
their text where a delta has no other reasoning, ``CONTENT_CUMULATIVE`` takes what is new from each text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from svir_core.message import Opaque
from svir_core.quirk import Quirk
from svir_core.response import AnomalyCode
from svir_core.slow_json import HugeNumber, read_exact, read_numbers
from svir_core.wire.json_value import Json, is_array, is_object
from svir_core.wire.openai_chat.reasoning_details import DETAILS, Details
from svir_core.wire.openai_chat.repetition import GrowingTexts
from svir_core.wire.openai_chat.table import DELTA_KEYS, REASONING_KEYS, Move

Said = list[tuple[str, str]]
"""Texts that are not empty, each with the key it came under."""

TEXTS: Final = frozenset({*REASONING_KEYS, "content", "refusal"})

THINKING: Final = "thinking"
"""The source of reasoning that came as a part of the content; it is never sent back."""

REASONING: Final = Move.REASONING
SPOKEN: Final = {"content": Move.CONTENT, "refusal": Move.REFUSED}
"""The moves of texts; what stands under any other key is reasoning."""


class Speech:
    """Reads the texts of deltas.

    Args:
        forgive: called with what is wrong; raises in strict mode.
        again: the delta at hand, as a slow reader of JSON text reads it.
        quirks: the repairs that are on.
    """

    __slots__ = ("_again", "_details", "_forgive", "_growing", "_keys", "_parts")

    def __init__(
        self,
        forgive: Callable[[AnomalyCode], None],
        again: Callable[[Callable[[str], Any]], Json],
        quirks: Quirk,
    ) -> None:
        self._forgive = forgive
        self._again = again
        self._growing = GrowingTexts() if Quirk.CONTENT_CUMULATIVE in quirks else None
        self._details = Details(self._growing) if Quirk.REASONING_DETAILS in quirks else None
        self._parts = Quirk.CONTENT_PARTS in quirks
        self._keys = DELTA_KEYS if self._details is None else DELTA_KEYS | {DETAILS}

    def read(self, delta: Json) -> Said:
        """The texts of ``delta``. The same reasoning under two keys is one, under ``reasoning_content``."""
        found: dict[str, str] = {}
        unusual: dict[str, Said] | None = None
        for key, value in delta.items():
            if value is None:
                continue
            if type(value) is str and key in TEXTS:
                if value:
                    found[key] = value
            elif key != "tool_calls" and (key != "role" or type(value) is not str):
                unusual = unusual or {}
                unusual[key] = self._unusual(key, value)
        if unusual is None and len(found) < 2:
            return list(found.items())
        return self._in_order(found, unusual or {})

    def _unusual(self, key: str, value: Any) -> Said:
        """The texts under a key that is unknown, or under a known one whose value is no string."""
        if key not in self._keys:
            self._forgive(AnomalyCode.UNKNOWN_DELTA_KEY)
        elif key == "content":
            return self._unusual_content(value)
        elif key == DETAILS:
            return self._read_details(value)
        else:
            self._forgive(AnomalyCode.WRONG_TYPE)
        return []

    def _in_order(self, found: dict[str, str], unusual: dict[str, Said]) -> Said:
        if found.get("reasoning") == found.get("reasoning_content"):
            found.pop("reasoning", None)
        said: Said = [(key, found[key]) for key in REASONING_KEYS if key in found]
        said += () if said else unusual.get(DETAILS, ())
        said += unusual.get("content", ())
        said += [(key, found[key]) for key in ("content", "refusal") if key in found]
        return said

    def _unusual_content(self, value: Any) -> Said:
        if type(value) in (int, float, HugeNumber):
            self._forgive(AnomalyCode.NUMBER_AS_CONTENT)
            return [("content", str(self._again(read_numbers)["content"]))]
        if self._parts and is_array(value):
            return [text for part in value for text in self._part(part)]
        self._forgive(AnomalyCode.WRONG_TYPE)
        return []

    def _part(self, part: Any) -> Said:
        """One part of content: ``text``, or ``thinking`` with a text or parts of its own. Other types are like
        unknown keys: they belong to no text."""
        kind = part.get("type") if is_object(part) else None
        if kind == "text":
            texts = [part.get("text")]
        elif kind == THINKING:
            inner = part.get(THINKING)
            texts = [each.get("text") if is_object(each) else each for each in inner] if is_array(inner) else [inner]
        else:
            self._forgive(AnomalyCode.UNKNOWN_DELTA_KEY if isinstance(kind, str) else AnomalyCode.WRONG_TYPE)
            return []
        if not all(text is None or isinstance(text, str) for text in texts):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return []
        return [(THINKING if kind == THINKING else "content", text) for text in texts if text]

    def _read_details(self, value: Any) -> Said:
        if value == "":
            return []
        if self._details is None or not is_array(value) or not all(map(is_object, value)):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return []
        text = "".join([self._details.add(entry) for entry in self._again(read_exact)[DETAILS]])
        return [(DETAILS, text)] if text else []

    def new(self, said: Said) -> Said:
        """What of ``said`` was not said before. Raises ``ProtocolError`` when it does not repeat that."""
        if self._growing is None:
            return said
        whole: dict[str, str] = {}
        for key, text in said:
            whole[key] = whole.get(key, "") + text
        fresh = [(key, text if key == DETAILS else self._growing.new(key, text)) for key, text in whole.items()]
        return [(key, text) for key, text in fresh if text]

    def opaque(self) -> tuple[Opaque, ...]:
        """Continuation data, as parts of the answer."""
        return () if self._details is None else self._details.opaque()

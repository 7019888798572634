"""The blocks of an answer: what their events say, and the part that each becomes (21 sections 6, 9 and 12).

Three rules hold for all of it. Text, thinking and calls of the client are neutral parts; every other block is kept
whole, its deltas merged, and goes back in its place. What the API wants back of a neutral part is kept beside it: a
signature, citations, keys that nobody knows. Pieces are kept in lists and joined once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from svir_core.errors import ProtocolError
from svir_core.event import ToolCallDelta
from svir_core.json_text import sanitize
from svir_core.message import Opaque, Part, Reasoning, Text, ToolCall
from svir_core.slow_json import exact_text, read_any
from svir_core.wire.anthropic_messages.said import Said
from svir_core.wire.anthropic_messages.table import API_NAME, CALL, SOURCE, TEXT
from svir_core.wire.halves import Halves
from svir_core.wire.json_value import Json, is_array, is_object

Say = Callable[[str], None]

CITATIONS: Final = "citations"
SIGNATURE: Final = "signature"
INPUT: Final = "input"

CALL_KEYS: Final = frozenset({"type", "id", "name", INPUT})

EMPTY: Final = ("", "{}")
"""The inputs of a start, as JSON text, that say nothing."""


class Block(ABC):
    """One block.

    Attributes:
        kind: its type.
        place: how many blocks came before it.
        stopped: whether it has ended.
        left_open: whether nobody but the end of the answer ended it.
    """

    __slots__ = ("kind", "left_open", "place", "stopped")

    def __init__(self, kind: str, place: int) -> None:
        self.kind = kind
        self.place = place
        self.stopped = False
        self.left_open = False

    @abstractmethod
    def push(self, kind: str, delta: Said) -> None:
        """A delta of the type ``kind``, which fits this block."""

    def stop(self) -> None:
        """The block has ended."""
        self.stopped = True

    @abstractmethod
    def part(self, *, cut: bool) -> Part | None:
        """What the block is; ``None`` when it says nothing. ``cut``: more of it could have come."""


class Spoken(Block):
    """Text or thinking, said under a key that is the block's type: delivered as it comes.

    Attributes:
        delta: the type of the deltas that say more.
        pieces: what was delivered.
    """

    __slots__ = ("_fields", "_halves", "_say", "delta", "pieces")

    def __init__(self, kind: str, place: int, start: Said, say: Say) -> None:
        super().__init__(kind, place)
        self.delta = f"{kind}_delta"
        self.pieces: list[str] = []
        self._say = say
        self._halves = Halves()
        self._fields: Json = start.exact() if _has_more(start.fields, kind) else {"type": kind, kind: ""}
        self._speak(start.text(kind))

    @property
    def waits(self) -> bool:
        """Whether half a character is held back."""
        return self._halves.waiting

    def _speak(self, piece: str) -> None:
        piece = self._halves.push(piece)
        if piece:
            self.speak(piece)

    def speak(self, piece: str) -> None:
        """Deliver ``piece``, which is not empty and holds no half of a character, while none is held back."""
        self.pieces.append(piece)
        self._say(piece)

    def push(self, kind: str, delta: Said) -> None:
        """Another piece, a citation, or the signature."""
        if kind == "citations_delta":
            _cite(self._fields, delta)
        elif kind == "signature_delta":
            self._fields[SIGNATURE] = sanitize(delta.text(SIGNATURE))
        else:
            self._speak(delta.text(self.kind))

    def stop(self) -> None:
        """The block has ended: half a character stays half."""
        super().stop()
        if half := self._halves.finish():
            self.speak(half)

    def _beside(self, text: str) -> Opaque:
        return Opaque(API_NAME, exact_text({**self._fields, self.kind: text}))

    def part(self, *, cut: bool) -> Text | Reasoning | None:
        """The part, cut or not; ``None`` when nothing was said and there is nothing to send back. Thinking goes back
        only with its signature."""
        text = "".join(self.pieces)
        if self.kind == SOURCE:
            opaque = self._beside(text) if self._fields.get(SIGNATURE) else None
            return Reasoning(SOURCE, text, opaque) if text or opaque else None
        opaque = self._beside(text) if _has_more(self._fields, TEXT) else None
        return Text(text, opaque) if text or opaque else None


def _has_more(fields: Json, key: str) -> bool:
    """Whether a block says more than its type and what stands at ``key``."""
    return any(
        value is not None and value != "" and value != [] for name, value in fields.items() if name not in ("type", key)
    )


def _cite(fields: Json, delta: Said) -> None:
    """Add the citation of ``delta`` to those of a block."""
    if not is_array(fields.get(CITATIONS)):
        fields[CITATIONS] = []
    fields[CITATIONS].append(delta.exact().get("citation"))


class Call(Block):
    """A call of a tool of the client's.

    An empty ``input`` of the start is a placeholder for what fragments say; another one is the value, and fragments
    beside it are a second value.
    """

    __slots__ = ("_beside", "_call", "_fragments", "_halves", "_id", "_input", "_name", "_number")

    def __init__(self, place: int, start: Said, number: int, call: Callable[[ToolCallDelta], None]) -> None:
        super().__init__(CALL, place)
        self._id = named(start.fields, "id")
        self._name = named(start.fields, "name")
        self._number = number
        self._call = call
        self._fragments: list[str] = []
        self._halves = Halves()
        self._input = _placeholder(start)
        kept = {name for name, value in start.fields.items() if name not in CALL_KEYS and value is not None}
        self._beside: Json = {name: value for name, value in start.exact().items() if name in kept} if kept else {}
        call(ToolCallDelta(number, self._id, self._name, None))

    def push(self, kind: str, delta: Said) -> None:
        """Another fragment of the arguments."""
        fragment = delta.raw.get("partial_json")
        if fragment is not None and not isinstance(fragment, str):
            raise ProtocolError("a fragment of a tool call's arguments is not a string")
        self._add(self._halves.push(fragment or ""))

    def _add(self, fragment: str) -> None:
        if fragment:
            if self._input not in EMPTY:
                raise ProtocolError("the input of a tool call came whole and in fragments")
            self._fragments.append(fragment)
            self._call(ToolCallDelta(self._number, None, None, fragment))

    def stop(self) -> None:
        """The block has ended: without a fragment its arguments are those of its start."""
        super().stop()
        self._add(self._halves.finish())
        if not self._fragments and self._input:
            self._call(ToolCallDelta(self._number, None, None, self._input))

    def part(self, *, cut: bool) -> ToolCall:
        """The call. It is complete when it has ended and its arguments are a JSON object; an empty one that came as a
        placeholder is not when fragments could have followed."""
        arguments = "".join(self._fragments) or self._input
        empty = not self._fragments and self._input in EMPTY
        complete = not self.left_open and (not cut if empty else is_object(read_any(arguments)))
        opaque = Opaque(API_NAME, exact_text(self._beside)) if self._beside else None
        return ToolCall(self._id, self._name, arguments, complete=complete, opaque=opaque)


def named(fields: Json, key: str) -> str:
    """The ``id`` or the ``name`` of a call; ``ProtocolError`` without one."""
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise ProtocolError(f"a tool call has no {key}")
    return value


def _placeholder(start: Said) -> str:
    """The ``input`` of a start as JSON text: ``null``, ``""`` and a missing key are none."""
    value = start.fields.get(INPUT)
    if value is None or value == "":
        return ""
    if not is_object(value):
        raise ProtocolError("the input of a tool call is not an object")
    return exact_text(start.exact()[INPUT]) if value else "{}"


APPENDED: Final[Mapping[str, str]] = {"text_delta": TEXT, "thinking_delta": SOURCE, "input_json_delta": "partial_json"}
"""Deltas whose pieces are joined, and the key they stand under."""

REPLACED: Final[Mapping[str, tuple[str, ...]]] = {
    "signature_delta": (SIGNATURE,),
    "compaction_delta": ("content", "encrypted_content"),
}
"""Deltas whose last value is the value, and their keys."""


class Kept(Block):
    """A block that is no neutral part: kept whole, its deltas merged (21 section 12). Fragments of an input replace
    the one of the start: the server ran what it said last, and nobody here runs it."""

    __slots__ = ("_fields", "_pieces")

    def __init__(self, kind: str, place: int, start: Said) -> None:
        super().__init__(kind, place)
        self._fields: Json = start.exact()
        self._pieces: dict[str, list[str]] = {}

    def push(self, kind: str, delta: Said) -> None:
        """Merge a delta; one of a type that nobody knows cannot be merged, and changes nothing."""
        if kind in APPENDED:
            key = APPENDED[kind]
            self._pieces.setdefault(key, []).append(sanitize(delta.text(key)))
        elif kind in REPLACED:
            said = delta.exact()
            self._fields.update((key, said[key]) for key in REPLACED[kind] if key in said)
        elif kind == "citations_delta":
            _cite(self._fields, delta)

    def part(self, *, cut: bool) -> Opaque:
        """The block, as it is sent back. An input that was cut stays what the start had: no other is an object."""
        pieces = {key: "".join(each) for key, each in self._pieces.items()}
        arguments = pieces.pop("partial_json", "")
        for key, text in pieces.items():
            before = self._fields.get(key)
            self._fields[key] = (before if isinstance(before, str) else "") + text
        if not is_object(read_any(arguments)):
            return Opaque(API_NAME, exact_text(self._fields))
        whole = {key: exact_text(value) for key, value in self._fields.items()} | {INPUT: arguments}
        return Opaque(API_NAME, "{" + ",".join(f"{exact_text(key)}:{text}" for key, text in whole.items()) + "}")


def known_type(block: Json) -> str:
    """The type of a block; ``ProtocolError`` without one."""
    kind: Any = block.get("type")
    if not isinstance(kind, str) or not kind:
        raise ProtocolError("a block has no type")
    return kind

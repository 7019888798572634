"""The contents of a Gemini request: who speaks, in which order, and what goes back as it came.

Three rules hold for all of it. All results that follow an answer stand first, in one content of the user, in the order
of their calls, since the API may know a call by nothing but its place and its name. The bytes of a turn depend on that
turn and the calls before it alone, so that a longer conversation starts with the bytes of the shorter one; but an
answer with calls joins the answers right before it (which paused), since calls must follow what the user said. What the
API gave goes back byte for byte, and only here; what another API gave, and thoughts without a signature, stay at
home.
Source: 22 sections 3, 4, 6 and 13, 11-quirks section D.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from svir_core.body import BodyWriter, Measurements
from svir_core.errors import ConfigError, ProtocolError, UnsupportedError
from svir_core.json_text import sanitize, string
from svir_core.message import Image, Media, Message, Opaque, Part, Reasoning, Role, Text, TextFile, ToolCall, ToolResult
from svir_core.slow_json import exact_text, read_any, read_exact, without_lone_surrogates
from svir_core.wire.gemini.content import Content
from svir_core.wire.gemini.table import API_NAME, CALL, SIGNATURE
from svir_core.wire.json_value import is_object
from svir_core.wire.part import Piece, check_carried, check_said, joined

CARRIES: Final[Mapping[Role, tuple[type[Part], ...]]] = {
    Role.SYSTEM: (Text, TextFile),
    Role.USER: (Text, TextFile, Image, Media),
    Role.ASSISTANT: (Text, TextFile, Reasoning, ToolCall, Opaque),
    Role.TOOL: (ToolResult,),
}
"""The parts that each role may carry."""

HEADS: Final[Mapping[Role, bytes]] = {
    Role.USER: b'{"role":"user","parts":[',
    Role.ASSISTANT: b'{"role":"model","parts":[',
}

STAND_IN: Final = "skip_thought_signature_validator"
"""What the API takes in place of a signature that there never was (22 section 6)."""

Numbered = tuple[int, Message]


@attrs.frozen
class _Sent:
    """A call that was written: its number, its name, and its id where it was sent with one."""

    number: int
    name: str
    id: str | None


class Conversation:
    """Writes the conversation of one request.

    Raises ``UnsupportedError`` for a part the role cannot carry or the API cannot take, for a call whose arguments are
    no JSON object, a result without a call before it, and a conversation in which nothing is said, or nothing after the
    last answer; ``AttachmentError`` for an attachment that cannot be planned,
    and ``ConfigError`` for opaque data that is no JSON object.

    Attributes:
        content: what makes the parts, and counts images.
    """

    def __init__(self, writer: BodyWriter, measured: Measurements | None, *, skip_signatures: bool) -> None:
        self._writer = writer
        self._last: Role | None = None  # who spoke last in what was written
        self._waiting: list[list[Piece]] = []  # answers without calls that nothing of the user's followed yet
        self._skip_signatures = skip_signatures
        self._number = 0
        self._calls: dict[str, list[_Sent]] = {}  # by id, those that wait for a result; the last one stays
        self.content = Content(measured)

    def write(self, prompt: str | None, messages: Sequence[Message]) -> None:
        """The system prompt, with the system messages that lead, and then all other messages."""
        numbered = list(enumerate(messages))
        lead = next((number for number, message in numbered if message.role is not Role.SYSTEM), len(numbered))
        system = [] if prompt is None else [self.content.part(Text(prompt), "system")]
        for number, message in numbered[:lead]:
            system += self._parts(number, message)
        parts = joined([part for part in system if part], b",")
        if parts:
            self._writer.write(b'"systemInstruction":{"parts":[', *parts, b"]},")
        self._writer.write(b'"contents":[')
        replies: list[Numbered] = []
        for number, message in numbered[lead:]:
            if message.role is Role.ASSISTANT:
                self._replies(replies)
                replies.clear()
                self._answered(number, message)
            else:
                replies.append((number, message))
        self._replies(replies)
        self._release()
        check_said(self._last, bool(replies), "Gemini")
        self._writer.write(b"]")

    def _parts(self, number: int, message: Message) -> list[list[Piece]]:
        where = _place(number, message)
        return [self.content.part(part, f"{where}.parts[{place}]") for place, part in enumerate(message.parts)]

    def _replies(self, messages: Sequence[Numbered]) -> None:
        """What stands between two answers: results first, then whatever else was said. The API has no system message
        but the first: a later one is said by the user."""
        results: list[tuple[int, list[Piece]]] = []
        for number, message in messages:
            if message.role is Role.TOOL:
                results += self._results(number, message)
        self._turn(Role.USER, [pieces for _, pieces in sorted(results, key=lambda result: result[0])])
        for number, message in messages:
            if message.role is not Role.TOOL:
                self._turn(Role.USER, self._parts(number, message))

    def _turn(self, role: Role, parts: Iterable[list[Piece]]) -> None:
        """One content; one without a part is refused by the API, and says nothing."""
        pieces = joined([part for part in parts if part], b",")
        if pieces:
            self._release()
            self._write(role, pieces)

    def _write(self, role: Role, pieces: Iterable[Piece]) -> None:
        self._writer.write(b"" if self._last is None else b",", HEADS[role], *pieces, b"]}")
        self._last = role

    def _answered(self, number: int, message: Message) -> None:
        """An answer: one with calls goes out with those that wait for what comes after them."""
        pieces = joined([part for part in self._answer(number, message) if part], b",")
        if pieces:
            self._waiting.append(pieces)
        if any(isinstance(part, ToolCall) for part in message.parts):
            self._write(Role.ASSISTANT, joined(self._waiting, b","))
            self._waiting.clear()

    def _release(self) -> None:
        """No calls come behind the answers that wait."""
        for pieces in self._waiting:
            self._write(Role.ASSISTANT, pieces)
        self._waiting.clear()

    # --- results ---------------------------------------------------------------------------------

    def _results(self, number: int, message: Message) -> list[tuple[int, list[Piece]]]:
        where = _place(number, message)
        given = [(place, part) for place, part in enumerate(message.parts) if isinstance(part, ToolResult)]
        return [self._result(result, f"{where}.parts[{place}]") for place, result in given]

    def _result(self, result: ToolResult, where: str) -> tuple[int, list[Piece]]:
        """The number of its call, and the result."""
        calls = self._calls.get(result.call_id)
        if calls is None:
            raise UnsupportedError(f"{where}: Gemini wants the name of the call, and no call has this id")
        call = calls.pop(0) if len(calls) > 1 else calls[0]
        return call.number, self.content.result(result, call.name, call.id, where)

    # --- the model's turns -----------------------------------------------------------------------

    def _answer(self, number: int, message: Message) -> list[list[Piece]]:
        where = _place(number, message)
        stand_in = self._skip_signatures
        first = self._number
        parts: list[list[Piece]] = []
        for place, part in enumerate(message.parts):
            here = f"{where}.parts[{place}]"
            if isinstance(part, ToolCall):
                parts.append(self._call(part, here, first, stand_in=stand_in))
                stand_in = False
            else:
                parts.append(self._said(part, here))
        return parts

    def _said(self, part: Part, where: str) -> list[Piece]:
        """One part of an answer; nothing for what stays at home."""
        if isinstance(part, Opaque):
            return [_own(part, where).encode()] if part.api == API_NAME else []
        if isinstance(part, Text | Reasoning) and part.opaque is not None and part.opaque.api == API_NAME:
            own = _own(part.opaque, where)
            fields = read_any(own)
            is_thought = fields.get("thought") is True
            if fields.get("text") == part.text and is_thought is isinstance(part, Reasoning):
                return [own.encode()]
        return self.content.part(part, where)

    def _call(self, call: ToolCall, where: str, first: int, *, stand_in: bool) -> list[Piece]:
        """A call as it came, as long as it is the same; else as it is. ``first`` is the number of its turn's first:
        calls of one turn that share an id are answered in their order, those of earlier turns no more."""
        text = without_lone_surrogates(sanitize(call.arguments)) or "{}"
        if not is_object(read_any(text)):
            raise UnsupportedError(f"{where}: Gemini takes the arguments of a call as a JSON object alone")
        call_id = None if call.synthetic_id or not call.id else call.id
        own = None
        if call.opaque is not None and call.opaque.api == API_NAME:
            own = _own(call.opaque, where)
        if own is not None and is_call(own, call.name, text):
            part = read_any(own)
            given = part[CALL].get("id")
            call_id = given if isinstance(given, str) and given else None
            stand_in = stand_in and not part.get(SIGNATURE)
        else:
            head = "" if call_id is None else f'"id":{_string(call_id)},'
            own = f'{{"functionCall":{{{head}"name":{_string(call.name)},"args":{text}}}}}'
        if stand_in:
            own = f'{own[:-1]},"{SIGNATURE}":"{STAND_IN}"}}'
        twins = [sent for sent in self._calls.get(call.id, ()) if sent.number >= first]
        self._calls[call.id] = [*twins, _Sent(self._number, call.name, call_id)]
        self._number += 1
        return [own.encode()]


def _string(text: str) -> str:
    return string(text).decode()


def _place(number: int, message: Message) -> str:
    where = f"messages[{number}]"
    check_carried(message, CARRIES, where, "Gemini")
    return where


def _own(opaque: Opaque, where: str) -> str:
    """What this API gave, as it is sent back: the text of a JSON object."""
    text = without_lone_surrogates(sanitize(opaque.json)).strip()
    if not is_object(read_any(text)):
        raise ConfigError(f"{where}: opaque data of {API_NAME} must be a JSON object")
    return text


def is_call(own: str, name: str, arguments: str) -> bool:
    """Whether the part that came is still this call."""
    try:
        known: Any = read_exact(own).get(CALL)
        if not is_object(known) or known.get("name") != name:
            return False
        return exact_text(known.get("args") or {}) == exact_text(read_exact(arguments))
    except ProtocolError:  # nested too deep to be compared
        return False

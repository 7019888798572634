"""The messages of a request of Anthropic Messages: who speaks, in which order, and what goes back as it came.

Three rules hold for all of it. The results of an answer's calls stand first behind it, in one message of the user; the
result of any other call stays where it is. The bytes of a turn depend on that turn and those before it, so that a
longer conversation starts with the bytes of the shorter one: turns of one role that follow each other stay apart, and
the server joins them. What the API signed or marked goes back byte for byte, and only here; what another API gave, and
thinking without a signature, stay at home.
Source: 21 sections 3, 6 and 12, 11-quirks section D.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final

from svir_core.body import BodyWriter, Measurements
from svir_core.errors import ConfigError, UnsupportedError
from svir_core.json_text import sanitize, string
from svir_core.message import (
    CachePoint,
    Image,
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
)
from svir_core.slow_json import read_any, without_lone_surrogates
from svir_core.wire.anthropic_messages.content import Block, Content, listed, plain_block, written
from svir_core.wire.anthropic_messages.table import API_NAME, CALL, SOURCE, TEXT
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.part import Piece, check_carried, check_said, joined

CARRIES: Final[Mapping[Role, tuple[type[Part], ...]]] = {
    Role.SYSTEM: (Text, TextFile, CachePoint),
    Role.USER: (Text, TextFile, Image, Media, CachePoint),
    Role.ASSISTANT: (Text, TextFile, Reasoning, ToolCall, Opaque),
    Role.TOOL: (ToolResult, CachePoint),
}
"""The parts that each role may carry."""

ROLES: Final[Mapping[Role, bytes]] = {
    Role.SYSTEM: b'{"role":"system","content":',
    Role.USER: b'{"role":"user","content":',
    Role.ASSISTANT: b'{"role":"assistant","content":',
    Role.TOOL: b'{"role":"user","content":',
}
"""How a message of each role begins."""

API_CALLED: Final = "Anthropic Messages"

CALL_KEYS: Final = frozenset({"type", "id", "name", "input"})

Numbered = tuple[int, Message]


class Conversation:
    """Writes the conversation of one request.

    Raises ``UnsupportedError`` for a part the role cannot carry or the API cannot take, and for a conversation in which
    nothing is said, or nothing after the last answer; ``AttachmentError`` for an attachment that cannot be planned, and
    ``ConfigError`` for opaque data that is no JSON object.

    Attributes:
        content: what makes the blocks, and counts images and cache points.
    """

    def __init__(self, writer: BodyWriter, measured: Measurements | None) -> None:
        self._writer = writer
        self._last: Role | None = None  # who spoke last in what was written
        self.content = Content(measured)

    def write(self, prompt: str | None, messages: Sequence[Message]) -> None:
        """The system prompt, with the system messages that lead, and then all other messages."""
        numbered = list(enumerate(messages))
        lead = next((number for number, message in numbered if message.role is not Role.SYSTEM), len(numbered))
        self._system(prompt, numbered[:lead])
        self._writer.write(b',"messages":[')
        calls: set[str] = set()
        replies: list[Numbered] = []
        for number, message in numbered[lead:]:
            if message.role is Role.ASSISTANT:
                if replies:
                    self._replies(replies, calls)
                    replies.clear()
                    calls.clear()
                calls.update(part.id for part in message.parts if isinstance(part, ToolCall))
                self._turn(Role.ASSISTANT, self._answer(message, _place(number)))
            else:
                replies.append((number, message))
        self._replies(replies, calls)
        check_said(self._last, bool(replies), API_CALLED)
        self._writer.write(b"]")

    def _system(self, prompt: str | None, messages: Iterable[Numbered]) -> None:
        """A string; an array only where a cache point asks for one."""
        start = None if prompt is None else plain_block(prompt)
        blocks = [] if start is None else [start]
        for number, message in messages:
            blocks += self._blocks(number, message)
        if not blocks:
            return
        self._writer.write(b',"system":')
        if any(block.marked for block in blocks):
            self._writer.write(*listed(blocks))
        else:
            texts = [block.text for block in blocks if block.text is not None]
            self._writer.write(b'"', *joined(texts, b"\\n\\n"), b'"')

    def _blocks(self, number: int, message: Message) -> list[Block]:
        where = _place(number)
        check_carried(message, CARRIES, where, API_CALLED)
        return list(self.content.blocks(message, where))

    def _replies(self, messages: Sequence[Numbered], calls: Container[str]) -> None:
        """What stands between two answers: the results of the first one's ``calls``, then whatever else was said."""
        results: list[Block] = []
        others: list[Numbered] = []
        for number, message in messages:
            if _answers(message, calls):
                results += self._blocks(number, message)
            else:
                others.append((number, message))
        self._turn(Role.TOOL, results)
        for number, message in others:
            self._turn(message.role, self._blocks(number, message))

    def _turn(self, role: Role, blocks: Sequence[Block]) -> None:
        """One message; one without a block is refused by the API, and says nothing."""
        if blocks:
            self._writer.write(b"" if self._last is None else b",", ROLES[role], *written(blocks), b"}")
            self._last = role

    # --- the model's turns -----------------------------------------------------------------------

    def _answer(self, message: Message, where: str) -> list[Block]:
        check_carried(message, CARRIES, where, API_CALLED)
        self.content.ids.answer()
        blocks = [self._said(part, f"{where}.parts[{number}]") for number, part in enumerate(message.parts)]
        return [block for block in blocks if block is not None]

    def _said(self, part: Part, where: str) -> Block | None:
        """The block of one part of an answer; ``None`` for what stays at home."""
        if isinstance(part, ToolCall):
            return _call(part, self.content.ids.call(part.id), where)
        if isinstance(part, Opaque):
            return None if part.api != API_NAME else _verbatim(part, _fields(part, where))
        if isinstance(part, Reasoning):
            fields = _beside(part.opaque, where)
            signed = _says(fields, SOURCE, part.text) and fields.get("signature")
            return _verbatim(part.opaque, fields) if signed else None
        if isinstance(part, Text):
            fields = _beside(part.opaque, where)
            if _says(fields, TEXT, part.text):
                return _verbatim(part.opaque, fields)
        return self.content.block(part, where)


def _answers(message: Message, calls: Container[str]) -> bool:
    """Whether a message has a result of one of ``calls``."""
    return message.role is Role.TOOL and any(
        isinstance(part, ToolResult) and part.call_id in calls for part in message.parts
    )


def _place(number: int) -> str:
    return f"messages[{number}]"


def _fields(opaque: Opaque, where: str) -> Json:
    fields: Any = read_any(opaque.json)
    if not is_object(fields):
        raise ConfigError(f"{where}: opaque data of {API_NAME} must be a JSON object")
    return fields


def _beside(opaque: Opaque | None, where: str) -> Json:
    """What this API gave beside a part; nothing when it gave nothing, or another API did."""
    return _fields(opaque, where) if opaque is not None and opaque.api == API_NAME else {}


def _says(fields: Json, key: str, text: str) -> bool:
    """Whether a block still says what its part does: data beside a part that was changed no longer counts."""
    return fields.get("type") == key and fields.get(key) == text


def _clean(text: str) -> bytes:
    """JSON text, its lone surrogates made U+FFFD, as they stand and as escapes."""
    return without_lone_surrogates(sanitize(text)).encode()


def _members(opaque: Opaque, fields: Json) -> bytes:
    return _clean(opaque.json.strip()[1:-1]) if fields else b""


def _verbatim(opaque: Opaque | None, fields: Json) -> Block | None:
    """A block as the server gave it."""
    return None if opaque is None or not fields else Block([_members(opaque, fields)])


def _call(call: ToolCall, sent_id: str, where: str) -> Block:
    """A call, with the keys beside those of the API that the server gave it."""
    arguments = call.arguments or "{}"
    if not is_object(read_any(arguments)):
        raise UnsupportedError(f"{where}: Anthropic Messages carries no call whose arguments are not a JSON object")
    members: list[Piece] = [
        b'"type":"' + CALL.encode() + b'","id":' + string(sent_id),
        b',"name":' + string(call.name) + b',"input":' + _clean(arguments.strip()),
    ]
    fields = _beside(call.opaque, where)
    clash = ", ".join(repr(key) for key in sorted(CALL_KEYS.intersection(fields)))
    if clash:
        raise UnsupportedError(f"{where}: opaque data would replace {clash}")
    if call.opaque is not None and fields:
        members.append(b"," + _members(call.opaque, fields))
    return Block(members)

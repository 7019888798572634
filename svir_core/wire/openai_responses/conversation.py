"""The conversation of a request, as the items of ``input``: which parts a role may carry, and how each is written.

Three rules hold for all of it. A part that cannot be carried is refused by name and place before a byte is sent. An
item that came from this API goes back as it came, unless what stands beside it was changed or the id of its call was
used by an earlier answer; what came from another API stays at home. The bytes of a turn depend on the turns up to it,
so that a longer conversation starts with the bytes of the shorter one.
Source: 20 sections 3, 6 and 14, 11-quirks section D.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from svir_core.body import BodyWriter, Measurements
from svir_core.json_text import string
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
from svir_core.wire.call_ids import CallIds
from svir_core.wire.openai_responses.content import Content
from svir_core.wire.openai_responses.own import is_custom, own_item, verbatim
from svir_core.wire.openai_responses.table import CUSTOM, FUNCTION
from svir_core.wire.part import ImageCount, Piece, check_carried, joined

CARRIES: Final[Mapping[Role, tuple[type[Part], ...]]] = {
    Role.SYSTEM: (Text, TextFile, CachePoint),
    Role.USER: (Text, TextFile, Image, Media, CachePoint),
    Role.ASSISTANT: (Text, TextFile, Reasoning, ToolCall, Opaque),
    Role.TOOL: (ToolResult,),
}
"""The parts that each role may carry."""

ROLES: Final = {Role.SYSTEM: b'"developer"', Role.USER: b'"user"'}
"""What the roles of those who ask are called here. The request's own system prompt is ``instructions``."""


class Conversation:
    """Writes the items of one request, separated by commas.

    Attributes:
        empty: whether none was written yet.
        counted: the images so far, for admission.
    """

    def __init__(self, writer: BodyWriter, measured: Measurements | None) -> None:
        self._writer = writer
        self.empty = True
        self._ids = CallIds(str)
        self._custom: set[str] = set()  # the ids, as sent, of calls whose results are those of custom tools
        self.counted = ImageCount()
        self._content = Content(measured, self.counted)

    def message(self, message: Message, where: str) -> None:
        """One turn; each part of an answer, and each result, is an item.

        Raises ``UnsupportedError`` for a part the role cannot carry or the API cannot take,
        ``AttachmentError`` for an attachment that cannot be planned, and ``ConfigError`` for opaque
        data that is no item.
        """
        check_carried(message, CARRIES, where, "OpenAI Responses")
        if message.role is Role.ASSISTANT:
            self._answer(message, where)
        elif message.role is Role.TOOL:
            for number, result in enumerate(part for part in message.parts if isinstance(part, ToolResult)):
                self._result(result, f"{where}.parts[{number}]")
        else:
            self._question(message, where)

    def _item(self, *pieces: Piece) -> None:
        self._writer.write(b"{" if self.empty else b",{", *pieces, b"}")
        self.empty = False

    def _verbatim(self, opaque: Opaque) -> None:
        self._writer.write(b"" if self.empty else b",", verbatim(opaque))
        self.empty = False

    def _question(self, message: Message, where: str) -> None:
        role = ROLES[message.role]
        if all(isinstance(part, Text | TextFile) for part in message.parts):
            self._item(b'"role":', role, b',"content":', *self._content.text(message.parts, f"{where}.parts"))
        else:
            parts = self._content.parts(message.parts, f"{where}.parts", detail=True)
            self._item(b'"type":"message","role":', role, b',"content":', *parts)

    # --- answers ---------------------------------------------------------------------------------

    def _answer(self, message: Message, where: str) -> None:
        self._ids.answer()
        texts: list[list[Piece]] = []  # of the message that is being collected
        for number, part in enumerate(message.parts):
            place = f"{where}.parts[{number}]"
            own = own_item(part, place)
            if own is None and isinstance(part, Text | TextFile):
                texts += self._content.said(part, place)
                continue
            if own is not None or isinstance(part, ToolCall):
                self._say(texts)
            if isinstance(part, ToolCall):
                self._call(part, own, place)
            elif own is not None:
                self._verbatim(own)
        self._say(texts)

    def _say(self, texts: list[list[Piece]]) -> None:
        """What was said, that came from no item of this API, as one message."""
        if texts:
            start = b'"type":"message","role":"assistant","content":['
            self._item(start, *joined(texts, b","), b"]")
            texts.clear()

    def _call(self, call: ToolCall, own: Opaque | None, where: str) -> None:
        custom = is_custom(call, where)
        call_id = self._ids.call(call.id)
        if custom:
            self._custom.add(call_id)
        if own is not None and call_id == call.id:
            self._verbatim(own)
            return
        kind, key = (CUSTOM, b',"input":') if custom else (FUNCTION, b',"arguments":')
        arguments = call.arguments if custom else call.arguments or "{}"
        named = b',"call_id":' + string(call_id) + b',"name":' + string(call.name)
        self._item(b'"type":', string(kind), named, key, string(arguments))

    def _result(self, result: ToolResult, where: str) -> None:
        call_id = self._ids.result(result.call_id)
        kind = CUSTOM if call_id in self._custom else FUNCTION
        output = self._content.result(result, where)
        self._item(b'"type":', string(f"{kind}_output"), b',"call_id":', string(call_id), b',"output":', *output)

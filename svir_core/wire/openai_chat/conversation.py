"""The messages of a Chat Completions request: which parts a role may carry, and how each is written.

Three rules hold for all of it. A part that cannot be carried is refused by name and place before a
byte is sent. The bytes of a message depend on that message alone, so that a longer conversation
starts with the bytes of the shorter one. Continuation data of another API, and reasoning that nobody
asked to send, stay at home: a conversation may move between providers.
Source: 10-chat-completions sections 5 and 10, 11-quirks section D, 12-chat-extras section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import orjson

from svir_core.body import BodyWriter, Measurements, binary
from svir_core.errors import ConfigError, UnsupportedError
from svir_core.json_text import inside, plain, string
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
    UrlSource,
)
from svir_core.slow_json import read_any
from svir_core.wire.openai_chat.table import API_NAME, REASONING_KEYS
from svir_core.wire.part import NAMES, ImageCount, Piece, check_carried, file_in_prompt, joined, media_type

CARRIES: Final[Mapping[Role, tuple[type[Part], ...]]] = {
    Role.SYSTEM: (Text, TextFile, CachePoint),
    Role.USER: (Text, TextFile, Image, Media, CachePoint),
    Role.ASSISTANT: (Text, TextFile, Reasoning, ToolCall, Opaque),
    Role.TOOL: (ToolResult,),
}
"""The parts that each role may carry."""

AUDIO_FORMATS: Final = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
"""The audio that ``input_audio`` takes (12 section 2)."""

PDF: Final = "application/pdf"

PDF_NAME: Final = "document.pdf"
"""``file`` wants a file name, and a PDF in memory may have none."""

IMAGE_SCHEMES: Final = ("https:", "http:", "data:")
"""The URLs that ``image_url`` takes."""

CACHE_TIMES: Final = frozenset({"30m", "12h"})
"""How long a cache point may ask for (12 section 1)."""

BLANK_LINE: Final = b"\\n\\n"
"""What stands between texts, as it is written inside a JSON string."""


def _fields(opaque: Opaque, where: str) -> dict[str, Any]:
    """What ``opaque`` adds to an object."""
    fields = read_any(opaque.json)
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}: opaque data of {API_NAME} must be a JSON object")
    return cast("dict[str, Any]", fields)


def _only_new(fields: Iterable[str], taken: Iterable[str], where: str) -> None:
    clash = ", ".join(repr(key) for key in sorted(set(fields).intersection(taken)))
    if clash:
        raise UnsupportedError(f"{where}: opaque data would replace {clash}")


def _dumped(fields: Mapping[str, Any], where: str) -> bytes:
    """``fields`` as further members of an object that has some already."""
    return b"," + orjson.dumps(plain(fields, where))[1:-1] if fields else b""


def _breakpoint(part: CachePoint, where: str) -> bytes:
    """The member that marks a block."""
    if part.ttl is None:
        return b',"prompt_cache_breakpoint":{"mode":"explicit"}'
    if part.ttl not in CACHE_TIMES:
        times = " or ".join(repr(time) for time in sorted(CACHE_TIMES))
        raise UnsupportedError(f"{where}: Chat Completions caches for {times}")
    return b',"prompt_cache_breakpoint":{"mode":"explicit","ttl":' + string(part.ttl) + b"}"


class Conversation:
    """Writes the messages of one request, separated by commas; ``counted`` are its images, for admission."""

    def __init__(
        self, writer: BodyWriter, measured: Measurements | None, *, system_role: str, send_reasoning: bool
    ) -> None:
        self._writer = writer
        self._measured = measured
        self._roles = {role: string(role.value) for role in Role} | {Role.SYSTEM: string(system_role)}
        self._send_reasoning = send_reasoning
        self._first = True
        self.counted = ImageCount()

    def system(self, prompt: str) -> None:
        """The request's system prompt."""
        self._open(Role.SYSTEM)
        self._writer.write(b',"content":', string(prompt), b"}")

    def message(self, message: Message, where: str) -> None:
        """One turn; the results of calls are one message each.

        Raises ``UnsupportedError`` for a part the role cannot carry or the API cannot take,
        ``AttachmentError`` for an attachment that cannot be planned, and ``ConfigError`` for opaque
        data that is no JSON object.
        """
        check_carried(message, CARRIES, where, "Chat Completions")
        if message.role is Role.TOOL:
            self._results(message, where)
            return
        self._open(message.role)
        self._content(message, where)
        if message.role is Role.ASSISTANT:
            self._answer(message, where)
        self._writer.write(b"}")

    def _open(self, role: Role) -> None:
        self._writer.write(b'{"role":' if self._first else b',{"role":', self._roles[role])
        self._first = False

    # --- content ---------------------------------------------------------------------------------

    def _content(self, message: Message, where: str) -> None:
        """A plain string; an array only when there is an image, a media file or a cache point."""
        if any(isinstance(part, CachePoint) for part in message.parts):
            self._writer.write(b',"content":[{', *joined(self._marked(message, where), b"},{"), b"}]")
            return
        texts: list[Sequence[Piece]] = []
        others: list[Sequence[Piece]] = []
        for number, part in enumerate(message.parts):
            place = f"{where}.parts[{number}]"
            if isinstance(part, Text) and part.text:
                texts.append([inside(part.text)])
            elif isinstance(part, TextFile):
                texts.append(file_in_prompt(part, place, self._measured))
            elif isinstance(part, Image):
                others.append(self._image(part, place))
            elif isinstance(part, Media):
                others.append(self._media(part, place))
        whole = [b'"', *joined(texts, BLANK_LINE), b'"']
        if not others:
            self._writer.write(b',"content":', *whole)
            return
        if texts:
            others.insert(0, [b'"type":"text","text":', *whole])
        self._writer.write(b',"content":[{', *joined(others, b"},{"), b"}]")

    def _marked(self, message: Message, where: str) -> list[list[Piece]]:
        """The parts as one block each, in order, so that a cache point marks exactly what stands before it."""
        blocks: list[list[Piece]] = []
        before: Part | None = None
        for number, part in enumerate(message.parts):
            place = f"{where}.parts[{number}]"
            if isinstance(part, CachePoint):
                if before is None or isinstance(before, CachePoint):
                    raise UnsupportedError(f"{place}: a cache point needs a part before it in its message")
                blocks[-1].append(_breakpoint(part, place))
            elif isinstance(part, Text) and part.text:
                blocks.append([b'"type":"text","text":"', inside(part.text), b'"'])
            elif isinstance(part, TextFile):
                blocks.append([b'"type":"text","text":"', *file_in_prompt(part, place, self._measured), b'"'])
            elif isinstance(part, Image):
                blocks.append(self._image(part, place))
            elif isinstance(part, Media):
                blocks.append(self._media(part, place))
            else:
                continue
            before = part
        return blocks

    def _image(self, part: Image, where: str) -> list[Piece]:
        self.counted.images += 1
        if isinstance(part.source, UrlSource):
            if not part.source.url.lower().startswith(IMAGE_SCHEMES):
                raise UnsupportedError(f"{where}: an image URL must be https, http or data")
            url: list[Piece] = [inside(part.source.url)]
        else:
            attachment = binary(part.source, where, self._measured)
            self.counted.image_bytes += attachment.length
            url = [inside(f"data:{media_type(part, where)};base64,"), attachment]
        return [b'"type":"image_url","image_url":{"url":"', *url, b'"}']

    def _media(self, part: Media, where: str) -> list[Piece]:
        kind = media_type(part, where).lower()
        audio = AUDIO_FORMATS.get(kind)
        if audio is None and kind != PDF:
            raise UnsupportedError(f"{where}: Chat Completions takes WAV, MP3 and PDF, not {kind!r}")
        attachment = binary(part.source, where, self._measured)
        if audio is not None:
            end = b'","format":' + string(audio) + b"}"
            return [b'"type":"input_audio","input_audio":{"data":"', attachment, end]
        name = string(part.name or PDF_NAME)
        start = b'"type":"file","file":{"filename":' + name + b',"file_data":"data:application/pdf;base64,'
        return [start, attachment, b'"}']

    # --- the model's turns -----------------------------------------------------------------------

    def _answer(self, message: Message, where: str) -> None:
        """What an answer has beside its text: reasoning when asked for, opaque members, calls."""
        taken = {"role", "content", "tool_calls", *REASONING_KEYS}
        calls: list[bytes] = []
        members: list[bytes] = []
        reasoning: dict[str, list[str]] = {}
        for number, part in enumerate(message.parts):
            place = f"{where}.parts[{number}]"
            opaque = part if isinstance(part, Opaque) else None
            if isinstance(part, ToolCall):
                calls.append(self._call(part, place))
            elif isinstance(part, Reasoning) and self._send_reasoning:
                reasoning.setdefault(part.source, []).append(part.text)
                opaque = part.opaque
            if opaque is not None and opaque.api == API_NAME:
                fields = _fields(opaque, place)
                _only_new(fields, taken, place)
                taken.update(fields)
                if fields:
                    members.append(b"," + opaque.json.strip()[1:-1].encode())
        for source, pieces in reasoning.items():
            whole = "".join(pieces)
            if source in REASONING_KEYS and whole:  # from markers in the text nothing goes back (10 section 5)
                self._writer.write(b",", string(source), b":", string(whole))
        self._writer.write(*members)
        if calls:
            self._writer.write(b',"tool_calls":[', b",".join(calls), b"]")

    def _call(self, call: ToolCall, where: str) -> bytes:
        """A call, with the keys beside those of the API that the server gave it or its ``function``."""
        beside: dict[str, Any] = {}
        inner: Any = {}
        if call.opaque is not None and call.opaque.api == API_NAME:
            beside = _fields(call.opaque, where)
            if isinstance(beside.get("function"), dict):
                inner = beside.pop("function")
            _only_new(beside, ("id", "type", "function"), where)
            _only_new(inner, ("name", "arguments"), where)
        function = b'{"name":' + string(call.name) + b',"arguments":' + string(call.arguments or "{}")
        function += _dumped(inner, where) + b"}"
        return (
            b'{"id":' + string(call.id) + b',"type":"function","function":' + function + _dumped(beside, where) + b"}"
        )

    # --- results ---------------------------------------------------------------------------------

    def _results(self, message: Message, where: str) -> None:
        for number, result in enumerate(part for part in message.parts if isinstance(part, ToolResult)):
            content = self._result(result, f"{where}.parts[{number}]")
            self._open(Role.TOOL)
            self._writer.write(b',"tool_call_id":', string(result.call_id), b',"content":', string(content), b"}")

    def _result(self, result: ToolResult, where: str) -> str:
        if isinstance(result.content, str):
            content = result.content
        else:
            texts: list[str] = []
            for number, part in enumerate(result.content):
                if not isinstance(part, Text):
                    raise UnsupportedError(
                        f"{where}.content[{number}]: a tool result cannot carry {NAMES[type(part)]} in Chat Completions"
                    )
                if part.text:
                    texts.append(part.text)
            content = "\n\n".join(texts)
        return f"error: {content}" if result.is_error else content

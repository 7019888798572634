"""The parts of a message as Gemini takes them: text, files, results (22 section 3).

One neutral part is one part of the wire, in its place; an empty text is none.
"""

from __future__ import annotations

from typing import Final

from svir_core.body import Measurements, binary
from svir_core.errors import UnsupportedError
from svir_core.json_text import inside, string
from svir_core.message import Image, Media, Part, Text, TextFile, ToolResult, UrlSource
from svir_core.wire.part import ImageCount, Piece, file_in_prompt, joined, media_type

URI_SCHEMES: Final = ("https:", "http:", "gs:")
"""What ``fileData`` takes: files of the API are named by an https URL too."""

BLANK_LINE: Final = b"\\n\\n"
"""What stands between the texts of one result, as it is written inside a JSON string."""


class Content:
    """Writes parts of one request; ``counted`` are its images, for admission."""

    __slots__ = ("_measured", "counted")

    def __init__(self, measured: Measurements | None) -> None:
        self._measured = measured
        self.counted = ImageCount()

    def part(self, part: Part, where: str) -> list[Piece]:
        """A text or a file, as a part; nothing for an empty text."""
        if isinstance(part, Text):
            return [b'{"text":', string(part.text), b"}"] if part.text else []
        if isinstance(part, TextFile):
            return [b'{"text":"', *file_in_prompt(part, where, self._measured), b'"}']
        if isinstance(part, Image | Media):
            return self._file(part, where)
        return []

    def _file(self, part: Image | Media, where: str) -> list[Piece]:
        if isinstance(part, Image):
            self.counted.images += 1
        source = part.source
        if isinstance(source, UrlSource):
            if not source.url.lower().startswith(URI_SCHEMES):
                raise UnsupportedError(f"{where}: a URL must be https, http or gs")
            kind = b'"mimeType":' + string(part.media_type) + b"," if part.media_type else b""
            return [b'{"fileData":{', kind, b'"fileUri":', string(source.url), b"}}"]
        attachment = binary(source, where, self._measured)
        if isinstance(part, Image):
            self.counted.image_bytes += attachment.length
        head = b'{"inlineData":{"mimeType":' + string(media_type(part, where)) + b',"data":"'
        return [head, attachment, b'"}}']

    def result(self, result: ToolResult, name: str, call_id: str | None, where: str) -> list[Piece]:
        """The result of a call of ``name``, by the id that the call was sent with. Its texts are one string, whatever
        they hold; its files stand beside it."""
        content = (Text(result.content),) if isinstance(result.content, str) else result.content
        texts: list[list[Piece]] = []
        files: list[list[Piece]] = []
        for number, part in enumerate(content):
            place = where if isinstance(result.content, str) else f"{where}.content[{number}]"
            if isinstance(part, Text):
                if part.text:
                    texts.append([inside(part.text)])
            elif isinstance(part, TextFile):
                texts.append(file_in_prompt(part, place, self._measured))
            else:
                files.append(self._file(part, place))
        head = b"" if call_id is None else b'"id":' + string(call_id) + b","
        key = b"error" if result.is_error else b"output"
        beside = [b',"parts":[', *joined(files, b","), b"]"] if files else []
        return [
            b'{"functionResponse":{' + head + b'"name":' + string(name) + b',"response":{"' + key + b'":"',
            *joined(texts, BLANK_LINE),
            b'"}',
            *beside,
            b"}}",
        ]

"""The content of items: texts, images and files, as a plain string where there is only text (20 section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svir_core.body import Measurements, binary
from svir_core.errors import UnsupportedError
from svir_core.json_text import inside, string
from svir_core.message import CachePoint, Image, Media, Part, Text, TextFile, ToolResult, UrlSource
from svir_core.wire.part import ImageCount, Piece, file_in_prompt, joined, media_type

PDF: Final = "application/pdf"

PDF_NAME: Final = "document.pdf"
"""``input_file`` wants a file name beside its data, and a PDF in memory may have none."""

IMAGE_SCHEMES: Final = ("https:", "http:", "data:")
FILE_SCHEMES: Final = ("https:", "http:")
"""The URLs that ``image_url`` and ``file_url`` take."""

CACHE_TIMES: Final = frozenset({"30m", "12h"})
"""How long a cache point may ask for (20 section 2)."""

BLANK_LINE: Final = b"\\n\\n"
"""What stands between texts, as it is written inside a JSON string."""

IN_ERROR: Final = "error: "
"""What the API, which has no word for it, is told of a result that is an error."""


class Content:
    """Writes the content of one request's items; ``counted`` are its images, for admission."""

    __slots__ = ("_counted", "_measured")

    def __init__(self, measured: Measurements | None, counted: ImageCount) -> None:
        self._measured = measured
        self._counted = counted

    def text(self, parts: Sequence[Part], where: str, before: str = "") -> list[Piece]:
        """Texts and text files as one string, a blank line between them."""
        texts = [self._inside(part, f"{where}[{number}]") for number, part in enumerate(parts)]
        return [b'"', inside(before), *joined([text for text in texts if text], BLANK_LINE), b'"']

    def said(self, part: Text | TextFile, where: str) -> list[list[Piece]]:
        """A text of the model's, as a part of its message; none when it is empty."""
        text = self._inside(part, where)
        return [[b'{"type":"output_text","text":"', *text, b'","annotations":[]}']] if text else []

    def parts(self, parts: Sequence[Part], where: str, *, detail: bool, before: str = "") -> list[Piece]:
        """Parts in their order, as an array. A cache point marks the part before it."""
        written: list[list[Piece]] = [[b'"type":"input_text","text":', string(before)]] if before else []
        last: Part | None = None
        for number, part in enumerate(parts):
            place = f"{where}[{number}]"
            if isinstance(part, CachePoint):
                if last is None or isinstance(last, CachePoint):
                    raise UnsupportedError(f"{place}: a cache point needs a part before it in its message")
                written[-1].append(_breakpoint(part, place))
            elif isinstance(part, Image):
                written.append(self._image(part, place, detail=detail))
            elif isinstance(part, Media):
                written.append(self._file(part, place))
            elif text := self._inside(part, place):
                written.append([b'"type":"input_text","text":"', *text, b'"'])
            else:
                continue
            last = part
        return [b"[", *(joined([[b"{", *part, b"}"] for part in written], b",")), b"]"]

    def result(self, result: ToolResult, where: str) -> list[Piece]:
        """What a call gave."""
        before = IN_ERROR if result.is_error else ""
        if isinstance(result.content, str):
            return [string(before + result.content)]
        place = f"{where}.content"
        if all(isinstance(part, Text | TextFile) for part in result.content):
            return self.text(result.content, place, before)
        return self.parts(result.content, place, detail=False, before=before)

    def _inside(self, part: Part, where: str) -> list[Piece]:
        """A text, or a text file under its name, as it stands inside a JSON string; nothing for an empty text."""
        if isinstance(part, TextFile):
            return file_in_prompt(part, where, self._measured)
        return [inside(part.text)] if isinstance(part, Text) and part.text else []

    def _image(self, part: Image, where: str, *, detail: bool) -> list[Piece]:
        self._counted.images += 1
        if isinstance(part.source, UrlSource):
            if not part.source.url.lower().startswith(IMAGE_SCHEMES):
                raise UnsupportedError(f"{where}: an image URL must be https, http or data")
            url: list[Piece] = [inside(part.source.url)]
        else:
            attachment = binary(part.source, where, self._measured)
            self._counted.image_bytes += attachment.length
            url = [inside(f"data:{media_type(part, where)};base64,"), attachment]
        start = b'"type":"input_image","detail":"auto",' if detail else b'"type":"input_image",'
        return [start, b'"image_url":"', *url, b'"']

    def _file(self, part: Media, where: str) -> list[Piece]:
        kind = media_type(part, where).lower()
        if kind != PDF:
            raise UnsupportedError(f"{where}: OpenAI Responses takes PDF, not {kind!r}")
        if isinstance(part.source, UrlSource):
            if not part.source.url.lower().startswith(FILE_SCHEMES):
                raise UnsupportedError(f"{where}: the URL of a file must be https or http")
            return [b'"type":"input_file","file_url":', string(part.source.url)]
        name = string(part.name or PDF_NAME)
        start = b'"type":"input_file","filename":' + name + b',"file_data":"data:application/pdf;base64,'
        return [start, binary(part.source, where, self._measured), b'"']


def _breakpoint(part: CachePoint, where: str) -> bytes:
    """The member that marks a part."""
    if part.ttl is None:
        return b',"prompt_cache_breakpoint":{"mode":"explicit"}'
    if part.ttl not in CACHE_TIMES:
        times = " or ".join(repr(time) for time in sorted(CACHE_TIMES))
        raise UnsupportedError(f"{where}: OpenAI Responses caches for {times}")
    return b',"prompt_cache_breakpoint":{"mode":"explicit","ttl":' + string(part.ttl) + b"}"

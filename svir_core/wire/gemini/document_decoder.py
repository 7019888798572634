"""A body that was not streamed: the response of ``generateContent``, or the array that ``streamGenerateContent`` writes
without ``alt=sse``.

Three rules hold for all of it. A document is the chunks it amounts to, so that every rule of a chunk and every failure
shape is the stream's own; only that it *is* a document deviates from nothing here. A document that is cut is a
truncated stream. What is no document is refused in both modes.
Source: 22 sections 1 and 7, 11-quirks section B.
"""

from __future__ import annotations

from typing import Any

from svir_core.errors import TruncatedStreamError, UnsupportedError
from svir_core.limits import Limits
from svir_core.opening import BOM, Judged, Shape
from svir_core.response import AnomalyCode, Completion
from svir_core.slow_json import Nesting
from svir_core.wire.api import Mode
from svir_core.wire.gemini.decode import Decoder


class DocumentDecoder(Decoder):
    """One answer as a document. The same options, methods and events as :class:`Decoder`.

    Ends with ``TruncatedStreamError`` for an empty body and a document that is cut, with the error of a failure in its
    place, with ``UnsupportedError`` for a page, a stream, and JSON that is no answer, and with what a stream of the
    same content would end with. Bytes after the document are not read.
    """

    __slots__ = ()

    def _open(self, judged: Judged | None) -> bytes:
        if judged is None or judged.shape is not Shape.STREAM:
            return super()._open(judged)
        self._opening = None
        self._offset = judged.offset
        if judged.data.strip() and not BOM.startswith(judged.data):
            raise UnsupportedError("the body is no JSON, where a document was asked for")
        return b""

    def _document(self, document: Any) -> bool:
        if document is None and Nesting().push(self._payload) is None:
            raise TruncatedStreamError("the input ended before the document did", offset=self.bytes_seen)
        return super()._document(document)

    def _forgive(self, code: AnomalyCode) -> None:
        if code is not AnomalyCode.WHOLE_DOCUMENT:
            super()._forgive(code)


def decode_document(
    data: bytes | bytearray | memoryview,
    *,
    mode: Mode | str = Mode.STRICT,
    limits: Limits | None = None,
    extra: bool = False,
) -> Completion:
    """The answer in ``data``, the whole body of a response that was not streamed, with a success status.

    Raises what a :class:`DocumentDecoder` ends with; push to one for the events.
    """
    decoder = DocumentDecoder(mode=mode, limits=limits, extra=extra)
    decoder.push(data)
    if not decoder.done:
        decoder.finish()
    return decoder.result()

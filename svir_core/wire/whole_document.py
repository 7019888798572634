"""A body that was asked for with ``stream: false``: one JSON document, decoded by the rules of the stream.

Three rules hold for all of it. A document is the events it amounts to, so that every rule of an event and every
failure shape is the stream's own; only that it *is* a document deviates from nothing here. A document that is cut is
a truncated stream. What is no document is refused in both modes: a caller who is streamed to has asked, or was
answered, by mistake.
Source: 10 section 7, 11 section A.
"""

from __future__ import annotations

from svir_core.errors import TruncatedStreamError, UnsupportedError
from svir_core.opening import BOM, Judged, Shape
from svir_core.response import AnomalyCode, Completion
from svir_core.slow_json import Nesting
from svir_core.wire.stream import StreamDecoder


class WholeDocument(StreamDecoder):
    """Put before a wire API's decoder, among the bases of its ``DocumentDecoder``.

    Ends with ``TruncatedStreamError`` for an empty body and a document that is cut, with what a failure in its place
    means, with ``UnsupportedError`` for a page, a stream, and JSON that is no answer, and with what a stream of the
    same content would end with. Bytes after the document are not read.
    """

    __slots__ = ()

    def _open(self, judged: Judged | None) -> bytes:
        if judged is not None:
            self._offset = judged.offset
            if judged.shape is Shape.DOCUMENT and Nesting().push(judged.data) is None:
                raise TruncatedStreamError("the input ended before the document did", offset=self.bytes_seen)
            if judged.shape is Shape.STREAM:
                self._opening = None
                if judged.data.strip() and not BOM.startswith(judged.data):
                    raise UnsupportedError("the body is no JSON, where a document was asked for")
                return b""
        return super()._open(judged)

    def _forgive(self, code: AnomalyCode) -> None:
        if code is not AnomalyCode.WHOLE_DOCUMENT:
            super()._forgive(code)


def whole(decoder: WholeDocument, data: bytes | bytearray | memoryview) -> Completion:
    """The answer in ``data``, the whole body; raises what ``decoder``, which is fresh, ends with."""
    decoder.push(data)
    if not decoder.done:
        decoder.finish()
    return decoder.result()

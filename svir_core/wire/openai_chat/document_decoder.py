"""A body that was asked for with ``stream: false``: one JSON document, decoded by the rules of the stream.

Three rules hold for all of it. A document is the one chunk it amounts to, so that every rule of a chunk, every quirk
and every failure shape is the stream's own; only that it *is* a document deviates from nothing here. A document that
is cut is a truncated stream. What is no document is refused in both modes: a caller who is streamed to has asked, or
was answered, by mistake.
Source: 10-chat-completions sections 2 to 9, 11-quirks sections A and B.
"""

from __future__ import annotations

from typing import Any, Final

from svir_core.errors import TruncatedStreamError, UnsupportedError
from svir_core.limits import Limits
from svir_core.opening import BOM, Judged, Shape
from svir_core.quirk import NONE, Quirk
from svir_core.response import AnomalyCode, Completion
from svir_core.slow_json import Nesting
from svir_core.think import Think
from svir_core.wire.api import Mode
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.openai_chat.decode import Decoder

MESSAGE_KEYS: Final = frozenset({"annotations", "audio", "function_call"})
"""Keys of a message that a delta does not have. OpenAI and vLLM send them empty with every document."""


class DocumentDecoder(Decoder):
    """One answer as a document. The same options, methods and events as :class:`Decoder`, so that an HTTP stack or a
    proxy can drive either: push bytes in any pieces, iterate what comes back, then ``finish()``.

    Ends with ``TruncatedStreamError`` for an empty body and a document that is cut, ``ServerError`` or
    ``ContextOverflowError`` for a failure in its place, ``UnsupportedError`` for a page, a stream, and JSON that is
    no answer, and with what a stream of the same content would end with. Bytes after the document are not read.
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

    def _chunk(self, chunk: Json) -> None:
        super()._chunk({**chunk, "choices": [_without_empty_keys(choice) for choice in chunk["choices"]]})


def _without_empty_keys(choice: Any) -> Any:
    delta = choice.get("delta") if is_object(choice) else None
    if not is_object(delta):
        return choice
    kept = {key: value for key, value in delta.items() if value or key not in MESSAGE_KEYS}
    return {**choice, "delta": kept}


def decode_document(
    data: bytes | bytearray | memoryview,
    *,
    mode: Mode | str = Mode.STRICT,
    think: Think | str = "split",
    limits: Limits | None = None,
    extra: bool = False,
    quirks: Quirk = NONE,
) -> Completion:
    """The answer in ``data``, the whole body of a ``stream: false`` response with a success status.

    Raises what a :class:`DocumentDecoder` ends with; push to one for the events.
    """
    decoder = DocumentDecoder(mode=mode, think=think, limits=limits, extra=extra, quirks=quirks)
    decoder.push(data)
    if not decoder.done:
        decoder.finish()
    return decoder.result()

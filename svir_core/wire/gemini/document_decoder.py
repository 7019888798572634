"""A body that was not streamed: the response of ``generateContent``, or the array that ``streamGenerateContent`` writes
without ``alt=sse``.

Three rules hold for all of it. A document is the chunks it amounts to, so that every rule of a chunk and every failure
shape is the stream's own; only that it *is* a document deviates from nothing here. A document that is cut is a
truncated stream. What is no document is refused in both modes.
Source: 22 sections 1 and 7, 11-quirks section B.
"""

from __future__ import annotations

from svir_core.limits import Limits
from svir_core.response import Completion
from svir_core.wire.api import Mode
from svir_core.wire.gemini.decode import Decoder
from svir_core.wire.whole_document import WholeDocument, whole


class DocumentDecoder(WholeDocument, Decoder):
    """One answer as a document. The same options, methods and events as :class:`Decoder`; ends as
    :class:`WholeDocument` says."""

    __slots__ = ()


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
    return whole(DocumentDecoder(mode=mode, limits=limits, extra=extra), data)

"""A body that was asked for with ``stream: false``: one response, decoded by the rules of a stream's last event
(20 sections 7 and 11)."""

from __future__ import annotations

from svir_core.limits import Limits
from svir_core.response import Completion
from svir_core.wire.api import Mode
from svir_core.wire.openai_responses.decode import Decoder
from svir_core.wire.whole_document import WholeDocument, whole


class DocumentDecoder(WholeDocument, Decoder):
    """One answer as a document. The same options, methods and events as :class:`Decoder`; see ``WholeDocument`` for
    what it ends with. A response that failed is its failure; one that is under way finishes with ``PAUSE``."""

    __slots__ = ()


def decode_document(
    data: bytes | bytearray | memoryview,
    *,
    mode: Mode | str = Mode.STRICT,
    limits: Limits | None = None,
    extra: bool = False,
) -> Completion:
    """The answer in ``data``, the whole body of a ``stream: false`` response with a success status.

    Raises what a :class:`DocumentDecoder` ends with; push to one for the events.
    """
    return whole(DocumentDecoder(mode=mode, limits=limits, extra=extra), data)

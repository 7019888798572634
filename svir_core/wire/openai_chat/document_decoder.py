"""A ``chat.completion`` that was asked for with ``stream: false``, decoded by the rules of the stream.

A document is the one chunk it amounts to, so that every rule of a chunk, and every quirk, is the stream's own.
Source: 10-chat-completions sections 2 to 9, 11-quirks sections A and B.
"""

from __future__ import annotations

from typing import Any, Final

from svir_core.limits import Limits
from svir_core.quirk import NONE, Quirk
from svir_core.response import Completion
from svir_core.think import Think
from svir_core.wire.api import Mode
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.openai_chat.decode import Decoder
from svir_core.wire.whole_document import WholeDocument, whole

MESSAGE_KEYS: Final = frozenset({"annotations", "audio", "function_call"})
"""Keys of a message that a delta does not have. OpenAI and vLLM send them empty with every document."""


class DocumentDecoder(WholeDocument, Decoder):
    """One answer as a document. The same options, methods and events as :class:`Decoder`, so that an HTTP stack or a
    proxy can drive either: push bytes in any pieces, iterate what comes back, then ``finish()``. ``WholeDocument`` says
    what it ends with.
    """

    __slots__ = ()

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
    return whole(DocumentDecoder(mode=mode, think=think, limits=limits, extra=extra, quirks=quirks), data)

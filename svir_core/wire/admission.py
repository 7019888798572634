"""Whether a request can fit a model's context at all: its byte length stands in for tokens (10 section 10)."""

from __future__ import annotations

from svir_core.errors import ContextOverflowError
from svir_core.wire.part import ImageCount


def admit(
    length: int, max_tokens: int | None, counted: ImageCount, *, context_tokens: int | None, image_tokens: int | None
) -> None:
    """Raise ``ContextOverflowError`` when a body of ``length`` bytes, with ``max_tokens``, is more than
    ``context_tokens``; ``None`` admits everything. An image counts ``image_tokens`` in place of its bytes."""
    if context_tokens is None:
        return
    if max_tokens == 0:
        raise ContextOverflowError("max_tokens is 0: no room for an answer")
    if image_tokens is not None:
        length += counted.images * image_tokens - counted.image_bytes
    needed = length + (max_tokens or 0)
    if needed > context_tokens:
        raise ContextOverflowError(
            f"the request counts {needed} tokens (its length, with max_tokens), and the context has {context_tokens}"
        )

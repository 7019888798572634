"""The body of one request: counted while it is pulled, and closed in any case."""

from __future__ import annotations

from typing import Final

import anyio

from svir_core.counted_body import CountedBody

CLOSE_SECONDS: Final = 1.0
"""How long the body's own ``aclose`` may take in a call that was cancelled: it may wait for a thread."""


class Upload(CountedBody):
    """What is still to be pulled of a body, and its end."""

    __slots__ = ()

    async def aclose(self) -> None:
        """Close the iterator when it can be closed, in a cancelled scope too."""
        close = getattr(self._body, "aclose", None)
        if close is not None:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await close()

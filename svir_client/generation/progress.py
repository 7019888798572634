"""How far a generation had come, on whatever exception ended it (50, Loop)."""

from __future__ import annotations

import contextlib
from typing import Any

from svir_core.generation import Progress


def tell_progress(error: Exception, progress: Progress) -> None:
    """Set it as ``error.progress``. One of somebody else's stays without that refuses it, by whatever it raises, or has
    another ``progress`` of its own."""
    told: Any = error
    with contextlib.suppress(Exception):
        if isinstance(getattr(told, "progress", None), Progress | None):
            told.progress = progress


def progress_of(error: BaseException) -> Progress | None:
    """How far the generation had come that ``error`` ended, an exception of svir's or of a function of yours; ``None``
    outside of one, and for a cancellation: the session has what there was."""
    progress = getattr(error, "progress", None)
    return progress if isinstance(progress, Progress) else None

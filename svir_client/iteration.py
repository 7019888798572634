"""What ends an iteration, and what only looks like it: a ``StopAsyncIteration`` that somebody's own code raised."""

from __future__ import annotations


def no_end(error: StopAsyncIteration | StopIteration) -> RuntimeError:
    """What a reader is told instead of ``error``, its cause, which would end the reader's loop as if all had been read.
    Python does the same for generators."""
    failure = RuntimeError(f"code that an iteration ran raised {type(error).__name__}")
    failure.__cause__ = error
    return failure

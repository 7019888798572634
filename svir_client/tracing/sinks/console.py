"""Events for a person who watches (30 section 5)."""

from __future__ import annotations

import sys
import threading
from typing import Protocol

from svir_client.tracing.line import line
from svir_client.tracing.record import TraceEvent
from svir_core.check import an, expect
from svir_core.errors import ConfigError


class TextFile(Protocol):
    """Any text file object."""

    def write(self, text: str, /) -> object:
        """Take some text."""
        ...

    def flush(self) -> object:
        """Show it."""
        ...


class ConsoleSink:
    """One line per event, in ASCII."""

    def __init__(self, stream: TextFile | None, content: bool) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self.content = content

    def write(self, event: TraceEvent) -> None:
        """Write the line by one ``write``. Raises what the text file does."""
        stream = sys.stderr if self._stream is None else self._stream
        text = line(event) + "\n"
        with self._lock:
            stream.write(text)
            stream.flush()


def console(stream: TextFile | None = None, *, content: bool = False) -> ConsoleSink:
    """A sink that writes one line per event to ``stream``, by default to what is ``sys.stderr`` at the time.

    Nothing in an event can make a second line, nor change a terminal: all but visible ASCII is escaped. Raises
    ``ConfigError`` for what is no text file.
    """
    if stream is not None and not (callable(getattr(stream, "write", None)) and hasattr(stream, "flush")):
        raise ConfigError(f"console takes a text file, not {an(type(stream))}")
    return ConsoleSink(stream, expect(content, bool, "content"))

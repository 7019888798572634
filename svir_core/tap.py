"""A decoder beside a relay: it watches the bytes go past and never disturbs them (00 section 9)."""

from __future__ import annotations

from collections.abc import Callable

from svir_core.errors import ProtocolError, SvirError
from svir_core.event import Event, Events
from svir_core.response import Completion
from svir_core.wire.api import Decoder


class Tap:
    """Decodes what is relayed. ``push`` and ``finish`` never raise; what came of it is ``outcome``.

    Args:
        decoder: a fresh decoder of the upstream API.
        events: called with each event as it comes. When it raises, it is not called again, and
            ``callback_error`` holds what it raised.

    Attributes:
        outcome: the completion, or the error, or ``None`` while neither is known.
    """

    __slots__ = ("_decoder", "callback_error", "events", "outcome")

    def __init__(self, decoder: Decoder, events: Callable[[Event], object] | None = None) -> None:
        self._decoder = decoder
        self.events = events
        self.outcome: Completion | SvirError | None = None
        self.callback_error: Exception | None = None

    def push(self, data: bytes | bytearray | memoryview) -> None:
        """Watch ``data``. Does nothing once the outcome is known."""
        if self.outcome is None:
            self._take(data)

    def finish(self) -> None:
        """The relay ended."""
        if self.outcome is None:
            self._take(None)

    def _take(self, data: bytes | bytearray | memoryview | None) -> None:
        try:
            events = self._decoder.finish() if data is None else self._decoder.push(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, the relay goes on
            name = type(error).__name__
            self.outcome = error if isinstance(error, SvirError) else ProtocolError(f"the decoder failed: {name}")
            return
        self._tell(events)
        self.outcome = events.error or self._decoder.completion

    def _tell(self, events: Events) -> None:
        if self.events is None:
            return
        try:
            for event in events.items:
                self.events(event)
        except Exception as error:  # noqa: BLE001 - the callback is the caller's; the relay goes on
            self.callback_error = error
            self.events = None

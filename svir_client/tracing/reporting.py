"""Where and how a ``Trace`` reports (30 section 5)."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from svir_client.tracing.record import Content, TraceEvent
from svir_client.tracing.sink import Sinks
from svir_core.redact import Redactor


@attrs.frozen(repr=False)
class Reporting:
    """The sinks, the clocks and the secrets of a ``Trace``, and whether content is captured."""

    sinks: Sinks
    capture: bool
    redactor: Redactor
    clock: Callable[[], float]
    now: Callable[[], float]

    @property
    def captures(self) -> bool:
        """Whether a sink is given what was said."""
        return self.capture and self.sinks.content

    def write(self, bare: TraceEvent, content: Content | None) -> None:
        """Tell every sink, those without the switch without ``content``."""
        self.sinks.write(bare if content is None else attrs.evolve(bare, content=content), bare)


class Begun:
    """The moment when something begins, by the clocks of one ``Trace``.

    Attributes:
        time: seconds since the epoch.
    """

    __slots__ = ("_began", "_reporting", "time")

    def __init__(self, reporting: Reporting) -> None:
        self._reporting = reporting
        self.time = reporting.sinks.read(reporting.now, time.time())
        self._began = reporting.sinks.read(reporting.clock, 0.0)

    def seconds(self) -> float:
        """Since then, by the monotonic clock; 0 when that fails."""
        return self._reporting.sinks.read(self._reporting.clock, self._began) - self._began

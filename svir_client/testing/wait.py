"""What may stand between two pieces of a reply: a gate that the test opens, or a pause of real time."""

from __future__ import annotations

import anyio
import attrs

from svir_core.check import seconds


class Gate:
    """Holds a reply until the test opens it. Made inside an event loop."""

    def __init__(self) -> None:
        self._reached = anyio.Event()
        self._open = anyio.Event()

    async def reached(self) -> None:
        """Wait until everything before the gate was handed to the network."""
        await self._reached.wait()

    def open(self) -> None:
        """Let the reply go on."""
        self._open.set()

    async def pass_through(self) -> None:
        """The server's side: tell that the gate is reached, and wait until it is open."""
        self._reached.set()
        await self._open.wait()


def _seconds(value: float) -> float:
    return seconds(value, "Pause.seconds")


@attrs.frozen
class Pause:
    """Holds a reply for so many seconds of real time; ``ConfigError`` when that is no positive number.

    A test that can say what it waits for is quicker and surer with a :class:`Gate`.
    """

    seconds: float = attrs.field(converter=_seconds)

    async def pass_through(self) -> None:
        """The server's side: wait."""
        await anyio.sleep(self.seconds)


Wait = Gate | Pause

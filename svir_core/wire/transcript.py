"""What was delivered, in the order it came: the parts of a completion, and of a partial one.

Text next to text is one part, reasoning next to reasoning of its source too. A call is one part: calls
stand where the first pieces of calls came, in the order of their indices, since the index is the
server's word for the order. Pieces are kept in lists and joined once, so that the cost is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from svir_core.event import ToolCallDelta
from svir_core.message import Opaque, Part, Reasoning, Text, ToolCall


class CallRun:
    """The pieces of one call."""

    __slots__ = ("arguments", "id", "index", "names")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.names: list[str] = []
        self.arguments: list[str] = []

    def push(self, piece: ToolCallDelta) -> None:
        """Add ``piece``; an id stays the first that was given."""
        if piece.id and not self.id:
            self.id = piece.id
        if piece.name:
            self.names.append(piece.name)
        if piece.arguments:
            self.arguments.append(piece.arguments)

    @property
    def name(self) -> str:
        """The name so far."""
        return "".join(self.names)

    def displayed(self) -> ToolCall:
        """The call so far, as display data: never complete."""
        return ToolCall(self.id, self.name, "".join(self.arguments), complete=False)


def displayed(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts of a whole answer as :meth:`Transcript.parts` had them: what was delivered, its calls display data."""
    return tuple(
        ToolCall("" if part.synthetic_id else part.id, part.name, part.arguments, complete=False)
        if isinstance(part, ToolCall)
        else part
        for part in parts
        if not isinstance(part, Opaque)
    )


class _TextRun:
    """The pieces of one text (``source`` is ``None``) or reasoning."""

    __slots__ = ("pieces", "source")

    def __init__(self, source: str | None) -> None:
        self.source = source
        self.pieces: list[str] = []

    def part(self) -> Text | Reasoning:
        text = "".join(self.pieces)
        return Text(text) if self.source is None else Reasoning(self.source, text)


class Transcript:
    """The pieces of one answer.

    Attributes:
        calls: the calls by index.
    """

    __slots__ = ("_last", "_runs", "calls")

    def __init__(self) -> None:
        self._runs: list[_TextRun | CallRun] = []
        self._last: _TextRun | None = None  # the part that is still growing
        self.calls: dict[int, CallRun] = {}

    def text(self, piece: str) -> None:
        """A piece of text."""
        last = self._last
        if last is None or last.source is not None:
            last = self._grow(None)
        last.pieces.append(piece)

    def reasoning(self, source: str, piece: str) -> None:
        """A piece of reasoning."""
        last = self._last
        if last is None or last.source != source:
            last = self._grow(source)
        last.pieces.append(piece)

    def _grow(self, source: str | None) -> _TextRun:
        run = self._last = _TextRun(source)
        self._runs.append(run)
        return run

    def call(self, piece: ToolCallDelta) -> None:
        """A piece of a call. Only a call's first piece ends the part before it."""
        run = self.calls.get(piece.index)
        if run is None:
            run = self.calls[piece.index] = CallRun(piece.index)
            self._runs.append(run)
            self._last = None
        run.push(piece)

    def parts(self, call: Callable[[CallRun], ToolCall] = CallRun.displayed) -> tuple[Part, ...]:
        """The parts, in order, each call made by ``call``: display data unless the caller knows better. Calls stand
        where calls came, in the order of their indices."""
        calls = iter(sorted(self.calls))
        return tuple(call(self.calls[next(calls)]) if isinstance(run, CallRun) else run.part() for run in self._runs)

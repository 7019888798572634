"""The parts of one answer, in the order they came (22 sections 3, 6 and 8).

Three rules hold for all of it. Pieces of text, or of a thought, that follow each other are one part; one that has a
signature or anything else beside it stays a part of its own, an empty one too. A call is one part, where it began.
Every other part is kept as it came.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count
from typing import Final

from svir_core.errors import ProtocolError, ResponseLimitError
from svir_core.event import ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Opaque, Part, Reasoning, Text
from svir_core.response import AnomalyCode
from svir_core.slow_json import exact_text
from svir_core.wire.gemini.call import Call, Fragment
from svir_core.wire.gemini.said import Said
from svir_core.wire.gemini.table import API_NAME, CALL, SOURCE, TEXT_KEYS, Move, State, step
from svir_core.wire.halves import Halves

Delta = TextDelta | ReasoningDelta | ToolCallDelta

SPEECH: Final = "text"


DIGEST_CHARACTERS: Final = 12
"""Of the digest of a response's id: 48 bits, so that those of one history differ."""


def _digest(response: str) -> str:
    return sha256(response.encode("utf-8", "replace")).hexdigest()[:DIGEST_CHARACTERS]


class _Run:
    """Pieces of text that are one part."""

    __slots__ = ("halves", "pieces", "thought")

    def __init__(self, thought: bool) -> None:
        self.thought = thought
        self.pieces: list[str] = []
        self.halves = Halves()

    def part(self) -> Part:
        text = "".join(self.pieces)
        return Reasoning(SOURCE, text) if self.thought else Text(text)


class Answer:
    """One answer. What a part says is not delivered before the whole chunk is judged: it waits in ``said``.

    Args:
        limit: how many calls it may hold.

    Attributes:
        state: how far it is.
        said: the deltas that wait to be delivered.
        calls: its calls.
    """

    __slots__ = ("_ids", "_items", "_limit", "_run", "calls", "said", "state")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: list[_Run | Part | Call] = []
        self._run: _Run | None = None
        self._ids: dict[str, Call] = {}
        self.state = State.START
        self.said: list[Delta] = []
        self.calls: list[Call] = []

    def move(self, move: Move) -> None:
        """Go on in the table; raises what it says."""
        self.state = step(self.state, move)

    def push(self, part: Said) -> None:
        """Another part."""
        fields = part.fields
        if fields.get(CALL) is not None:
            if fields.get(SPEECH):
                raise ProtocolError("a part is both text and a tool call")
            self._called(Fragment(part))
        elif fields.get(SPEECH) is not None:
            self._spoken(part)
        elif any(value is not None for value in fields.values()):
            self.move(Move.PART)
            self._release()
            self._items.append(Opaque(API_NAME, exact_text(part.exact())))

    # --- text and thoughts -----------------------------------------------------------------------

    def _spoken(self, part: Said) -> None:
        thought = part.fields.get("thought")
        if thought is not None and not isinstance(thought, bool):
            part.forgive(AnomalyCode.WRONG_TYPE)
            thought = False
        text = part.text(SPEECH)
        if any(value is not None for key, value in part.fields.items() if key not in TEXT_KEYS):
            self._signed(part, thought=bool(thought))
        elif text:
            self.move(Move.PART)
            run = self._run
            if run is None or run.thought is not bool(thought):
                self._release()
                run = self._run = _Run(bool(thought))
                self._items.append(run)
            self._say(run, run.halves.push(text))

    def _say(self, run: _Run, text: str) -> None:
        if text:
            run.pieces.append(text)
            self.said.append(ReasoningDelta(SOURCE, text) if run.thought else TextDelta(text))

    def _signed(self, part: Said, *, thought: bool) -> None:
        """A part of text with more beside it. An empty one does not go on with an answer that has finished."""
        self._release()
        exact = part.exact()
        text = exact[SPEECH] if isinstance(exact[SPEECH], str) else ""
        opaque = Opaque(API_NAME, exact_text(exact))
        self._items.append(Reasoning(SOURCE, text, opaque) if thought else Text(text, opaque))
        if text:
            self.move(Move.PART)
            self.said.append(ReasoningDelta(SOURCE, text) if thought else TextDelta(text))

    def _release(self) -> None:
        """Nothing more comes of the text at hand: half a character stays half."""
        run, self._run = self._run, None
        if run is not None:
            self._say(run, run.halves.finish())

    # --- calls -----------------------------------------------------------------------------------

    def _called(self, piece: Fragment) -> None:
        if piece.name is not None:
            self._begin(piece, piece.name)
        else:
            self.move(Move.CALL_GOES_ON if piece.pieces or piece.goes_on else Move.CALL_CLOSES)
            call = self.calls[-1]
            call.push(piece)
            if piece.pieces and not piece.goes_on:
                self.move(Move.CALL_CLOSES)
            if not piece.goes_on:
                call.close()
                self._deliver(call)
        self._identify(self.calls[-1])

    def _begin(self, piece: Fragment, name: str) -> None:
        self.move(Move.CALL if piece.whole else Move.CALL_OPENS)
        if len(self.calls) >= self._limit:
            raise ResponseLimitError(f"the answer has more than {self._limit} tool calls")
        self._release()
        call = Call(piece, name)
        self.calls.append(call)
        self._items.append(call)
        self.said.append(ToolCallDelta(len(self.calls) - 1, call.id, name, call.arguments or None))
        if not piece.whole and not piece.goes_on:
            self.move(Move.CALL_CLOSES)
            call.close()
            self._deliver(call)

    def _deliver(self, call: Call) -> None:
        """The arguments that came in pieces, once they are whole."""
        self.said.append(ToolCallDelta(len(self.calls) - 1, None, None, call.arguments))

    def _identify(self, call: Call) -> None:
        """No two calls have one id."""
        if call.id is not None and self._ids.setdefault(call.id, call) is not call:
            raise ProtocolError("two tool calls have the same id")

    # --- the end ---------------------------------------------------------------------------------

    def end(self) -> None:
        """No part comes any more. A call that was not closed is cut."""
        self._release()
        if self.calls and not self.calls[-1].closed:
            self.calls[-1].close(cut=True)
            self._deliver(self.calls[-1])

    def parts(self, response: str | None, *, cut: bool) -> tuple[Part, ...]:
        """What the answer is; ``cut`` when more of its last part could have come. Calls without an id get one that
        depends on the id of the ``response``, so that those of two answers differ."""
        made_ids = "call_" if response is None else f"call_{_digest(response)}_"
        free = (name for number in count() if (name := f"{made_ids}{number}") not in self._ids)
        last = self._items[-1] if self._items else None
        parts: list[Part] = []
        for item in self._items:
            if isinstance(item, _Run):
                parts.append(item.part())
            elif isinstance(item, Call):
                made = None if item.id else next(free)
                parts.append(item.part(made, certain=not (cut and item is last)))
            else:
                parts.append(item)
        return tuple(parts)

"""One text that comes in pieces, and then once more as a whole (20 section 9, "Reconciliation").

Three rules hold for all of it. What was delivered stays. A whole that no piece came before is the text. A whole that
the pieces contradict is refused by strict; lenient delivers what it has beyond them where they are its beginning.
"""

from __future__ import annotations

from svir_core.wire.halves import Halves
from svir_core.wire.openai_responses.table import State


class Run:
    """The pieces of one text.

    Attributes:
        kind: the type of the part that it is the text of, or of the item that is a call.
        state: how far it is.
    """

    __slots__ = ("_halves", "_pieces", "kind", "state")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.state = State.ABSENT
        self._pieces: list[str] = []
        self._halves = Halves()

    @property
    def text(self) -> str:
        """The text so far; a half of a character that waits for the other is no part of it."""
        pieces = self._pieces
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return pieces[0] if pieces else ""

    def push(self, piece: str) -> str:
        """Add ``piece``: what of it is text now. Halves of one character that came in two pieces are joined, any other
        half becomes U+FFFD (11 section B)."""
        piece = self._halves.push(piece)
        if piece:
            self._pieces.append(piece)
        return piece

    def release(self) -> str:
        """No more pieces come: what waited for another half."""
        half = self._halves.finish()
        if half:
            self._pieces.append(half)
        return half

    def rest(self, whole: str) -> str | None:
        """What ``whole`` has beyond the pieces, which it begins with; ``None`` when it does not. A half of a character
        that waited is forgotten: the whole has it."""
        self._halves = Halves()
        said = self.text
        return whole[len(said) :] if whole.startswith(said) else None

"""Text that comes in pieces, where half of a surrogate pair may stand at the end of one and the other half at the
beginning of the next (11 section B)."""

from __future__ import annotations

from svir_core.json_text import sanitize


class Halves:
    """Joins what was cut inside a character. Every other half becomes U+FFFD."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    @property
    def waiting(self) -> bool:
        """Whether a first half waits for the other."""
        return bool(self._half)

    def push(self, piece: str) -> str:
        """What ``piece`` completes; a first half at its end waits for the other."""
        if not self._half and piece.isascii():
            return piece
        piece = self._half + piece
        self._half = piece[-1:] if "\ud800" <= piece[-1:] <= "\udbff" else ""
        return sanitize(piece[:-1] if self._half else piece)

    def finish(self) -> str:
        """What waits, when no other piece comes: U+FFFD, or nothing."""
        half, self._half = self._half, ""
        return "\ufffd" if half else ""

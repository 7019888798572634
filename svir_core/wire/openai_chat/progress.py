"""How far one answer is, and how it ends: the way through ``table`` (10 sections 2, 3, 7 and 8, 11 section C).

Five quirks change it, and nothing else does. ``FINISH_OPTIONAL`` and ``DONE_OPTIONAL`` change what the table
says of the end. ``FINISH_OPEN`` takes any word as a finish reason. With ``FINISH_EARLY`` a finish reason
closes nothing: what follows is judged as if it had come before. ``CHOICES_MERGED`` lets each choice have
its own finish reason: it closes that choice, and all must agree.
"""

from __future__ import annotations

from typing import Any, Final

from svir_core.errors import ProtocolError, UnsupportedError
from svir_core.quirk import Quirk
from svir_core.response import FinishReason
from svir_core.wire.openai_chat.table import FILTERED, FINISHES, Move, State, finish_of, moves_with, step

ALIKE: Final = frozenset({"stop", "tool_calls"})
"""Two words for an answer that is whole: choices of one answer may differ in them."""


class Progress:
    """The state of one answer.

    Attributes:
        at: the state that the next move starts from.
        finished: whether a finish reason was given.
        word: the server's finish reason, the last one; ``""`` when there is none.
        blocked: whether a content filter's annotation blocked the answer.
    """

    __slots__ = ("_answer", "_any_word", "_choice", "_closed", "_early", "_moves", "at", "blocked", "finished", "word")

    def __init__(self, quirks: Quirk) -> None:
        self._moves = moves_with(quirks)
        self._any_word = Quirk.FINISH_OPEN in quirks
        self._early = Quirk.FINISH_EARLY in quirks
        self._answer = State.START  # what the answer is so far, or was when it finished
        self._choice: int | str = 0  # the choice at hand
        self._closed: set[int | str] = set()  # the choices that gave their finish reason
        self.at = State.START
        self.finished = False
        self.word = ""
        self.blocked = False

    def turn_to(self, choice: int | str) -> None:
        """What follows comes from this choice of the answer."""
        self._choice = choice
        self.at = State.FINISHED if choice in self._closed and not self._early else self._answer

    def reach(self, state: State) -> None:
        """The moves of a delta led to ``state``."""
        self.at = state
        if state is not State.FINISHED:
            self._answer = state

    def finish(self, word: Any, state: State) -> None:
        """The server gave a finish reason, after a delta that led to ``state``. ``UnsupportedError`` for a word that is
        none, or one after the finish; ``ProtocolError`` when it differs from another choice's."""
        if not isinstance(word, str) or (word not in FINISHES and not self._any_word):
            shown = word if isinstance(word, str) else None
            raise UnsupportedError("the finish reason is none that svir knows", server_message=shown)
        step(state, Move.FINISH)
        if self.finished and not self._early and word != self.word and not {word, self.word} <= ALIKE:
            raise ProtocolError("the choices of one answer finished for different reasons")
        self._end(word, state)

    def filtered(self, word: Any) -> None:
        """The finish reason of a content filter's annotation: its block, which no later word takes back."""
        if word != FILTERED:
            raise UnsupportedError("a content filter's annotation has a finish reason that is not its own")
        step(self.at, Move.FILTER_FINISH)
        self.blocked = True
        self._end(FILTERED, self.at)

    def _end(self, word: str, state: State) -> None:
        self.reach(state)
        self.finished = True
        self.word = word
        self._closed.add(self._choice)
        if not self._early:
            self.at = State.FINISHED

    def may(self, move: Move) -> bool:
        """Whether ``move``, the end of the input, completes the answer."""
        return self._moves[self._state()][move] is State.COMPLETE

    def done(self, move: Move) -> FinishReason:
        """``[DONE]``, or the end of the input: why the answer ended. Raises when the move is not legal now, or the word
        does not fit the answer."""
        self.at = step(self._state(), move, self._moves)
        return finish_of(FILTERED if self.blocked else self.word, self._answer)

    def _state(self) -> State:
        return State.FINISHED if self.finished else self.at

"""How far one answer is, and how it ends: the way through ``table`` (10 sections 2, 3, 7 and 8, 11 section C).

Five quirks change it, and nothing else does. ``FINISH_OPTIONAL`` and ``DONE_OPTIONAL`` change what the table
says of the end. ``FINISH_OPEN`` takes any word as a finish reason. With ``FINISH_EARLY`` a finish reason
closes nothing for good: what follows is judged as if it had come before, and opens the answer again, so that
only another finish reason, or ``[DONE]``, ends it. ``CHOICES_MERGED`` lets each choice have its own finish
reason: it closes that choice, every choice that spoke needs one, and all must agree.
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
        at: the state of the choice at hand.
        finished: whether a finish reason was given.
        word: the server's finish reason, the last one; ``""`` when there is none.
        blocked: whether a content filter blocked the answer.
    """

    __slots__ = (
        "_answer",
        "_any_word",
        "_choice",
        "_early",
        "_moves",
        "_open",
        "_words",
        "at",
        "blocked",
        "finished",
        "word",
    )

    def __init__(self, quirks: Quirk) -> None:
        self._moves = moves_with(quirks)
        self._any_word = Quirk.FINISH_OPEN in quirks
        self._early = Quirk.FINISH_EARLY in quirks
        self._answer = State.START  # what the answer is so far, or was when it finished
        self._choice: int | str = 0  # the choice at hand
        self._words: dict[int | str, str] = {}  # the last finish reason of each choice
        self._open: set[int | str] = set()  # the choices that spoke, and have not finished since
        self.at = State.START
        self.finished = False
        self.word = ""
        self.blocked = False

    def turn_to(self, choice: int | str) -> None:
        """What follows comes from this choice of the answer."""
        self._choice = choice
        self.at = State.FINISHED if choice in self._words and choice not in self._open else self._answer

    def start(self) -> State:
        """The state that a delta starts from."""
        return self._answer if self._early else self.at

    def reach(self, state: State) -> None:
        """A delta that says something led to ``state``."""
        self.at = self._answer = state
        self._open.add(self._choice)

    def finish(self, word: Any, state: State) -> None:
        """The server gave a finish reason, after a delta that led to ``state``. ``UnsupportedError`` for a word that is
        none, or one after the finish; ``ProtocolError`` when it differs from another choice's."""
        if not isinstance(word, str) or (word not in FINISHES and not self._any_word):
            shown = word if isinstance(word, str) else None
            raise UnsupportedError("the finish reason is none that svir knows", server_message=shown)
        step(state, Move.FINISH)
        self._end(word)
        if not self._early:
            self._agree()

    def filtered(self, word: Any) -> None:
        """The finish reason of a content filter's annotation: its block, which no later word takes back."""
        if word != FILTERED:
            raise UnsupportedError("a content filter's annotation has a finish reason that is not its own")
        step(self.at, Move.FILTER_FINISH)
        self._end(FILTERED)

    def _end(self, word: str) -> None:
        if word == FILTERED or self._words.get(self._choice) == FILTERED:
            word = FILTERED
            self.blocked = True
        self._words[self._choice] = self.word = word
        self._open.discard(self._choice)
        self.finished = True
        self.at = State.FINISHED

    def _agree(self) -> None:
        """Whether the choices finished for one reason."""
        words = set(self._words.values())
        if len(words) > 1 and not words <= ALIKE:
            raise ProtocolError("the choices of one answer finished for different reasons")

    def may(self, move: Move) -> bool:
        """Whether ``move``, the end of the input, completes the answer."""
        return self._moves[self._state(move)][move] is State.COMPLETE

    def done(self, move: Move) -> FinishReason:
        """``[DONE]``, or the end of the input: why the answer ended. Raises when the move is not legal now, or the word
        does not fit the answer."""
        state = self._state(move)
        step(state, move, self._moves)
        self._agree()
        if state is not State.FINISHED:
            self.word = ""
        return finish_of(FILTERED if self.blocked else self.word, self._answer)

    def may_go_on(self, move: Move) -> bool:
        """Whether more of the answer could have come after ``move``, its end."""
        return move is Move.END and self._early

    def _state(self, move: Move) -> State:
        """How far the whole answer is: finished when every choice that spoke is. At ``[DONE]``, what came after a
        finish reason needs no other."""
        waiting = self._open if move is Move.END else self._open - self._words.keys()
        return State.FINISHED if self.finished and not waiting else self._answer

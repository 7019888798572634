"""Chat Completions as tables: which keys are known, what may follow what, what a finish means (10 sections 2 to 8).

Three rules hold for all of it. What stands in no table is refused. A move is judged before anything of
its chunk is delivered. An answer is whole only after a finish reason and ``[DONE]``.

    START ──content──> TEXT ──call──> CALLS          reasoning moves nothing
      │                  └──────┬───────┘
      ├──call──> CALLS          │ finish
      ├──refusal──> REFUSAL ────┤
      └──────── finish ─────────┴──> FINISHED ──done──> COMPLETE
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from svir_core.errors import ProtocolError, SvirError, TruncatedStreamError, UnsupportedError
from svir_core.quirk import Quirk
from svir_core.response import FinishReason

API_NAME: Final = "openai_chat"
"""The name of this API, and the ``Opaque.api`` of continuation data that came from it."""

EVENT_TYPES: Final = frozenset({"message", "error"})
DONE: Final = b"[DONE]"

CHUNK_KEYS: Final = frozenset({"id", "object", "created", "model", "choices", "usage"})
CHOICE_KEYS: Final = frozenset({"index", "delta", "message", "finish_reason", "usage"})
"""What the codec reads of a chunk and of a choice; the rest is accepted, and kept with ``extra=True``."""

REASONING_KEYS: Final = ("reasoning_content", "reasoning")
"""The keys of reasoning in a delta and in a message, which are its sources too; the first wins over an equal second."""

DELTA_KEYS: Final = frozenset({"role", "content", *REASONING_KEYS, "refusal", "tool_calls"})
CALL_KEYS: Final = frozenset({"index", "id", "type", "function"})
"""Unknown keys of a call are continuation data: kept, and sent back."""

PROMPT_REPORT_KEYS: Final = ("prompt_filter_results", "prompt_annotations")


class State(Enum):
    """How far the answer is, and what it is an answer of."""

    __hash__ = object.__hash__  # Enum's own is written in Python; these are looked up for every chunk

    START = auto()
    TEXT = auto()
    CALLS = auto()
    REFUSAL = auto()
    FINISHED = auto()
    COMPLETE = auto()


class Move(Enum):
    """What a chunk, or the end of the stream, brings. Only what is not empty is a move."""

    __hash__ = object.__hash__

    CONTENT = auto()
    REASONING = auto()
    CALL = auto()
    REFUSED = auto()
    FINISH = auto()
    FILTER_FINISH = auto()
    """The ``content_filter`` finish of an Azure annotation."""
    DONE = auto()
    END = auto()
    """The end of the input."""


_MIXED: Final = (ProtocolError, "a refusal is mixed with content or calls")
_LATE: Final = (UnsupportedError, "the answer goes on after its finish reason")
_EARLY: Final = (TruncatedStreamError, "the stream ended before the finish reason")
_CUT: Final = (TruncatedStreamError, "the input ended before the answer did")
_ENDED: Final = (UnsupportedError, "the answer goes on after its end")

Step = State | tuple[type[SvirError], str]

MOVES: Final[Mapping[State, Mapping[Move, Step]]] = {
    State.START: {
        Move.CONTENT: State.TEXT,
        Move.REASONING: State.START,
        Move.CALL: State.CALLS,
        Move.REFUSED: State.REFUSAL,
        Move.FINISH: State.FINISHED,
        Move.FILTER_FINISH: State.FINISHED,
        Move.DONE: _EARLY,
        Move.END: _CUT,
    },
    State.TEXT: {
        Move.CONTENT: State.TEXT,
        Move.REASONING: State.TEXT,
        Move.CALL: State.CALLS,
        Move.REFUSED: _MIXED,
        Move.FINISH: State.FINISHED,
        Move.FILTER_FINISH: State.FINISHED,
        Move.DONE: _EARLY,
        Move.END: _CUT,
    },
    State.CALLS: {
        Move.CONTENT: State.CALLS,
        Move.REASONING: State.CALLS,
        Move.CALL: State.CALLS,
        Move.REFUSED: _MIXED,
        Move.FINISH: State.FINISHED,
        Move.FILTER_FINISH: State.FINISHED,
        Move.DONE: _EARLY,
        Move.END: _CUT,
    },
    State.REFUSAL: {
        Move.CONTENT: _MIXED,
        Move.REASONING: State.REFUSAL,
        Move.CALL: _MIXED,
        Move.REFUSED: State.REFUSAL,
        Move.FINISH: State.FINISHED,
        Move.FILTER_FINISH: State.FINISHED,
        Move.DONE: _EARLY,
        Move.END: _CUT,
    },
    State.FINISHED: {
        Move.CONTENT: _LATE,
        Move.REASONING: _LATE,
        Move.CALL: _LATE,
        Move.REFUSED: _LATE,
        Move.FINISH: _LATE,
        Move.FILTER_FINISH: State.FINISHED,
        Move.DONE: State.COMPLETE,
        Move.END: _CUT,
    },
    State.COMPLETE: dict.fromkeys(Move, _ENDED),
}


REPAIRED: Final[Mapping[Quirk, Mapping[State, Mapping[Move, Step]]]] = {
    Quirk.FINISH_OPTIONAL: {
        state: {Move.DONE: State.COMPLETE} for state in (State.START, State.TEXT, State.CALLS, State.REFUSAL)
    },
    Quirk.DONE_OPTIONAL: {State.FINISHED: {Move.END: State.COMPLETE}},
}
"""What a quirk makes legal (11 section C)."""


def moves_with(quirks: Quirk) -> Mapping[State, Mapping[Move, Step]]:
    """``MOVES``, with what ``quirks`` make legal."""
    moves = MOVES
    for quirk, repaired in REPAIRED.items():
        if quirk in quirks:
            moves = {state: {**row, **repaired.get(state, {})} for state, row in moves.items()}
    return moves


PLAIN: Final[Mapping[State, frozenset[str]]] = {
    state: frozenset(
        key
        for key, move in (
            ("content", Move.CONTENT),
            ("reasoning_content", Move.REASONING),
            ("reasoning", Move.REASONING),
            ("tool_calls", Move.CALL),
        )
        if MOVES[state][move] is state
    )
    for state in State
}
"""The delta keys that change nothing about the state, so that a chunk of one of them needs no move."""


def step(state: State, move: Move, moves: Mapping[State, Mapping[Move, Step]] = MOVES) -> State:
    """The state after ``move``; raises what the table says when the move is not legal."""
    after = moves[state][move]
    if isinstance(after, State):
        return after
    error, detail = after
    raise error(detail)


FINISHES: Final[Mapping[str, Mapping[State, FinishReason]]] = {
    "stop": {
        State.START: FinishReason.STOP,
        State.TEXT: FinishReason.STOP,
        State.CALLS: FinishReason.TOOL_CALLS,  # a function required by name: OpenAI, vLLM
        State.REFUSAL: FinishReason.REFUSAL,
    },
    "tool_calls": {
        State.CALLS: FinishReason.TOOL_CALLS,
    },
    "length": {
        State.START: FinishReason.LENGTH,
        State.TEXT: FinishReason.LENGTH,
        State.CALLS: FinishReason.LENGTH,
        State.REFUSAL: FinishReason.REFUSAL,
    },
    "content_filter": {
        State.START: FinishReason.CONTENT_FILTER,
        State.TEXT: FinishReason.CONTENT_FILTER,
        State.REFUSAL: FinishReason.CONTENT_FILTER,
    },
}
"""The server's word, and what the answer was when it finished: the finish. Not here: ``ProtocolError``."""

OTHERWISE: Final[Mapping[State, FinishReason]] = {
    State.START: FinishReason.OTHER,
    State.TEXT: FinishReason.OTHER,
    State.CALLS: FinishReason.OTHER,
    State.REFUSAL: FinishReason.REFUSAL,  # its words are no answer, whatever ended them
}
"""The finish for another word, or for none: only quirks let them come so far."""

FILTERED: Final = "content_filter"


def finish_of(word: str, answer: State) -> FinishReason:
    """The finish of an answer. ``ProtocolError`` when the word and the answer do not fit (10 section 3)."""
    finish = FINISHES.get(word, OTHERWISE).get(answer)
    if finish is None:
        raise ProtocolError(f"the finish reason {word!r} does not fit what was answered")
    return finish

"""Gemini as tables: what may follow what, what a finish reason means, which keys are read.

Three rules hold for all of it. Nothing ends a stream but the end of the input, and then the answer is whole only when
its last word was a finish reason: what comes after one takes it back, since some servers send ``STOP`` with every
chunk. One call at a time is streamed. A prompt is blocked only where no candidate came.

    START ──block──> BLOCKED ──end──> REFUSED
      │ part, call      │ part, call
      └──────> OPEN <───┘
               │  ^ part, call: also after FINISHED
        finish │  │            open: OPEN, FINISHED ──> CALL     goes on: CALL, CALL_FINISHED ──> CALL
               v  │            close: CALL ──> OPEN, CALL_FINISHED ──> FINISHED
             FINISHED ──end──> COMPLETE            finish: CALL ──> CALL_FINISHED ──end──> COMPLETE, the call cut

Source: 22 sections 7 to 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from svir_core.errors import AuthenticationError, ProtocolError, ServerError, SvirError, TruncatedStreamError
from svir_core.response import FinishReason

API_NAME: Final = "gemini"
"""The name of this API, and the ``Opaque.api`` of continuation data that came from it."""

SOURCE: Final = "thought"
"""The source of reasoning: the key that marks its parts."""


class State(Enum):
    """How far the answer is."""

    __hash__ = object.__hash__  # Enum's own is written in Python; these are looked up for every part

    START = auto()
    OPEN = auto()
    CALL = auto()
    """A call is being streamed."""
    FINISHED = auto()
    CALL_FINISHED = auto()
    """A finish reason came while a call was being streamed."""
    BLOCKED = auto()
    """The prompt was blocked, and no candidate came."""
    COMPLETE = auto()
    REFUSED = auto()


class Move(Enum):
    """What a part, a finish reason, or the end of the input brings. A part without content is no move."""

    __hash__ = object.__hash__

    PART = auto()
    """Text, a thought, or a part that is kept as it came."""
    CALL = auto()
    """A whole call."""
    CALL_OPENS = auto()
    CALL_GOES_ON = auto()
    CALL_CLOSES = auto()
    FINISH = auto()
    BLOCK = auto()
    """``promptFeedback.blockReason``."""
    END = auto()
    """The end of the input."""


Step = State | tuple[type[SvirError], str]

_CUT: Final = (TruncatedStreamError, "the input ended before the answer did")
_STRAY: Final = (ProtocolError, "a piece of a tool call that never began")
_UNCLOSED: Final = (ProtocolError, "a tool call begins before the one before it has ended")
_ENDED: Final = (ProtocolError, "the answer goes on after its end")

MOVES: Final[Mapping[State, Mapping[Move, Step]]] = {
    State.START: {
        Move.PART: State.OPEN,
        Move.CALL: State.OPEN,
        Move.CALL_OPENS: State.CALL,
        Move.CALL_GOES_ON: _STRAY,
        Move.CALL_CLOSES: _STRAY,
        Move.FINISH: State.FINISHED,
        Move.BLOCK: State.BLOCKED,
        Move.END: _CUT,
    },
    State.OPEN: {
        Move.PART: State.OPEN,
        Move.CALL: State.OPEN,
        Move.CALL_OPENS: State.CALL,
        Move.CALL_GOES_ON: _STRAY,
        Move.CALL_CLOSES: _STRAY,
        Move.FINISH: State.FINISHED,
        Move.BLOCK: State.OPEN,
        Move.END: _CUT,
    },
    State.CALL: {
        Move.PART: State.CALL,
        Move.CALL: _UNCLOSED,
        Move.CALL_OPENS: _UNCLOSED,
        Move.CALL_GOES_ON: State.CALL,
        Move.CALL_CLOSES: State.OPEN,
        Move.FINISH: State.CALL_FINISHED,
        Move.BLOCK: State.CALL,
        Move.END: _CUT,
    },
    State.FINISHED: {
        Move.PART: State.OPEN,
        Move.CALL: State.OPEN,
        Move.CALL_OPENS: State.CALL,
        Move.CALL_GOES_ON: _STRAY,
        Move.CALL_CLOSES: _STRAY,
        Move.FINISH: State.FINISHED,
        Move.BLOCK: State.FINISHED,
        Move.END: State.COMPLETE,
    },
    State.CALL_FINISHED: {
        Move.PART: State.CALL,
        Move.CALL: _UNCLOSED,
        Move.CALL_OPENS: _UNCLOSED,
        Move.CALL_GOES_ON: State.CALL,
        Move.CALL_CLOSES: State.FINISHED,
        Move.FINISH: State.CALL_FINISHED,
        Move.BLOCK: State.CALL_FINISHED,
        Move.END: State.COMPLETE,
    },
    State.BLOCKED: {
        Move.PART: State.OPEN,
        Move.CALL: State.OPEN,
        Move.CALL_OPENS: State.CALL,
        Move.CALL_GOES_ON: _STRAY,
        Move.CALL_CLOSES: _STRAY,
        Move.FINISH: State.FINISHED,
        Move.BLOCK: State.BLOCKED,
        Move.END: State.REFUSED,
    },
    State.COMPLETE: dict.fromkeys(Move, _ENDED),
    State.REFUSED: dict.fromkeys(Move, _ENDED),
}


def step(state: State, move: Move) -> State:
    """The state after ``move``; raises what the table says when the move is not legal."""
    after = MOVES[state][move]
    if isinstance(after, State):
        return after
    error, detail = after
    raise error(detail)


FINISHES: Final[Mapping[str, FinishReason]] = {
    "STOP": FinishReason.STOP,  # TOOL_CALLS where there are calls
    "MAX_TOKENS": FinishReason.LENGTH,
    "SAFETY": FinishReason.CONTENT_FILTER,
    "RECITATION": FinishReason.CONTENT_FILTER,
    "LANGUAGE": FinishReason.CONTENT_FILTER,
    "BLOCKLIST": FinishReason.CONTENT_FILTER,
    "PROHIBITED_CONTENT": FinishReason.CONTENT_FILTER,
    "SPII": FinishReason.CONTENT_FILTER,
    "MODEL_ARMOR": FinishReason.CONTENT_FILTER,
    "IMAGE_SAFETY": FinishReason.CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": FinishReason.CONTENT_FILTER,
    "IMAGE_RECITATION": FinishReason.CONTENT_FILTER,
    "ESCALATION": FinishReason.CONTENT_FILTER,
    "CONTINUATION": FinishReason.PAUSE,
}
"""Every finish reason that ends an answer, and the finish that it is."""

FAILURES: Final[Mapping[str, type[SvirError]]] = {
    "MALFORMED_FUNCTION_CALL": ServerError,
    "MALFORMED_RESPONSE": ServerError,
    "MISSING_THOUGHT_SIGNATURE": ServerError,
    "TOO_MANY_TOOL_CALLS": ServerError,
    "UNEXPECTED_TOOL_CALL": ServerError,
    "PUP_LIMITED_DISABLED": AuthenticationError,
}
"""Finish reasons that are failures: there is no answer. In neither table: ``UNKNOWN_FINISH``."""

CUT: Final = frozenset({FinishReason.LENGTH, FinishReason.PAUSE, FinishReason.OTHER})
"""After these nobody knows whether arguments that are empty were to stay so."""

TOKEN: Final = "continuationToken"
"""What goes into the body of the next request after ``CONTINUATION``."""

CHUNK_KEYS: Final = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId"})
CANDIDATE_KEYS: Final = frozenset({"index", "content", "finishReason"})
"""What the codec reads of a chunk and of a candidate; the rest is kept with ``extra=True``."""

TEXT_KEYS: Final = frozenset({"text", "thought"})
"""What a part of text has when there is nothing to send back beside it."""

CALL: Final = "functionCall"
CALL_KEYS: Final = frozenset({"id", "name", "args", "partialArgs", "willContinue"})
"""What the codec reads of a call; the rest goes back beside it."""

SIGNATURE: Final = "thoughtSignature"

"""Anthropic Messages as tables: what may follow what, which delta fits which block, what a stop reason means.

Three rules hold for all of it. What stands in no table is refused, but for events, blocks and deltas of types that
nobody knows: the API may add some, and they are never fatal. A block is open from its start to its stop, one at a
time; lenient lets them overlap where nothing can be misread. An answer is whole only after a stop reason and
``message_stop``.

    START ──message──> OPEN ──block──> BLOCK ──┐ delta
                        │ ^────stop────  │ ^────┘
                        │ finish         │ finish (forgiven: the block was never stopped)
                        └──> FINISHED <──┘
                                 └──end──> COMPLETE

Source: 21 sections 9 and 11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final

import attrs

from svir_core.errors import ProtocolError, SvirError, TruncatedStreamError
from svir_core.response import AnomalyCode, FinishReason

API_NAME: Final = "anthropic_messages"
"""The name of this API, and the ``Opaque.api`` of continuation data that came from it."""

SOURCE: Final = "thinking"
"""The source of reasoning, and the type of its blocks."""

DELTA: Final = "content_block_delta"
"""The event that nearly all of a stream consists of."""

STOP: Final = "message_stop"
"""The event that ends an answer."""

DONE: Final = b"[DONE]"
"""What some compatible servers add. It ends nothing."""


class State(Enum):
    """How far the answer is."""

    __hash__ = object.__hash__  # Enum's own is written in Python; these are looked up for every event

    START = auto()
    OPEN = auto()
    """Begun, and no block is open."""
    BLOCK = auto()
    """A block is open; in lenient mode perhaps several."""
    FINISHED = auto()
    COMPLETE = auto()


class Move(Enum):
    """What an event brings."""

    __hash__ = object.__hash__

    MESSAGE = auto()
    """``message_start``."""
    BLOCK = auto()
    """``content_block_start``."""
    DELTA = auto()
    """``content_block_delta`` of a block that is open."""
    STRAY_DELTA = auto()
    """... of an index that no block has had."""
    STOP = auto()
    """``content_block_stop`` of a block that is open."""
    STRAY_STOP = auto()
    """... of an index that no open block has."""
    USAGE = auto()
    """``message_delta`` without a stop reason."""
    FINISH = auto()
    """``message_delta`` with one."""
    END = auto()
    """``message_stop``."""


@attrs.frozen
class Forgiven:
    """A move that the protocol has no place for: strict refuses it, lenient goes on with ``state``."""

    state: State


Refusal = tuple[type[SvirError], str]
Step = State | Forgiven | Refusal

_EARLY: Final = (TruncatedStreamError, "the stream ended before the stop reason")
_LATE: Final = (ProtocolError, "the answer goes on after its stop reason")
_ENDED: Final = (ProtocolError, "the answer goes on after its end")
_CLOSED: Final = (ProtocolError, "an event of a block that is not open")

MOVES: Final[Mapping[State, Mapping[Move, Step]]] = {
    State.START: {
        Move.MESSAGE: State.OPEN,
        Move.BLOCK: Forgiven(State.BLOCK),
        Move.DELTA: _CLOSED,
        Move.STRAY_DELTA: Forgiven(State.BLOCK),
        Move.STOP: _CLOSED,
        Move.STRAY_STOP: Forgiven(State.START),
        Move.USAGE: Forgiven(State.START),
        Move.FINISH: Forgiven(State.FINISHED),
        Move.END: _EARLY,
    },
    State.OPEN: {
        Move.MESSAGE: Forgiven(State.OPEN),
        Move.BLOCK: State.BLOCK,
        Move.DELTA: _CLOSED,
        Move.STRAY_DELTA: Forgiven(State.BLOCK),
        Move.STOP: _CLOSED,
        Move.STRAY_STOP: Forgiven(State.OPEN),
        Move.USAGE: State.OPEN,
        Move.FINISH: State.FINISHED,
        Move.END: _EARLY,
    },
    State.BLOCK: {
        Move.MESSAGE: Forgiven(State.BLOCK),
        Move.BLOCK: Forgiven(State.BLOCK),
        Move.DELTA: State.BLOCK,
        Move.STRAY_DELTA: Forgiven(State.BLOCK),
        Move.STOP: State.OPEN,  # BLOCK while another is open
        Move.STRAY_STOP: Forgiven(State.BLOCK),
        Move.USAGE: Forgiven(State.BLOCK),
        Move.FINISH: Forgiven(State.FINISHED),
        Move.END: _EARLY,
    },
    State.FINISHED: {
        Move.MESSAGE: Forgiven(State.FINISHED),
        Move.BLOCK: _LATE,
        Move.DELTA: _LATE,
        Move.STRAY_DELTA: _LATE,
        Move.STOP: Forgiven(State.FINISHED),
        Move.STRAY_STOP: Forgiven(State.FINISHED),
        Move.USAGE: State.FINISHED,
        Move.FINISH: State.FINISHED,
        Move.END: State.COMPLETE,
    },
    State.COMPLETE: dict.fromkeys(Move, _ENDED),
}


def step(state: State, move: Move, forgive: Callable[[AnomalyCode], None]) -> State:
    """The state after ``move``. Raises what the table says when the move is not legal, and asks ``forgive`` where
    that depends on the mode."""
    after = MOVES[state][move]
    if isinstance(after, State):
        return after
    if isinstance(after, Forgiven):
        forgive(AnomalyCode.OUT_OF_ORDER)
        return after.state
    error, detail = after
    raise error(detail)


FINISHES: Final[Mapping[str, FinishReason]] = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "pause_turn": FinishReason.PAUSE,
    "compaction": FinishReason.PAUSE,
    "refusal": FinishReason.REFUSAL,
}
"""Every stop reason, and the finish that it is. Not here: ``UNKNOWN_FINISH``."""

CUT: Final = frozenset({FinishReason.LENGTH, FinishReason.OTHER})
"""After these nobody knows whether arguments that are empty were to stay so."""

TEXT: Final = "text"
CALL: Final = "tool_use"
FALLBACK: Final = "fallback"
"""The block that says that another model goes on."""

DELTAS: Final[Mapping[str, str]] = {
    "text_delta": TEXT,
    "citations_delta": TEXT,
    "thinking_delta": SOURCE,
    "signature_delta": SOURCE,
    "input_json_delta": CALL,
    "compaction_delta": "compaction",
}
"""Every delta, and the type of block it belongs to, among those that become neutral parts. Blocks that are kept as
they come take any."""

MESSAGE_KEYS: Final = frozenset({"id", "type", "role", "model", "content", "stop_reason", "usage"})
"""What the codec reads of a message; the rest is kept with ``extra=True``."""

EVENT_KEYS: Final = frozenset({"type", "delta", "usage"})
"""What it reads of ``message_delta``; the rest is kept with ``extra=True``."""

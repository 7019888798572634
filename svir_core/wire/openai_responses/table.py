"""OpenAI Responses as tables: which events are known, what may follow what, what an end means (20 sections 9 and 11).

Three rules hold for all of it. An event that stands in no table is nothing, in both modes: the API grows. What came
out of order is taken, or left out, only where it can make neither the answer nor a call wrong; strict refuses it all
the same. An answer is whole only at ``response.completed`` or ``response.incomplete``; what follows is not read.

    the response   START ──created──> OPEN ──completed, incomplete──> OVER (failed: an error, from anywhere)
    an item        ABSENT ──output_item.added──> OPEN ──output_item.done──> CLOSED
    a part         ABSENT ──content_part.added──> OPEN ──output_text.done, content_part.done──> CLOSED
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

import attrs

from svir_core.errors import ProtocolError
from svir_core.response import AnomalyCode, FinishReason
from svir_core.wire.policy import Forgive

API_NAME: Final = "openai_responses"
"""The name of this API, and the ``Opaque.api`` of what came from it."""

DONE: Final = b"[DONE]"
"""What gateways append to a stream of this API; it means nothing here."""

RESPONSE_KEYS: Final = frozenset(
    {"id", "object", "created_at", "status", "model", "output", "output_text", "error", "incomplete_details", "usage"}
)
EVENT_KEYS: Final = frozenset({"type", "sequence_number", "response", "error"})
"""What the codec reads of the last response and its event; the rest is kept with ``extra=True``."""


# --- what may follow what ------------------------------------------------------------------------


class State(Enum):
    """How far a response, an item or a part is."""

    __hash__ = object.__hash__  # Enum's own is written in Python; these are looked up for every event

    ABSENT = auto()
    OPEN = auto()
    CLOSED = auto()


class Step(Enum):
    """What an event does to a response, an item or a part."""

    __hash__ = object.__hash__

    OPENS = auto()
    GROWS = auto()
    CLOSES = auto()


class Ruling(Enum):
    """What becomes of a step."""

    TAKEN = auto()
    FORGIVEN = auto()
    """Out of order: strict refuses it, lenient takes it."""
    LEFT_OUT = auto()
    """Out of order: strict refuses it, lenient leaves it out."""
    REFUSED = auto()
    """In both modes: which item or part is meant would be a guess."""


_IN_ORDER: Final = {
    State.ABSENT: {Step.OPENS: Ruling.TAKEN, Step.GROWS: Ruling.FORGIVEN, Step.CLOSES: Ruling.FORGIVEN},
    State.OPEN: {Step.GROWS: Ruling.TAKEN, Step.CLOSES: Ruling.TAKEN},
    State.CLOSED: {Step.GROWS: Ruling.LEFT_OUT},
}

RESPONSES: Final[Mapping[State, Mapping[Step, Ruling]]] = {
    State.ABSENT: _IN_ORDER[State.ABSENT],
    State.OPEN: {**_IN_ORDER[State.OPEN], Step.OPENS: Ruling.LEFT_OUT},
}
"""``response.created`` opens, what its items do lets it grow, its last event closes it: then nothing is read."""

ITEMS: Final[Mapping[State, Mapping[Step, Ruling]]] = {
    State.ABSENT: _IN_ORDER[State.ABSENT],
    State.OPEN: {**_IN_ORDER[State.OPEN], Step.OPENS: Ruling.REFUSED},
    State.CLOSED: {**_IN_ORDER[State.CLOSED], Step.OPENS: Ruling.REFUSED, Step.CLOSES: Ruling.LEFT_OUT},
}
"""An item that opens twice is two items in one place. What comes after its end is left out: the end has it all."""

PARTS: Final[Mapping[State, Mapping[Step, Ruling]]] = {
    State.ABSENT: _IN_ORDER[State.ABSENT],
    State.OPEN: {**_IN_ORDER[State.OPEN], Step.OPENS: Ruling.LEFT_OUT},
    State.CLOSED: {**_IN_ORDER[State.CLOSED], Step.OPENS: Ruling.LEFT_OUT, Step.CLOSES: Ruling.TAKEN},
}
"""A part ends twice: with its text, and as a part."""

AFTER: Final[Mapping[Step, State]] = {Step.OPENS: State.OPEN, Step.GROWS: State.OPEN, Step.CLOSES: State.CLOSED}
"""Where a step that is taken leads. A second end, and nothing else, comes to what is closed."""


def taken(rulings: Mapping[State, Mapping[Step, Ruling]], state: State, step: Step, forgive: Forgive) -> bool:
    """Whether ``step`` is taken in ``state``; ``ProtocolError`` for what no mode takes, and in strict for what is out
    of order."""
    ruling = rulings[state][step]
    if ruling is Ruling.REFUSED:
        raise ProtocolError("an item was opened twice")
    if ruling is not Ruling.TAKEN:
        forgive(AnomalyCode.OUT_OF_ORDER)
    return ruling is not Ruling.LEFT_OUT


# --- texts and calls -----------------------------------------------------------------------------

MESSAGE: Final = "message"
REASONING: Final = "reasoning"
FUNCTION: Final = "function_call"
CUSTOM: Final = "custom_tool_call"

CALL_TEXTS: Final = {FUNCTION: "arguments", CUSTOM: "input"}
"""The items that are calls, and where each has what it is called with."""

SUMMARY_SOURCE: Final = "reasoning_summary"
RAW_SOURCE: Final = "reasoning_text"


@attrs.frozen
class Kind:
    """A part that is a text.

    Attributes:
        item: the type of item that has such parts.
        list: where they stand in it.
        index: the key by which an event names one.
        text: the key of the text in a part.
        source: of reasoning; ``None`` for what is said.
    """

    item: str
    list: str
    index: str
    text: str
    source: str | None


KINDS: Final[Mapping[str, Kind]] = {
    "output_text": Kind(MESSAGE, "content", "content_index", "text", None),
    "refusal": Kind(MESSAGE, "content", "content_index", "refusal", None),
    "summary_text": Kind(REASONING, "summary", "summary_index", "text", SUMMARY_SOURCE),
    "reasoning_text": Kind(REASONING, "content", "content_index", "text", RAW_SOURCE),
}
"""The parts that are texts, by ``type``. Parts of other types are kept, in their place, with the item."""


# --- events --------------------------------------------------------------------------------------


@attrs.frozen
class TextEvent:
    """An event about the text of a part: a piece of it, or all of it, as ``key``."""

    part: str
    step: Step
    key: str


TEXT_EVENTS: Final[Mapping[str, TextEvent]] = {
    "response.output_text.delta": TextEvent("output_text", Step.GROWS, "delta"),
    "response.output_text.done": TextEvent("output_text", Step.CLOSES, "text"),
    "response.refusal.delta": TextEvent("refusal", Step.GROWS, "delta"),
    "response.refusal.done": TextEvent("refusal", Step.CLOSES, "refusal"),
    "response.reasoning_summary_text.delta": TextEvent("summary_text", Step.GROWS, "delta"),
    "response.reasoning_summary_text.done": TextEvent("summary_text", Step.CLOSES, "text"),
    "response.reasoning_text.delta": TextEvent("reasoning_text", Step.GROWS, "delta"),
    "response.reasoning_text.done": TextEvent("reasoning_text", Step.CLOSES, "text"),
}

PART_EVENTS: Final[Mapping[str, Step]] = {
    "response.content_part.added": Step.OPENS,
    "response.content_part.done": Step.CLOSES,
    "response.reasoning_summary_part.added": Step.OPENS,
    "response.reasoning_summary_part.done": Step.CLOSES,
}


@attrs.frozen
class CallEvent:
    """An event about what a call is called with: a piece of it, or all of it, as ``key``."""

    item: str
    step: Step
    key: str


CALL_EVENTS: Final[Mapping[str, CallEvent]] = {
    "response.function_call_arguments.delta": CallEvent(FUNCTION, Step.GROWS, "delta"),
    "response.function_call_arguments.done": CallEvent(FUNCTION, Step.CLOSES, "arguments"),
    "response.custom_tool_call_input.delta": CallEvent(CUSTOM, Step.GROWS, "delta"),
    "response.custom_tool_call_input.done": CallEvent(CUSTOM, Step.CLOSES, "input"),
}

ITEM_EVENTS: Final[Mapping[str, Step]] = {
    "response.output_item.added": Step.OPENS,
    "response.output_item.done": Step.CLOSES,
}

CREATED: Final = "response.created"
ANNOUNCED: Final = frozenset({"response.queued", "response.in_progress"})
"""Events that say only how the response is doing."""

COMPLETED: Final = "completed"
CUT: Final = "incomplete"
ENDS: Final[Mapping[str, str]] = {"response.completed": COMPLETED, "response.incomplete": CUT}
"""The events that end an answer, and the status of their response."""

FAILED: Final = "response.failed"
ERROR: Final = "error"


# --- ends ----------------------------------------------------------------------------------------

FAILURES: Final = frozenset({"failed", "cancelled"})
"""The statuses of a response that is no answer."""

UNDER_WAY: Final = frozenset({"queued", "in_progress"})
"""The statuses of a response that works in the background: a document may have them, a final event may not."""

INCOMPLETE: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": FinishReason.LENGTH,
    "max_messages": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "steered": FinishReason.PAUSE,
}
"""Why a response is incomplete. Another reason: strict ``ProtocolError``, lenient ``OTHER``."""

CLIENT_CALLS: Final = frozenset({FUNCTION, CUSTOM, "computer_call", "local_shell_call", "apply_patch_call"})
"""The items that a client must answer, whatever they hold."""

APPROVAL: Final = "mcp_approval_request"

"""Why an answer ended: nothing on this wire says it, so it is derived (20 section 11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from svir_core.response import AnomalyCode, FinishReason
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.openai_responses.item import Item
from svir_core.wire.openai_responses.table import (
    APPROVAL,
    CLIENT_CALLS,
    COMPLETED,
    CUT,
    INCOMPLETE,
    UNDER_WAY,
    Forgive,
)


def _is_local(fields: Json) -> bool:
    environment = fields.get("environment")
    return is_object(environment) and environment.get("type") == "local"


def _is_for_client(item: Item) -> bool:
    if item.type == "shell_call":
        return _is_local(item.fields)
    if item.type == "tool_search_call":
        return item.fields.get("execution") == "client"
    return item.type in CLIENT_CALLS


def _calls(items: Sequence[Item]) -> bool:
    return any(_is_for_client(item) for item in items)


def _awaits_approval(items: Sequence[Item]) -> bool:
    return any(item.type == APPROVAL for item in items)


def _refuses(items: Sequence[Item]) -> bool:
    speeches = [item.speech for item in items if item.speech is not None]
    refusals = [text for speech in speeches for text in speech.texts("refusal")]
    return bool(refusals) and not any("".join(speech.texts("output_text")) for speech in speeches)


ANSWERS: Final[Sequence[tuple[Callable[[Sequence[Item]], bool], FinishReason]]] = (
    (_calls, FinishReason.TOOL_CALLS),
    (_awaits_approval, FinishReason.PAUSE),
    (_refuses, FinishReason.REFUSAL),
    (lambda _: True, FinishReason.STOP),
)
"""What a completed response is: the first row that holds."""


def finish_of(
    response: Json, status: str | None, items: Sequence[Item], forgive: Forgive
) -> tuple[FinishReason, str | None]:
    """Why a response ended, and the server's word for it: the reason of one that is incomplete, else its status."""
    if status == COMPLETED:
        return next(finish for holds, finish in ANSWERS if holds(items)), status
    if status in UNDER_WAY:
        return FinishReason.PAUSE, status
    details = response.get("incomplete_details")
    reason = details.get("reason") if status == CUT and is_object(details) else None
    word = reason or status
    finish = INCOMPLETE.get(reason) if isinstance(reason, str) else None
    if finish is None:
        forgive(AnomalyCode.UNKNOWN_FINISH)
    return finish or FinishReason.OTHER, word if isinstance(word, str) else None

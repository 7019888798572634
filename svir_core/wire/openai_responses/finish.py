"""Why an answer ended: nothing on this wire says it, so it is derived (20 section 11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from svir_core.response import AnomalyCode, FinishReason
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.openai_responses.table import (
    APPROVAL,
    CLIENT_CALLS,
    COMPLETED,
    CUT,
    INCOMPLETE,
    UNDER_WAY,
)
from svir_core.wire.policy import Forgive


@attrs.frozen
class Told:
    """What an item counts for.

    Attributes:
        fields: the item.
        refusal: whether it has a refusal that says something.
        text: whether it has a text that is none.
    """

    fields: Json
    refusal: bool = False
    text: bool = False


def _is_local(fields: Json) -> bool:
    environment = fields.get("environment")
    return is_object(environment) and environment.get("type") == "local"


def _is_for_client(fields: Json) -> bool:
    kind = fields["type"]
    if kind == "shell_call":
        return _is_local(fields)
    if kind == "tool_search_call":
        return fields.get("execution") == "client"
    return kind in CLIENT_CALLS


def _calls(items: Sequence[Told]) -> bool:
    return any(_is_for_client(item.fields) for item in items)


def _awaits_approval(items: Sequence[Told]) -> bool:
    return any(item.fields["type"] == APPROVAL for item in items)


def _refuses(items: Sequence[Told]) -> bool:
    return any(item.refusal for item in items) and not any(item.text for item in items)


ANSWERS: Final[Sequence[tuple[Callable[[Sequence[Told]], bool], FinishReason]]] = (
    (_calls, FinishReason.TOOL_CALLS),
    (_awaits_approval, FinishReason.PAUSE),
    (_refuses, FinishReason.REFUSAL),
    (lambda _: True, FinishReason.STOP),
)
"""What a completed response is: the first row that holds."""


def completed(items: Sequence[Told]) -> FinishReason:
    """The finish of a response that was completed."""
    return next(finish for holds, finish in ANSWERS if holds(items))


def finish_of(
    response: Json, status: str | None, items: Sequence[Told], forgive: Forgive
) -> tuple[FinishReason, str | None]:
    """Why a response ended, and the server's word for it: the reason of one that is incomplete, else its status."""
    if status == COMPLETED:
        return completed(items), status
    if status in UNDER_WAY:
        return FinishReason.PAUSE, status
    details = response.get("incomplete_details")
    reason = details.get("reason") if status == CUT and is_object(details) else None
    word = reason if isinstance(reason, str) and reason else None
    finish = INCOMPLETE.get(word or "")
    if finish is None:
        forgive(AnomalyCode.UNKNOWN_FINISH)
    return finish or FinishReason.OTHER, word or status

"""Token counts of Anthropic Messages: several reports of one answer, merged figure by figure (21 section 10).

Every figure is a total so far: the latest that is there wins, and none is ever added to an earlier one.
"""

from __future__ import annotations

from typing import Final

from svir_core.response import Usage
from svir_core.wire.json_value import Json, is_count, is_object

PARTS_OF_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""What the input is the sum of: ``input_tokens`` alone leaves out what the cache had or took."""

DETAILS: Final = "output_tokens_details"
THINKING: Final = "thinking_tokens"


def is_report(report: Json) -> bool:
    """Whether every figure of ``report`` that the codec reads is a count, or absent."""
    details = report.get(DETAILS)
    if details is not None and not is_object(details):
        return False
    figures = [report.get(name) for name in (*PARTS_OF_INPUT, "output_tokens")]
    if details is not None:
        figures.append(details.get(THINKING))
    return all(is_count(figure) for figure in figures)


def merge(known: Json, report: Json) -> None:
    """Add what ``report`` says to what was ``known``."""
    known.update((name, figure) for name, figure in report.items() if figure is not None)


def read(known: Json) -> Usage | None:
    """The usage that was told so far; ``None`` when none was."""
    if not known:
        return None
    details = known.get(DETAILS)
    fresh, written, cached = (known.get(name) for name in PARTS_OF_INPUT)
    return Usage(
        input=None if fresh is None else fresh + (written or 0) + (cached or 0),
        output=known.get("output_tokens"),
        reasoning=details.get(THINKING) if is_object(details) else None,
        cache_read=cached,
        cache_write=written,
    )

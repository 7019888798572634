"""Token counts of Gemini: running totals with every chunk, overlaid figure by figure (22 section 9).

Three rules hold for all of it. The latest figure that is there wins; none is ever added to an earlier one. Thoughts
are output that ``candidatesTokenCount`` leaves out, and what tools of the server brought is input that
``promptTokenCount`` leaves out. A figure that is not there is not zero.
"""

from __future__ import annotations

from typing import Final

from svir_core.response import Usage
from svir_core.wire.json_value import Json, is_count

FIGURES: Final = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
    "totalTokenCount",
)


def is_report(report: Json) -> bool:
    """Whether every figure of ``report`` that the codec reads is a count, or absent."""
    return all(is_count(report.get(name)) for name in FIGURES)


def merged(known: Json, report: Json) -> Json:
    """What is known after ``report``, where ``known`` was before."""
    return {**known, **{name: figure for name, figure in report.items() if figure is not None}}


def read(known: Json) -> Usage | None:
    """The usage that was told so far; ``None`` when no figure was (Vertex reports a ``trafficType`` alone)."""
    prompt, tools, candidates, thoughts, cached, total = (known.get(name) for name in FIGURES)
    usage = Usage(
        input=None if prompt is None else prompt + (tools or 0),
        output=None if candidates is None and thoughts is None else (candidates or 0) + (thoughts or 0),
        total=total,
        reasoning=thoughts,
        cache_read=cached,
    )
    return None if usage == Usage() else usage

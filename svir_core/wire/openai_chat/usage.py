"""Usage reports of Chat Completions: where they stand, and what counts as one (10 section 6, 11 section A)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from svir_core.response import AnomalyCode, Usage
from svir_core.wire.json_value import Json, is_count, is_object


def reports(chunk: Json, choices: Iterable[Json]) -> list[Any]:
    """The usage reports of ``chunk``, in the order they are read: ``choices[].usage`` of those ``choices`` that are the
    answer's, ``x_groq.usage``, ``usage``. ``null`` and ``""`` are no report."""
    found: list[Any] = [choice["usage"] for choice in choices if "usage" in choice]
    if "x_groq" in chunk and is_object(chunk["x_groq"]):
        found.append(chunk["x_groq"].get("usage"))
    if "usage" in chunk:
        found.append(chunk["usage"])
    return [report for report in found if report is not None and report != ""] if found else found


def after(
    known: Usage | None,
    chunk: Json,
    choices: Iterable[Json],
    forgive: Callable[[AnomalyCode], None],
    *,
    add: bool = False,
) -> Usage | None:
    """The usage known after ``chunk``, of which ``choices`` are the answer's, where ``known`` was before. With ``add``
    what each chunk reports is an increment (``USAGE_INCREMENTS``)."""
    found = reports(chunk, choices)
    if not found:
        return known
    before, known = (known, None) if add else (None, known)
    for report in found:
        figures = read(report)
        if figures is None:
            forgive(AnomalyCode.USAGE_INCOMPLETE)
            continue
        if known is not None and figures != known:
            forgive(AnomalyCode.USAGE_REPEATED)
        known = figures
    return _sum(before, known)


def _sum(first: Usage | None, second: Usage | None) -> Usage | None:
    """Both together; what only one of them reports is that one's."""
    if first is None or second is None:
        return first or second
    pairs = zip(attrs.astuple(first), attrs.astuple(second), strict=True)
    return Usage(*((one or 0) + (other or 0) if one is not None or other is not None else None for one, other in pairs))


def read(report: Any) -> Usage | None:
    """The figures of ``report``; ``None`` when it is no object, lacks ``prompt_tokens`` or ``completion_tokens``, or
    has a figure that is no count."""
    if not is_object(report):
        return None
    figures = [
        report.get("prompt_tokens"),
        report.get("completion_tokens"),
        report.get("total_tokens"),
        _detail(report, "completion_tokens_details", "reasoning_tokens"),
        _detail(report, "prompt_tokens_details", "cached_tokens"),
        _detail(report, "prompt_tokens_details", "cache_write_tokens"),
    ]
    if figures[0] is None or figures[1] is None or not all(is_count(figure) for figure in figures):
        return None
    return Usage(*figures)


def _detail(report: Json, group: str, name: str) -> Any:
    details = report.get(group)
    return details.get(name) if is_object(details) else details

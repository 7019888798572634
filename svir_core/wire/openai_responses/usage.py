"""The usage report of a response (20 section 10)."""

from __future__ import annotations

from typing import Any

from svir_core.response import Usage
from svir_core.wire.json_value import Json, is_count, is_object


def read(report: Any) -> Usage | None:
    """The figures of ``report``; ``None`` when it is no object, lacks ``input_tokens`` or ``output_tokens``, or has a
    figure that is no count."""
    if not is_object(report):
        return None
    read_details, written_details = report.get("input_tokens_details"), report.get("output_tokens_details")
    figures = [
        report.get("input_tokens"),
        report.get("output_tokens"),
        report.get("total_tokens"),
        _detail(written_details, "reasoning_tokens"),
        _detail(read_details, "cached_tokens"),
        _detail(read_details, "cache_write_tokens"),
    ]
    if figures[0] is None or figures[1] is None or not all(is_count(figure) for figure in figures):
        return None
    return Usage(*figures)


def _detail(details: Any, name: str) -> Any:
    return details.get(name) if is_object(details) else details


def written(usage: Usage) -> Json | None:
    """``usage`` as a report; ``None`` without both counts: clients refuse such a report."""
    if usage.input is None or usage.output is None:
        return None
    return {
        "input_tokens": usage.input,
        "input_tokens_details": _known(cached_tokens=usage.cache_read, cache_write_tokens=usage.cache_write),
        "output_tokens": usage.output,
        "output_tokens_details": _known(reasoning_tokens=usage.reasoning),
        "total_tokens": usage.input + usage.output if usage.total is None else usage.total,
    }


def _known(**figures: int | None) -> Json:
    return {name: figure for name, figure in figures.items() if figure is not None}

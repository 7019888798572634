"""Reasoning between markers inside the text (10 section 5)."""

from __future__ import annotations

import attrs


@attrs.frozen
class Think:
    """Where reasoning stands inside the text: how it starts, and the two markers."""

    start: str = "outside"
    markers: tuple[str, str] = ("<think>", "</think>")

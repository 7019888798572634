"""An event as one line of text that nothing in it can break, or make look like two (30 section 5)."""

from __future__ import annotations

import json
import re
from typing import Any, Final, cast

from svir_client.tracing.record import CONTENT_NAMES, TraceEvent

BARE: Final = re.compile(r"[A-Za-z0-9_.:/@+-]+")
"""What may stand without quotes: names of models, ids."""


def line(event: TraceEvent) -> str:
    """``event`` in ASCII, without a line end: what it is, then ``name=value`` pairs; what is not in ``BARE`` is JSON.

    Every control character, separator and other character beyond ASCII is escaped. The ids of spans, which are for
    programs, are left out.
    """
    document = event.document()
    pairs: dict[str, Any] = {
        name: document[name] for name in ("name", "session_id", "run_id", "operation_id") if name in document
    }
    attributes: dict[str, Any] = document["attributes"]
    for name, value in attributes.items():
        if isinstance(value, dict):
            figures = cast("dict[str, Any]", value)
            pairs |= {f"{name}.{key}": item for key, item in figures.items()}
        elif name != "model":  # it is the event's name
            pairs[name] = round(value, 6) if isinstance(value, float) else value
    content: dict[str, Any] = document.get("content", {})
    pairs |= {name: content[name] for name in CONTENT_NAMES if name in content}
    words = [document["timestamp"], f"[{document['level']}]", document["type"]]
    return " ".join([*words, *(f"{name}={value_text(value)}" for name, value in pairs.items())])


def value_text(value: Any) -> str:
    """A JSON value in visible ASCII."""
    if isinstance(value, str) and BARE.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("\x7f", "\\u007f")

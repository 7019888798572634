"""Azure's content filtering inside a stream (10 section 8)."""

from __future__ import annotations

from typing import Any

from svir_core.wire.json_value import Json, is_array, is_object
from svir_core.wire.openai_chat.table import PROMPT_REPORT_KEYS


def is_prompt_report(chunk: Json) -> bool:
    """Whether a chunk without choices is the filter's report on the prompt."""
    return any(key in chunk for key in PROMPT_REPORT_KEYS)


def is_annotation(choice: Json) -> bool:
    """Whether a choice is the asynchronous filter's: offsets, and neither a delta nor a document's message."""
    return (
        choice.get("content_filter_offsets") is not None
        and choice.get("delta") in (None, "")
        and not is_object(choice.get("message"))
    )


def blocks(results: Any) -> bool:
    """Whether filter results say ``filtered: true``, in an object or in a list, however they are nested.
    ``detected: true`` alone blocks nothing."""
    todo = [results]
    while todo:
        value = todo.pop()
        if is_object(value):
            fields = value
            if fields.get("filtered") is True:
                return True
            todo.extend(fields.values())
        elif is_array(value):
            todo.extend(value)
    return False

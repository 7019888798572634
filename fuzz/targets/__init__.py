"""The targets by name. Each file's first line is the invariant it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fuzz.check import Target
from fuzz.targets import (
    anthropic_messages,
    decode_lenient,
    decode_quirks,
    decode_strict,
    document,
    error_body,
    gemini,
    json_text,
    linear,
    openai_responses,
    opening,
    partial_json,
    slow_json,
    sse,
    think,
)

TARGETS: Final[Mapping[str, Target]] = {
    "sse": sse.TARGET,
    "opening": opening.TARGET,
    "decode_strict": decode_strict.TARGET,
    "decode_lenient": decode_lenient.TARGET,
    "decode_quirks": decode_quirks.TARGET,
    "openai_responses": openai_responses.TARGET,
    "anthropic_messages": anthropic_messages.TARGET,
    "document": document.TARGET,
    "gemini": gemini.TARGET,
    "think": think.TARGET,
    "slow_json": slow_json.TARGET,
    "partial_json": partial_json.TARGET,
    "error_body": error_body.TARGET,
    "json_text": json_text.TARGET,
    "linear": linear.TARGET,
}

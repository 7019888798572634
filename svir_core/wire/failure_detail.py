"""The ``details`` of a failure: Anthropic's object with an ``error_code``, Google's list of typed entries.

Only what changes an error is read; the rest of the details stays in the server's words.
Source: 21 section 13, 22 section 11.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from svir_core.limits import RETRY_AFTER_SECONDS
from svir_core.wire.json_value import Json, is_array, is_object, text_of

_SECONDS: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s")
"""How protocol buffers spell a duration in JSON."""

_STEP: Final = re.compile(r"_([a-z])")


@attrs.frozen
class Detail:
    """What the details say.

    Attributes:
        reason: the most special word for what went wrong: Anthropic's ``error_code``, the ``quotaId`` of a
            daily limit, Google's ``reason``.
        retry_after: seconds to wait, 0 to 30.
        param: the request field at fault.
    """

    reason: str | None = None
    retry_after: float | None = None
    param: str | None = None


def is_daily(quota: str) -> bool:
    """Whether a quota id is that of a limit per day, which waiting does not lift: ``...PerDayPerProject...``."""
    return "perday" in quota.lower().replace("_", "")


def _delay(entry: Json) -> float | None:
    found = _SECONDS.fullmatch(text_of(entry.get("retryDelay")) or "")
    return None if found is None else min(float(found[1]), RETRY_AFTER_SECONDS)


def _violations(entry: Json, key: str) -> list[str]:
    listed = entry.get(key)
    violations = listed if is_array(listed) else []
    words = [text_of(item.get("quotaId")) or text_of(item.get("field")) for item in violations if is_object(item)]
    return [word for word in words if word is not None]


def _field(path: str) -> str:
    """A field path as it is written in JSON: ``generation_config.top_k`` is ``generationConfig.topK``."""
    return _STEP.sub(lambda found: found[1].upper(), path)


def read_detail(details: Any) -> Detail:
    """What ``details`` say; nothing when they have another shape."""
    if is_object(details):
        return Detail(text_of(details.get("error_code")))
    reasons: list[str] = []
    quotas: list[str] = []
    fields: list[str] = []
    delay: float | None = None
    for entry in details if is_array(details) else ():
        if is_object(entry):
            kind = (text_of(entry.get("@type")) or "").rpartition(".")[2]
            if kind == "RetryInfo":
                told = _delay(entry)
                delay = delay if told is None else told
            elif kind == "QuotaFailure":
                quotas += _violations(entry, "violations")
            elif kind == "BadRequest":
                fields += _violations(entry, "fieldViolations")
            elif kind == "ErrorInfo" and (reason := text_of(entry.get("reason"))) is not None:
                reasons.append(reason)
    daily = [quota for quota in quotas if is_daily(quota)]
    reason = next(iter([*daily, *reasons]), None)
    return Detail(reason, delay, _field(fields[0]) if fields else None)

"""What the word of a failure means: one table for the error bodies of every wire API, and for their streams but those
of Chat Completions, which know an overflow and a failed server alone (10 section 7).

Three rules hold for all of it. A failure is judged by its words (code, type, status), never by its
prose, except for an overflow, which some servers tell in prose alone. A word that is not in the table
means what its status means, and inside a stream that the server failed. A quota that is used up is a
rate limit that waiting does not lift.
Source: 20 section 12, 21 section 13, 22 section 11, 10 sections 7 and 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from svir_core.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    RateLimitedError,
    ResponseTimeoutError,
    ServerError,
    SvirError,
)
from svir_core.wire.failure import Failure, tells_overflow
from svir_core.wire.failure_detail import is_daily


@attrs.frozen
class Verdict:
    """The class of an error, and whether it is worth another try where that is not what the class says."""

    error: type[SvirError]
    retryable: bool | None = None


LIMITED: Final = Verdict(RateLimitedError)
USED_UP: Final = Verdict(RateLimitedError, retryable=False)
REFUSED: Final = Verdict(AuthenticationError)
FILTERED: Final = Verdict(ContentFilterError)
OVERFLOW: Final = Verdict(ContextOverflowError)
SERVER: Final = Verdict(ServerError)

WORDS: Final[Mapping[str, Verdict]] = {
    # OpenAI
    "rate_limit_exceeded": LIMITED,
    "slow_down": LIMITED,
    "server_is_overloaded": LIMITED,
    "insufficient_quota": USED_UP,
    "credit_balance_exhausted": USED_UP,
    "invalid_api_key": REFUSED,
    "content_filter": FILTERED,
    "invalid_prompt": FILTERED,
    # Anthropic
    "rate_limit_error": LIMITED,
    "overloaded_error": LIMITED,
    "billing_error": USED_UP,
    "authentication_error": REFUSED,
    "permission_error": REFUSED,
    "timeout_error": Verdict(ResponseTimeoutError),
    # Google
    "RESOURCE_EXHAUSTED": LIMITED,
    "UNAVAILABLE": LIMITED,
    "UNAUTHENTICATED": REFUSED,
    "PERMISSION_DENIED": REFUSED,
    "API_KEY_INVALID": REFUSED,
    "DEADLINE_EXCEEDED": Verdict(ResponseTimeoutError),
}
"""The code, type or status of a failure, and what it means. Open sets all of them: new words are added here."""

FAMILIES: Final[Mapping[str, Verdict]] = {
    "spend_limit_reached": USED_UP,  # Anthropic: one word per limit
    "_policy": FILTERED,  # OpenAI: bio_policy, content_policy_violation
}
"""What a word of a family holds."""

WORD_CHARACTERS: Final = 128
"""A longer word is prose, and of no family: the longest known quota id has 79."""


def _meaning(word: str) -> Verdict | None:
    known = WORDS.get(word)
    if known is not None or len(word) > WORD_CHARACTERS:
        return known
    if is_daily(word):
        return USED_UP
    return next((means for family, means in FAMILIES.items() if family in word), None)


def verdict(failure: Failure) -> Verdict | None:
    """What ``failure`` means by its words; ``None`` when no table has them. The more special word wins: the quota or
    the reason, then the code, then the type; prose comes last."""
    for word in (failure.reason, failure.code, failure.type):
        found = None if word is None else _meaning(word)
        if found is not None:
            return found
    return OVERFLOW if failure.overflow else None


def overflow_or_server(failure: Failure, payload: str) -> Verdict:
    """What ``failure`` means inside a stream of Chat Completions: an overflow, or that the server failed (10 section
    7). A failure without words of its own is judged by ``payload``, as it was sent."""
    overflow = failure.overflow or (failure.message is None and tells_overflow(payload))
    return OVERFLOW if overflow else SERVER


def stream_verdict(failure: Failure, payload: str) -> Verdict:
    """What ``failure`` means inside a stream of the other APIs: what its words say, else that the server failed."""
    return verdict(failure) or overflow_or_server(failure, payload)

"""What a server says about its rate limits, read from the head of a response (30 section 2)."""

from __future__ import annotations

import re
from typing import Final

import attrs

from svir_core.http_message import ResponseHead

COUNT: Final = re.compile(r"[0-9]{1,15}")
"""A count of requests or tokens: fifteen digits are more than any quota, and exact as a float too."""

_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"
_UNIT = r"ms|us|ns|d|h|m|s"
DURATION: Final = re.compile(rf"(?:{_NUMBER}(?:{_UNIT})){{1,8}}|{_NUMBER}")
"""``6m0s``, ``17ms``, ``2m59.56s`` (OpenAI, Groq), or plain seconds (vLLM gateways, Azure)."""

PIECE: Final = re.compile(rf"([0-9.]+)({_UNIT})")

SECONDS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@attrs.frozen
class RateLimit:
    """The ``x-ratelimit-*`` headers of one response. A figure the server did not give, or gave in
    words nobody knows, is ``None``; it is never zero by default.

    Attributes:
        limit_requests, limit_tokens: how many a window allows.
        remaining_requests, remaining_tokens: how many are left of it.
        reset_requests, reset_tokens: seconds until the window is full again.
    """

    limit_requests: int | None = None
    remaining_requests: int | None = None
    reset_requests: float | None = None
    limit_tokens: int | None = None
    remaining_tokens: int | None = None
    reset_tokens: float | None = None


def _count(value: str | None) -> int | None:
    return int(value) if value is not None and COUNT.fullmatch(value) else None


def _seconds(value: str | None) -> float | None:
    if value is None or not DURATION.fullmatch(value):
        return None
    pieces = PIECE.findall(value)
    return sum(float(number) * SECONDS[unit] for number, unit in pieces) if pieces else float(value)


def read_rate_limit(head: ResponseHead) -> RateLimit | None:
    """The rate limits in ``head``; ``None`` when it names none that can be read."""
    limits = RateLimit(
        limit_requests=_count(head.get("x-ratelimit-limit-requests")),
        remaining_requests=_count(head.get("x-ratelimit-remaining-requests")),
        reset_requests=_seconds(head.get("x-ratelimit-reset-requests")),
        limit_tokens=_count(head.get("x-ratelimit-limit-tokens")),
        remaining_tokens=_count(head.get("x-ratelimit-remaining-tokens")),
        reset_tokens=_seconds(head.get("x-ratelimit-reset-tokens")),
    )
    return None if limits == RateLimit() else limits

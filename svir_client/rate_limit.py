"""What a server says about its rate limits, read from the head of a response (30 sections 2 and 3)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
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

MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,15})?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
"""A moment of RFC 3339 (Anthropic). ``datetime.fromisoformat`` would take more, and no leap second."""


@attrs.frozen
class RateLimit:
    """What the headers of one response say. A figure the server did not give, or gave in words nobody
    knows, is ``None``; it is never zero by default.

    ``x-ratelimit-{limit,remaining,reset}-{requests,tokens}`` (OpenAI and others) count before
    ``anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}``.

    Attributes:
        limit_requests, limit_tokens, limit_input_tokens, limit_output_tokens: how many a window allows.
        remaining_requests, remaining_tokens, ...: how many are left of it.
        reset_requests, reset_tokens, ...: seconds until the window is full again; of a moment that a server gives,
            from when this was read, 0 when it has passed.
    """

    limit_requests: int | None = None
    remaining_requests: int | None = None
    reset_requests: float | None = None
    limit_tokens: int | None = None
    remaining_tokens: int | None = None
    reset_tokens: float | None = None
    limit_input_tokens: int | None = None
    remaining_input_tokens: int | None = None
    reset_input_tokens: float | None = None
    limit_output_tokens: int | None = None
    remaining_output_tokens: int | None = None
    reset_output_tokens: float | None = None

    def windows(self) -> tuple[tuple[int | None, float | None], ...]:
        """What is left and when it is full again, of requests, tokens, input tokens, output tokens."""
        return (
            (self.remaining_requests, self.reset_requests),
            (self.remaining_tokens, self.reset_tokens),
            (self.remaining_input_tokens, self.reset_input_tokens),
            (self.remaining_output_tokens, self.reset_output_tokens),
        )


def _count(value: str | None) -> int | None:
    return int(value) if value is not None and COUNT.fullmatch(value) else None


def _seconds(value: str | None) -> float | None:
    if value is None or not DURATION.fullmatch(value):
        return None
    pieces = PIECE.findall(value)
    return sum(float(number) * SECONDS[unit] for number, unit in pieces) if pieces else float(value)


def _moment(value: str | None) -> float | None:
    """A moment of RFC 3339 as seconds since the epoch."""
    found = None if value is None else MOMENT.fullmatch(value)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    try:
        # 60 is a leap second, which datetime does not know
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), tzinfo=UTC) - offset
        return (moment + timedelta(seconds=int(second))).timestamp() + float(fraction or 0)
    except (ValueError, OverflowError):
        return None


def read_rate_limit(head: ResponseHead, now: Callable[[], float] = time.time) -> RateLimit | None:
    """The rate limits in ``head``; ``None`` when it names none that can be read. ``now`` gives seconds since the
    epoch, for servers that name a moment."""

    def count(what: str, figure: str) -> int | None:
        common = _count(head.get(f"x-ratelimit-{figure}-{what}"))
        return _count(head.get(f"anthropic-ratelimit-{what}-{figure}")) if common is None else common

    def reset(what: str) -> float | None:
        common = _seconds(head.get(f"x-ratelimit-reset-{what}"))
        if common is not None:
            return common
        moment = _moment(head.get(f"anthropic-ratelimit-{what}-reset"))
        return None if moment is None else max(moment - now(), 0.0)

    limits = RateLimit(
        limit_requests=count("requests", "limit"),
        remaining_requests=count("requests", "remaining"),
        reset_requests=reset("requests"),
        limit_tokens=count("tokens", "limit"),
        remaining_tokens=count("tokens", "remaining"),
        reset_tokens=reset("tokens"),
        limit_input_tokens=count("input-tokens", "limit"),
        remaining_input_tokens=count("input-tokens", "remaining"),
        reset_input_tokens=reset("input-tokens"),
        limit_output_tokens=count("output-tokens", "limit"),
        remaining_output_tokens=count("output-tokens", "remaining"),
        reset_output_tokens=reset("output-tokens"),
    )
    return None if limits == RateLimit() else limits

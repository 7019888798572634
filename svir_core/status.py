"""What a status means: one table, and the reader of ``Retry-After`` (10 section 11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from svir_core.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    RateLimitedError,
    ResponseTimeoutError,
    SvirError,
    TransportError,
    UnsupportedError,
)
from svir_core.http_message import ResponseHead
from svir_core.limits import RETRY_AFTER_SECONDS
from svir_core.wire.failure import Failure
from svir_core.wire.verdict import Verdict, verdict

STATUSES: Final[Mapping[int, type[SvirError]]] = {
    401: AuthenticationError,
    403: AuthenticationError,
    408: ResponseTimeoutError,
    425: TransportError,
    429: RateLimitedError,
    500: TransportError,
    502: TransportError,
    503: TransportError,
    504: ResponseTimeoutError,
    520: TransportError,
    521: TransportError,
    522: TransportError,
    523: TransportError,
    524: TransportError,
    529: RateLimitedError,
}
"""The error of a status that is no success; any other status is ``UnsupportedError``."""

JUDGED_BY_BODY: Final = frozenset({400, 413, 422})
"""Statuses whose body decides: an overflow or a filtered prompt is told there (10 section 9)."""

RETRIED_LEAN: Final = frozenset({400, 422})
"""Statuses after which a request goes out once more, without its optional fields."""

_WORDS: Final[Mapping[type[SvirError], str]] = {
    AuthenticationError: "the server did not accept the key",
    ContentFilterError: "the server's content filter refused the prompt",
    ContextOverflowError: "the request does not fit the model's context",
    RateLimitedError: "the server wants fewer requests",
    ResponseTimeoutError: "the server gave up waiting",
    TransportError: "the server or a gateway before it failed",
    UnsupportedError: "the server did not take the request",
}

_STATUS_WORDS: Final[Mapping[int, str]] = {
    304: "the server says nothing has changed, though nothing was asked of that",
    404: "nothing is there by that path or model: look at the base URL and the model's name",
    405: "that path does not take such a request: look at the base URL",
}
"""Where the status says more than its kind."""

REDIRECT: Final = "redirects are not followed"


BODY_VERDICTS: Final = (AuthenticationError, ContentFilterError, ContextOverflowError)
"""What a body may say where it decides; Google answers 400 to a wrong key."""


def status_verdict(status: int, failure: Failure) -> Verdict:
    """What ``status`` means; ``failure`` counts where the body decides, and for how long a limit lasts."""
    said = verdict(failure)
    if said is not None and status in JUDGED_BY_BODY and said.error in BODY_VERDICTS:
        return said
    kind = STATUSES.get(status, UnsupportedError)
    return said if said is not None and said.error is kind else Verdict(kind)


def status_error(status: int, failure: Failure, retry_after: float | None) -> SvirError:
    """The error of a response with ``status``, whose body said ``failure``."""
    means = status_verdict(status, failure)
    words = _STATUS_WORDS.get(status, REDIRECT if 300 <= status < 400 else _WORDS[means.error])
    return means.error(
        f"status {status}: {words}",
        status=status,
        retry_after=failure.retry_after if retry_after is None else retry_after,
        server_message=failure.message,
        retryable=means.retryable,
    )


_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES: Final = (
    re.compile(rf"[a-z]{{3}}, (?P<day>[0-9]{{2}}) (?P<month>[a-z]{{3}}) (?P<year>[0-9]{{4}}) {_TIME} (?:gmt|utc)"),
    re.compile(rf"[a-z]+, (?P<day>[0-9]{{2}})-(?P<month>[a-z]{{3}})-(?P<year>[0-9]{{2}}) {_TIME} (?:gmt|utc)"),
    re.compile(rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)
"""The three forms of RFC 9110 section 5.6.7, in lower case. ``strptime`` would read the user's locale."""


def _date(text: str, now: float) -> float | None:
    """An HTTP date as seconds since the epoch; a year of two digits lies at most 50 years ahead of ``now``."""
    for form in _DATES:
        found = form.fullmatch(text.lower())
        if found is None:
            continue
        year = int(found["year"])
        if len(found["year"]) == 2:
            this_year = datetime.fromtimestamp(now, UTC).year
            year += this_year - this_year % 100
            year -= 100 if year > this_year + 50 else 0
        try:
            # 60 is a leap second, which datetime does not know
            moment = datetime(
                year,
                _MONTHS.index(found["month"]) + 1,
                int(found["day"]),
                int(found["hour"]),
                int(found["minute"]),
                tzinfo=UTC,
            ) + timedelta(seconds=int(found["second"]))
        except (ValueError, OverflowError):
            return None
        return moment.timestamp()
    return None


def retry_after_of(head: ResponseHead, now: float) -> float | None:
    """How long a response asks to wait; ``retry-after-ms`` (OpenAI, Anthropic) counts before ``retry-after``."""
    milliseconds = (head.get("retry-after-ms") or "").strip(" \t")
    if _SECONDS.fullmatch(milliseconds):
        return min(float(milliseconds) / 1000, RETRY_AFTER_SECONDS)
    return retry_after(head.get("retry-after"), now)


def retry_after(value: str | None, now: float) -> float | None:
    """How long a ``Retry-After`` asks to wait, 0 to 30 seconds; ``None`` for none, or one that cannot be read.

    Seconds may have a fraction. A date is taken against ``now`` (seconds since the epoch); one that
    has passed is 0. What is negative, not finite, or no number is no wish at all.
    """
    if value is None:
        return None
    text = value.strip(" \t")
    if _SECONDS.fullmatch(text):
        return min(float(text), RETRY_AFTER_SECONDS)
    date = _date(text, now)
    return None if date is None else min(max(date - now, 0.0), RETRY_AFTER_SECONDS)

"""Rate limits as servers write them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.rate_limit import RateLimit, read_rate_limit
from svir_core.http_message import ResponseHead

FIGURES = ("limit", "remaining", "reset")
NAMES = [
    *(f"x-ratelimit-{figure}-{what}" for figure in FIGURES for what in ("requests", "tokens")),
    *(
        f"anthropic-ratelimit-{what}-{figure}"
        for figure in FIGURES
        for what in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
]
NOW = 1_768_473_000.0
"""2026-01-15T10:30:00Z."""


def head(**headers: str) -> ResponseHead:
    return ResponseHead(200, [(name.replace("_", "-"), value) for name, value in headers.items()])


def test_every_figure() -> None:
    given_head = head(
        x_ratelimit_limit_requests="60",
        X_RateLimit_Remaining_Requests="59",
        x_ratelimit_reset_requests="1s",
        x_ratelimit_limit_tokens="150000",
        x_ratelimit_remaining_tokens="149984",
        x_ratelimit_reset_tokens="6m0s",
    )
    assert read_rate_limit(given_head) == RateLimit(60, 59, 1.0, 150000, 149984, 360.0)


def test_none_without_a_header() -> None:
    assert read_rate_limit(head(content_type="text/event-stream")) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("17ms", 0.017),
        ("2m59.56s", 179.56),
        ("1h2m3s", 3723.0),
        ("1d", 86400.0),
        ("12", 12.0),
        ("0.5", 0.5),
        ("0s", 0.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    limits = read_rate_limit(head(x_ratelimit_reset_tokens=text))
    assert limits is not None
    assert limits.reset_tokens == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.", ".5", "1s!", "1 s", "9" * 400, "inf", "nan", "1e9"])
def test_what_nobody_can_read_is_none_and_never_zero(text: str) -> None:
    assert read_rate_limit(head(x_ratelimit_reset_tokens=text, x_ratelimit_limit_tokens=text)) is None


def test_one_figure_that_can_be_read_is_kept_beside_one_that_cannot() -> None:
    limits = read_rate_limit(head(x_ratelimit_limit_tokens="many", x_ratelimit_remaining_tokens="7"))
    assert limits == RateLimit(remaining_tokens=7)


@given(st.dictionaries(st.sampled_from(NAMES), st.text(st.characters(max_codepoint=255), max_size=40)))
def test_never_raises(headers: dict[str, str]) -> None:
    read_rate_limit(ResponseHead(200, headers.items()))


@given(st.integers(0, 10**15 - 1), st.integers(0, 59), st.integers(0, 59))
def test_go_style_durations_are_read_exactly(count: int, minutes: int, seconds: int) -> None:
    limits = read_rate_limit(
        head(x_ratelimit_remaining_requests=str(count), x_ratelimit_reset_requests=f"{minutes}m{seconds}s")
    )
    assert limits == RateLimit(remaining_requests=count, reset_requests=minutes * 60.0 + seconds)


def test_every_figure_of_anthropic() -> None:
    headers = {
        f"anthropic-ratelimit-{what}-{figure}": str(10 * number + offset)
        for number, what in enumerate(("requests", "tokens", "input-tokens", "output-tokens"), 1)
        for offset, figure in enumerate(("limit", "remaining"))
    }
    for number, what in enumerate(("requests", "tokens", "input-tokens", "output-tokens"), 1):
        headers[f"anthropic-ratelimit-{what}-reset"] = f"2026-01-15T10:30:0{number}Z"
    limits = read_rate_limit(ResponseHead(200, headers.items()), lambda: NOW)
    assert limits == RateLimit(10, 11, 1.0, 20, 21, 2.0, 30, 31, 3.0, 40, 41, 4.0)
    assert limits is not None
    assert limits.windows() == ((11, 1.0), (21, 2.0), (31, 3.0), (41, 4.0))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-15T10:30:07Z", 7.0),
        ("2026-01-15t10:30:07z", 7.0),
        ("2026-01-15 10:30:07Z", 7.0),
        ("2026-01-15T10:30:07.25Z", 7.25),
        ("2026-01-15T10:30:07.123456789Z", 7.123456789),
        ("2026-01-15T12:30:07+02:00", 7.0),
        ("2026-01-15T05:00:07-05:30", 7.0),
        ("2026-01-15T10:30:60Z", 60.0),
        ("2026-01-15T10:29:59Z", 0.0),
        ("1970-01-01T00:00:00Z", 0.0),
    ],
)
def test_moments(text: str, seconds: float) -> None:
    limits = read_rate_limit(head(anthropic_ratelimit_tokens_reset=text), lambda: NOW)
    assert limits is not None
    assert limits.reset_tokens == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "7s",
        "12",
        "2026-01-15",
        "2026-01-15T10:30:07",
        "2026-13-15T10:30:07Z",
        "2026-02-30T10:30:07Z",
        "2026-01-15T24:30:07Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:60-23:59",
        "2026-W03-4T10:30:07Z",
        "2026-01-15T10:30:07.Z",
        "٢026-01-15T10:30:07Z",
    ],
)
def test_what_is_no_moment_is_none(text: str) -> None:
    headers = [("anthropic-ratelimit-tokens-reset", text.encode("utf-8").decode("latin-1"))]
    assert read_rate_limit(ResponseHead(200, headers), lambda: NOW) is None


def test_the_common_headers_count_first_figure_by_figure() -> None:
    limits = read_rate_limit(
        head(
            x_ratelimit_remaining_tokens="5",
            anthropic_ratelimit_tokens_remaining="6",
            x_ratelimit_reset_tokens="soon",
            anthropic_ratelimit_tokens_reset="2026-01-15T10:30:07Z",
        ),
        lambda: NOW,
    )
    assert limits == RateLimit(remaining_tokens=5, reset_tokens=7.0)


def test_each_moment_is_taken_against_the_time_of_day() -> None:
    limits = read_rate_limit(head(anthropic_ratelimit_requests_reset="9999-01-01T00:00:00Z"))
    assert limits is not None
    assert limits.reset_requests is not None
    assert limits.reset_requests > 200_000_000_000


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28)), st.integers(-23 * 60 - 59, 23 * 60 + 59))
def test_moments_are_those_of_the_calendar(moment: datetime, minutes: int) -> None:
    moment = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    limits = read_rate_limit(head(anthropic_ratelimit_requests_reset=moment.isoformat()), lambda: -1e12)
    assert limits is not None
    assert limits.reset_requests == pytest.approx(moment.timestamp() + 1e12, abs=1e-3)

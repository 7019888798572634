"""Rate limits as servers write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.rate_limit import RateLimit, read_rate_limit
from svir_core.http_message import ResponseHead

NAMES = [
    f"x-ratelimit-{figure}-{what}" for figure in ("limit", "remaining", "reset") for what in ("requests", "tokens")
]


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

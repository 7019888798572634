from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from svir_core.status import (
    JUDGED_BY_BODY,
    RETRIED_LEAN,
    STATUSES,
    retry_after,
    retry_after_of,
    status_error,
    status_verdict,
)
from svir_core.wire.failure import Failure

NOW = 1_796_036_756.0  # Mon, 30 Nov 2026 11:05:56 GMT

TABLE: dict[type[SvirError], set[int]] = {
    TransportError: {425, 500, 502, 503, 520, 521, 522, 523, 524},
    ResponseTimeoutError: {408, 504},
    RateLimitedError: {429, 529},
    AuthenticationError: {401, 403},
}


@pytest.mark.parametrize("status", range(200, 1000))
def test_every_status_has_its_error(status: int) -> None:
    expected = next((kind for kind, statuses in TABLE.items() if status in statuses), UnsupportedError)
    error = status_error(status, Failure("no"), None)
    assert type(error) is expected
    assert error.status == status
    assert error.retryable is (expected in (TransportError, ResponseTimeoutError, RateLimitedError))
    assert error.server_message() == "no"
    assert "no" not in str(error).split()
    assert str(status) in str(error)


def test_the_table_names_only_statuses_that_are_no_success() -> None:
    assert all(400 <= status < 600 for status in STATUSES)
    assert not JUDGED_BY_BODY & STATUSES.keys()


def test_which_statuses_are_retried_lean() -> None:
    assert {400, 422} == RETRIED_LEAN


@pytest.mark.parametrize(
    ("status", "failure", "words"),
    [
        (401, Failure(), "did not accept the key"),
        (429, Failure(), "wants fewer requests"),
        (408, Failure(), "gave up waiting"),
        (500, Failure(), "a gateway before it failed"),
        (418, Failure(), "did not take the request"),
        (400, Failure(code="context_length_exceeded"), "does not fit the model's context"),
        (400, Failure(code="content_filter"), "content filter refused the prompt"),
        (304, Failure(), "nothing has changed"),
        (404, Failure(), "the model's name"),
        (405, Failure(), "does not take such a request"),
        (300, Failure(), "redirects are not followed"),
        (399, Failure(), "redirects are not followed"),
        (299, Failure(), "did not take the request"),
    ],
)
def test_what_a_status_is_in_words(status: int, failure: Failure, words: str) -> None:
    error = status_error(status, failure, 7.0)
    assert str(error).startswith(f"status {status}: ")
    assert words in str(error)
    assert error.retry_after == 7.0


@pytest.mark.parametrize("month", range(1, 13))
def test_every_month_of_a_date(month: int) -> None:
    now = datetime(2026, month, 5, 11, 5, 56, tzinfo=UTC).timestamp()
    name = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[month - 1]
    for value in (
        f"Mon, 05 {name} 2026 11:06:06 GMT",
        f"Monday, 05-{name}-26 11:06:06 GMT",
        f"Monday, 05-{name}-26 11:06:06 UTC",
        f"Mon {name}  5 11:06:06 2026",
    ):
        assert retry_after(value, now) == 10.0


@pytest.mark.parametrize("status", range(300, 600))
def test_the_body_decides_only_where_it_may(status: int) -> None:
    overflow = Failure("maximum CONTEXT LENGTH is 5")
    filtered = Failure("context length", code="content_filter")
    judged = status in (400, 413, 422)
    assert (status_verdict(status, overflow).error is ContextOverflowError) is judged
    assert (status_verdict(status, filtered).error is ContentFilterError) is judged


@pytest.mark.parametrize("code", ["context_length_exceeded", "context_window_exceeded", "exceed_context_size_error"])
def test_an_overflow_by_code_or_type(code: str) -> None:
    assert status_verdict(400, Failure(code=code)).error is ContextOverflowError
    assert status_verdict(413, Failure(type=code)).error is ContextOverflowError
    assert status_verdict(500, Failure(code=code)).error is TransportError


def test_a_redirect_says_so() -> None:
    assert str(status_error(307, Failure(), None)) == "status 307: redirects are not followed"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        (" ", None),
        ("0", 0.0),
        ("7", 7.0),
        (" 7\t", 7.0),
        ("0.5", 0.5),
        ("2.", 2.0),
        (".25", 0.25),
        ("007", 7.0),
        ("30", 30.0),
        ("31", 30.0),
        ("86400", 30.0),
        ("9" * 5000, 30.0),
        ("-100", None),
        ("-0", None),
        ("+5", None),
        ("nan", None),
        ("inf", None),
        ("infinity", None),
        ("1e3", None),
        ("1_0", None),
        ("0x10", None),
        ("\v7", None),
        ("X7X", None),
        ("5s", None),
        ("5, 5", None),
        (".", None),
        ("٣", None),
        ("soon", None),
        ("Mon, 30 Nov 2026 11:05:56 GMT", 0.0),
        ("Mon, 30 Nov 2026 11:06:06 GMT", 10.0),
        ("mon, 30 nov 2026 11:06:06 gmt", 10.0),
        ("Mon, 30 Nov 2026 11:06:06 UTC", 10.0),
        ("Tue, 01 Dec 2026 11:05:56 GMT", 30.0),
        ("Sun, 29 Nov 2026 11:05:56 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Monday, 30-Nov-26 11:06:06 GMT", 10.0),
        ("Monday, 30-Nov-76 11:06:06 GMT", 30.0),
        ("Monday, 30-Nov-77 11:06:06 GMT", 0.0),
        ("Friday, 29-Feb-80 11:06:06 GMT", 0.0),
        ("Mon Nov 30 11:06:06 2026", 10.0),
        ("Mon Dec  1 11:06:06 2025", 0.0),
        ("Mon, 30 Nov 2026 11:05:60 GMT", 4.0),
        ("Mon, 30 Nov 2026 11:06:06", None),
        ("Mon, 30 Nov 2026 11:06:06 +0100", None),
        ("Mon, 31 Nov 2026 11:06:06 GMT", None),
        ("Mon, 30 Foo 2026 11:06:06 GMT", None),
        ("Mon, 30 Nov 2026 25:06:06 GMT", None),
        ("Mon, 30 Nov 0000 11:06:06 GMT", None),
        ("Fri, 31 Dec 9999 23:59:60 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 30.0),
    ],
)
def test_retry_after(value: str | None, expected: float | None) -> None:
    assert retry_after(value, NOW) == expected


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine is fourteen hours ahead of UTC."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "XXX-14")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system sets its time zone elsewhere")
@pytest.mark.usefixtures("far_east")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Thu, 31 Dec 2026 23:00:10 GMT", 10.0),
        ("Thu Dec 31 23:00:10 2026", 10.0),
        ("Thursday, 31-Dec-77 23:00:10 GMT", 0.0),
    ],
)
def test_a_date_is_in_utc_wherever_the_machine_is(value: str, expected: float) -> None:
    assert retry_after(value, datetime(2026, 12, 31, 23, tzinfo=UTC).timestamp()) == expected


@given(st.integers(0, 4_000_000_000), st.integers(0, 4_000_000_000))
def test_a_date_is_taken_against_now(date: int, now: int) -> None:
    assert retry_after(formatdate(date, usegmt=True), float(now)) == min(max(date - now, 0), 30)


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"), st.floats(0, 4e9))
def test_any_value_is_none_or_within_the_bound(value: str, now: float) -> None:
    seconds = retry_after(value, now)
    assert seconds is None or (0 <= seconds <= 30 and math.isfinite(seconds))


@pytest.mark.parametrize("status", [404, 405])
def test_a_wrong_path_says_where_to_look(status: int) -> None:
    assert "look at the base URL" in str(status_error(status, Failure(), None))


@pytest.mark.parametrize("code", ["insufficient_quota", "credit_balance_exhausted"])
def test_a_quota_that_is_used_up_is_not_worth_another_try(code: str) -> None:
    error = status_error(429, Failure("m", code=code), None)
    assert type(error) is RateLimitedError
    assert not error.retryable
    assert status_error(429, Failure("m", code="slow_down"), None).retryable


def test_a_wrong_key_may_be_told_by_the_body_of_a_400() -> None:
    assert type(status_error(400, Failure(reason="API_KEY_INVALID"), None)) is AuthenticationError
    assert type(status_error(500, Failure(reason="API_KEY_INVALID"), None)) is TransportError
    assert type(status_error(400, Failure(type="UNAVAILABLE"), None)) is UnsupportedError


def test_the_header_says_how_long_before_the_body_does() -> None:
    failure = Failure(retry_after=20.0)
    assert status_error(429, failure, None).retry_after == 20.0
    assert status_error(429, failure, 0.0).retry_after == 0.0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": " 12.5 ", "retry-after": "9"}, 0.0125),
        ({"retry-after-ms": "99999999"}, 30.0),
        ({"retry-after-ms": "-5", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "soon"}, None),
        ({"retry-after": "2"}, 2.0),
        ({}, None),
    ],
)
def test_how_long_a_response_asks_to_wait(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_of(ResponseHead(429, headers.items()), 0.0) == expected

"""What the word of a failure means: 20 section 12, 21 section 13, 22 section 11, 10 section 7."""

from __future__ import annotations

import pytest

from svir_core.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    RateLimitedError,
    ResponseTimeoutError,
    ServerError,
    SvirError,
)
from svir_core.wire.failure import OVERFLOW_CODES, Failure
from svir_core.wire.verdict import WORDS, Verdict, overflow_or_server, stream_verdict, verdict


@pytest.mark.parametrize(
    ("word", "error", "retryable"),
    [
        ("rate_limit_exceeded", RateLimitedError, None),
        ("overloaded_error", RateLimitedError, None),
        ("UNAVAILABLE", RateLimitedError, None),
        ("insufficient_quota", RateLimitedError, False),
        ("workspace_spend_limit_reached", RateLimitedError, False),
        ("GenerateRequestsPerDayPerProject", RateLimitedError, False),
        ("requests_per_day", RateLimitedError, False),
        ("billing_error", RateLimitedError, False),
        ("permission_error", AuthenticationError, None),
        ("API_KEY_INVALID", AuthenticationError, None),
        ("timeout_error", ResponseTimeoutError, None),
        ("content_policy_violation", ContentFilterError, None),
        ("bio_policy", ContentFilterError, None),
        ("invalid_prompt", ContentFilterError, None),
        ("context_length_exceeded", ContextOverflowError, None),
        ("request_too_large", ContextOverflowError, None),
    ],
)
def test_a_word_means_the_same_as_reason_code_and_type(
    word: str, error: type[SvirError], retryable: bool | None
) -> None:
    expected = Verdict(error, retryable)
    for failure in (Failure(code=word), Failure(type=word)):
        assert verdict(failure) == stream_verdict(failure, "") == expected
    if word not in OVERFLOW_CODES:
        assert verdict(Failure(reason=word)) == expected


@pytest.mark.parametrize("word", ["api_error", "server_error", "INTERNAL", "invalid_request_error", "policy", ""])
def test_a_word_of_no_table_means_nothing_and_in_a_stream_that_the_server_failed(word: str) -> None:
    assert verdict(Failure("m", code=word)) is None
    assert stream_verdict(Failure("m", code=word), "") == Verdict(ServerError)


@pytest.mark.parametrize("family", ["_policy", "spend_limit_reached", "PerDay"])
def test_a_word_too_long_for_a_word_is_of_no_family(family: str) -> None:
    assert verdict(Failure("m", code="x" * (128 - len(family)) + family)) is not None
    assert verdict(Failure("m", code="x" * (129 - len(family)) + family)) is None
    assert verdict(Failure("m", code=family * 1_000_000)) is None


def test_the_more_special_word_wins_and_prose_comes_last() -> None:
    assert verdict(Failure(reason="API_KEY_INVALID", code="slow_down")) == WORDS["API_KEY_INVALID"]
    assert verdict(Failure(code="insufficient_quota", type="rate_limit_error")) == WORDS["insufficient_quota"]
    assert verdict(Failure(code="made_up", type="rate_limit_error")) == WORDS["rate_limit_error"]
    assert verdict(Failure("context length", type="rate_limit_error")) == WORDS["rate_limit_error"]
    assert verdict(Failure("context length", type="made_up")) == Verdict(ContextOverflowError)


def test_chat_completions_knows_an_overflow_and_a_failed_server() -> None:
    assert overflow_or_server(Failure("m", code="rate_limit_exceeded"), "") == Verdict(ServerError)
    assert overflow_or_server(Failure("the context length"), "") == Verdict(ContextOverflowError)


def test_a_failure_without_words_is_judged_by_its_payload() -> None:
    for judge in (overflow_or_server, stream_verdict):
        assert judge(Failure(), '{"reason": "context window"}').error is ContextOverflowError
        assert judge(Failure(), "{}").error is ServerError
        assert judge(Failure("other"), "context window").error is ServerError

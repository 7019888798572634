"""The details of a failure: 21 section 13, 22 section 11."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.wire.failure_detail import Detail, read_detail

RPC = "type.googleapis.com/google.rpc."


def entry(kind: str, **fields: Any) -> dict[str, Any]:
    return {"@type": RPC + kind, **fields}


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        (None, Detail()),
        ("x", Detail()),
        ([], Detail()),
        ([5, {}, {"@type": 5}], Detail()),
        ({"error_code": "spend_limit_reached"}, Detail("spend_limit_reached")),
        ({"error_code": 5}, Detail()),
        ([entry("RetryInfo", retryDelay="34.4s")], Detail(retry_after=30.0)),
        ([entry("RetryInfo", retryDelay="0.25s")], Detail(retry_after=0.25)),
        ([entry("RetryInfo", retryDelay="12s")], Detail(retry_after=12.0)),
        ([entry("RetryInfo", retryDelay="-1s")], Detail()),
        ([entry("RetryInfo", retryDelay="1e3s")], Detail()),
        ([entry("RetryInfo", retryDelay=5)], Detail()),
        ([entry("ErrorInfo", reason="API_KEY_INVALID")], Detail("API_KEY_INVALID")),
        ([entry("ErrorInfo", reason="")], Detail()),
        ([entry("QuotaFailure", violations=[{"quotaId": "RequestsPerMinute"}])], Detail()),
        (
            [entry("ErrorInfo", reason="R"), entry("QuotaFailure", violations=[5, {}, {"quotaId": "RequestsPerDay"}])],
            Detail("RequestsPerDay"),
        ),
        ([entry("QuotaFailure", violations=5)], Detail()),
        (
            [entry("BadRequest", fieldViolations=[{"field": "generation_config.thinking_config"}, {"field": "x"}])],
            Detail(param="generationConfig.thinkingConfig"),
        ),
        ([entry("BadRequest", fieldViolations=[{"description": "x"}])], Detail()),
    ],
)
def test_details(details: Any, expected: Detail) -> None:
    assert read_detail(details) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["@type", "retryDelay", "violations", "fieldViolations", "reason", "quotaId", "field"]),
            inner,
        )
    ),
)


@given(JSON)
def test_any_details_are_read(details: Any) -> None:
    found = read_detail(details)
    assert found.retry_after is None or 0 <= found.retry_after <= 30


def test_a_delay_that_cannot_be_read_takes_nothing_back() -> None:
    kind = "type.googleapis.com/google.rpc.RetryInfo"
    readable, unreadable = {"@type": kind, "retryDelay": "7s"}, {"@type": kind, "retryDelay": "soon"}
    assert read_detail([readable, unreadable]).retry_after == 7.0
    assert read_detail([unreadable, readable]).retry_after == 7.0

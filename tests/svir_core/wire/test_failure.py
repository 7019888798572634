"""The one sniffer for failures: 11-quirks section A, 10-chat-completions sections 7, 9 and 11."""

from __future__ import annotations

from typing import Any

import pytest

from svir_core.wire.failure import OVERFLOW_CODES, Failure, describe, describe_body, sniff, sniff_body

FAILURES: list[tuple[dict[str, Any], Failure]] = [
    ({"error": {"message": "m", "code": "c", "type": "t", "param": "p"}}, Failure("m", "c", "t", "p")),
    ({"error": {"message": "m", "code": 5, "type": None, "param": []}}, Failure("m")),
    ({"error": "m", "code": "c", "type": "t", "param": "p"}, Failure("m", "c", "t", "p")),
    ({"error": {"message": 5}}, Failure()),
    ({"error": {"x": 1}, "message": "m"}, Failure("m")),
    ({"error": {"x": 1}, "detail": "m"}, Failure("m")),
    ({"error": {"x": 1}, "base_resp": {"status_msg": "m"}}, Failure("m")),
    ({"error": ["m"], "detail": [{"msg": "d"}]}, Failure("d")),
    ({"object": "error", "message": "m", "code": "c"}, Failure("m", "c")),
    ({"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}, Failure("m", type="RESOURCE_EXHAUSTED")),
    (
        {"type": "error", "error": {"type": "t", "message": "m", "details": {"error_code": "r"}}},
        Failure("m", type="t", reason="r"),
    ),
    (
        {"error": {"message": "m", "details": [{"@type": "x/google.rpc.RetryInfo", "retryDelay": "3s"}]}},
        Failure("m", retry_after=3.0),
    ),
    ({"detail": "m"}, Failure("m")),
    ({"detail": [{"msg": "m"}, {"msg": "n"}]}, Failure("m")),
    ({"detail": ["m"]}, Failure()),
    ({"detail": [{}]}, Failure()),
    ({"base_resp": {"status_code": 5, "status_msg": "m"}}, Failure("m")),
    ({"base_resp": {"status_code": 5}, "choices": [{}]}, Failure()),
    ({"base_resp": {"status_code": "1004"}}, Failure()),
    ({"choices": [{}, 5, {"error": {"message": "m"}}]}, Failure("m")),
    ({"choices": [{"finish_reason": None}, {"finish_reason": "error"}]}, Failure()),
    ({"choices": [{"error": {"message": "m", "code": "c"}}]}, Failure("m", "c")),
    ({"choices": [{"error": "m"}]}, Failure("m")),
    ({"choices": [{"finish_reason": "error"}], "message": "m"}, Failure("m")),
]


@pytest.mark.parametrize(("document", "expected"), FAILURES)
def test_failures(document: dict[str, Any], expected: Failure) -> None:
    assert sniff(document) == expected
    assert sniff_body(document) == expected
    assert sniff_body([document, 5]) == expected
    assert describe_body([document, 5]) == describe_body(document)


NO_FAILURES: list[dict[str, Any]] = [
    {},
    {"error": None},
    {"error": {}},
    {"error": ""},
    {"object": "error"},
    {"message": "m"},
    {"detail": None},
    {"detail": "m", "choices": [{}]},
    {"choices": 5},
    {"choices": [5]},
    {"choices": [{"error": None, "finish_reason": "stop"}]},
    {"base_resp": 5},
    {"base_resp": {"status_code": 0}},
    {"base_resp": {"status_code": "0", "status_msg": "fine"}},
    {"choices": [5, {"error": {}}, {"finish_reason": "stop"}]},
    {"base_resp": {}},
]


@pytest.mark.parametrize("document", NO_FAILURES)
def test_no_failures(document: dict[str, Any]) -> None:
    assert sniff(document) is None
    assert sniff_body(document) is None


@pytest.mark.parametrize("body", [None, 5, "error", [], [5], [[{"error": "m"}]]])
def test_bodies_that_are_no_object(body: Any) -> None:
    assert sniff_body(body) is None


def test_describe_takes_any_object() -> None:
    assert describe({}) == Failure()
    assert describe({"message": "m"}) == describe_body({"message": "m"}) == Failure("m")
    assert describe_body(5) == Failure()


@pytest.mark.parametrize("code", sorted(OVERFLOW_CODES))
def test_overflows_by_code_or_type(code: str) -> None:
    assert Failure("m", code=code).overflow
    assert Failure("m", type=code).overflow


@pytest.mark.parametrize(
    ("message", "overflow"),
    [
        ("the Context Length is 5", True),
        ("CONTEXT SIZE", True),
        ("context window", True),
        ("context budget", True),
        ("no room for compacted context", True),
        ("prompt is too long: 5 tokens > 4 maximum", True),
        ("input length and `max_tokens` exceed context limit: 3 + 2 > 4", True),
        ("The input token count (5) exceeds the maximum number of tokens allowed (4).", True),
        ("context", False),
        ("the length of the context", False),
        (None, False),
    ],
)
def test_overflows_by_words(message: str | None, overflow: bool) -> None:
    assert Failure(message).overflow is overflow

"""What a case expects is really compared: each wrong expectation is found."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest

from conformance.runner import Status, run
from svir_client import AsyncClient
from svir_client.testing import MockServer
from svir_core.wire.openai_chat import Decoder

Rows: TypeAlias = list[tuple[dict[str, Any], str | None]]

HEADERS = {"content-type": "text/event-stream"}
FINISH = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = "data: [DONE]\n\n"


def delta(**fields: Any) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': fields}]})}\n\n"


ANSWER = delta(reasoning="Hm") + delta(content="Hi") + FINISH + DONE


def problems(folder: Path, component: str, case: dict[str, Any]) -> list[str]:
    path = folder / component / "case.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(case), encoding="ascii")
    results = list(run([folder]))
    assert results
    return [problem for result in results if result.status is Status.FAILED for problem in result.problems]


# --- outcomes ----------------------------------------------------------------------------------------------

REPORT = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}}
USAGE = f"data: {json.dumps({'choices': [], 'usage': REPORT})}\n\n"
CALL = delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}])
GOOD_COMPLETION: dict[str, Any] = {
    "finish": "stop",
    "text": "Hi",
    "reasoning": [{"source": "reasoning", "text": "Hm"}],
    "usage": {"input": 3, "output": 1},
}


def decoder_problems(folder: Path, chunks: str, outcome: dict[str, Any]) -> list[str]:
    case = {"description": "x", "chunks": [chunks], "expect": {"strict": outcome, "lenient": "same"}}
    return sorted(set(problems(folder, "decoder", case)))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"usage": {"input": 3, "output": 1, "total": None, "cache_read": 2}}, None),
        ({"text": "Ho"}, "text: expected 'Ho', got 'Hi'"),
        ({"text": ""}, "text: expected '', got 'Hi'"),
        ({"finish": "length"}, "finish: expected 'length', got 'stop'"),
        ({"reasoning": []}, "reasoning: expected [], got"),
        ({"reasoning": [{"source": "think", "text": "Hm"}]}, "reasoning: expected"),
        ({"calls": [{"id": "a", "name": "f", "arguments": "{}"}]}, "calls: expected"),
        ({"usage": None}, "usage: expected None"),
        ({"usage": {"input": 3, "output": 1, "total": 4}}, "usage: expected"),
        ({"usage": {"input": 3}}, "usage: expected"),
        ({"usage": {"input": 3, "output": 1, "cache_read": 1}}, "usage: expected"),
        ({"id": "c2"}, "id: expected 'c2', got None"),
        ({"model": None, "id": None, "raw_finish": "stop", "anomalies": []}, None),
        ({"anomalies": ["lone_surrogate"]}, "anomalies: expected"),
    ],
)
def test_a_completion_is_compared_exactly(changes: dict[str, Any], problem: str | None, tmp_path: Path) -> None:
    stream = ANSWER.replace(DONE, USAGE + DONE)
    found = decoder_problems(tmp_path, stream, {"completion": GOOD_COMPLETION | changes})
    assert len(found) == (problem is not None)
    if problem is not None:
        assert found[0].startswith(problem)


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        ({"id": "a", "name": "f", "arguments": "{}"}, True),
        ({"id": "a", "name": "f", "arguments": "{}", "complete": True}, True),
        ({"id": "a", "name": "f", "arguments": "{}", "complete": False}, False),
        ({"id": "b", "name": "f", "arguments": "{}"}, False),
        ({"id": "a", "name": "f", "arguments": "{ }"}, False),
    ],
)
def test_calls_are_compared(call: dict[str, Any], fits: bool, tmp_path: Path) -> None:
    found = decoder_problems(tmp_path, CALL + FINISH + DONE, {"completion": {"finish": "tool_calls", "calls": [call]}})
    assert (found == []) is fits


FAILED = delta(reasoning="Hm") + delta(content="Hi") + 'data: {"error":{"message":"boom!"}}\n\n'


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        ({"error": "server"}, None),
        ({"error": "server", "message": "boom!", "partial": {"text": "Hi", "reasoning": "Hm"}}, None),
        ({"error": "server", "retryable": False, "status": None, "retry_after_ms": None}, None),
        ({"error": "protocol"}, "error: expected 'protocol', got 'server'"),
        ({"error": "server", "message": "boom"}, "message: expected 'boom', got 'boom!'"),
        ({"error": "server", "message": None}, "message: expected None"),
        ({"error": "server", "partial": {"text": ""}}, "partial.text: expected ''"),
        ({"error": "server", "partial": {"reasoning": ""}}, "partial.reasoning: expected ''"),
        ({"error": "server", "retryable": True}, "retryable: expected True, got False"),
        ({"error": "server", "status": 500}, "status: expected 500, got None"),
        ({"completion": {"finish": "stop"}}, "expected a completion, got error server"),
        ({"cancelled": True}, "expected a cancelled call, got error server"),
        ({"models": []}, "expected a list of models, got error server"),
    ],
)
def test_an_error_is_compared_by_what_the_case_names(
    outcome: dict[str, Any], problem: str | None, tmp_path: Path
) -> None:
    found = decoder_problems(tmp_path, FAILED, outcome)
    assert len(found) == (problem is not None)
    if problem is not None:
        assert found[0].startswith(problem)


def test_an_outcome_that_contradicts_its_events_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push = Decoder.push

    def forget(self: Decoder, data: bytes) -> Any:
        events = push(self, data)
        return type(events)(events.items[-1:], events.error)

    monkeypatch.setattr(Decoder, "push", forget)
    found = decoder_problems(tmp_path, ANSWER, {"completion": GOOD_COMPLETION | {"usage": None}})
    assert [problem for problem in found if "not what the events delivered: text" in problem]
    assert [problem for problem in found if "not what the events delivered: reasoning" in problem]


# --- bodies ------------------------------------------------------------------------------------------------


def encoder_case(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "parts": [{"file": "f"}]}]
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": '<file name="a">\nx\n</file>'}],
        "stream": True,
    }
    return {
        "request": {"model": "m", "messages": messages},
        "attachments": {"f": {"name": "a", "text": "x"}},
        "expect": {"body": body},
    } | fields


BODIES: Rows = [
    ({}, None),
    ({"expect": {"body": {"model": "m"}}}, "the first production: expected {'model': 'm'}"),
    ({"expect": {"error": "attachment"}}, "expected the error attachment, got a body of"),
    ({"attachments": {"f": {"name": "a", "hex": "ff"}}}, "building: expected a body, got the error attachment"),
    ({"attachments": {"f": {"name": "a", "text": "x", "declared_size": 2}}}, "expected a body, got the error"),
    ({"attachments": {}}, "there is no attachment 'f'"),
    ({"attachments": {"f": {"name": "a"}}}, "exactly one of hex, text"),
    ({"attachments": {"f": {"text": "x", "escaped_len": -1}}}, "at least zero"),
    ({"options": {"blocks": [1]}}, "unknown field 'blocks'"),
    ({"expect": {"error": "protocol"}}, "one of attachment, config, context_overflow, unsupported"),
    ({"request": {"model": "m", "messages": [], "seed": 1}}, "unknown field 'seed'"),
    ({"request": {"model": "m", "messages": [{"role": "robot", "parts": []}]}}, "one of system"),
    (
        {"request": {"model": "m", "messages": [{"role": "user", "parts": [{"text": "a", "image": "f"}]}]}},
        "exactly one of",
    ),
    ({"request": {"model": "m", "messages": [], "tool_choice": "any"}}, "one of auto, none, required"),
    ({"request": {"model": "m", "messages": [], "reasoning_effort": "max"}}, "one of none"),
    ({"request": {"model": "m", "messages": [], "temperature": "hot"}}, "a number is expected"),
    ({"request": {"model": "m", "messages": [], "max_tokens": 1.5}}, "a whole number"),
    ({"request": {"model": "m", "messages": [], "include_usage": 1}}, "true or false"),
]


@pytest.mark.parametrize(("fields", "problem"), BODIES)
def test_a_body_is_compared(fields: dict[str, Any], problem: str | None, tmp_path: Path) -> None:
    found = problems(tmp_path, "encoder", encoder_case(**fields))
    assert bool(found) is (problem is not None)
    if problem is not None:
        assert any(problem in one for one in found)


# --- calls -------------------------------------------------------------------------------------------------


def transport_case(**fields: Any) -> dict[str, Any]:
    return {
        "server": [{"status": 200, "headers": HEADERS, "body": delta(content="Hi") + FINISH + DONE}],
        "calls": [{"expect": {"completion": {"finish": "stop", "text": "Hi"}}}],
        "expect_requests": [{"method": "POST", "path": "/v1/chat/completions"}],
        "expect_closed": True,
    } | fields


KEY = "a-key-to-be-kept"
STALLED = [{"status": 200, "headers": HEADERS, "body": delta(content="Hi"), "then": "stall"}]


CALLS: Rows = [
    ({}, None),
    ({"config": {"base_url": ["{server}", "{server}/v1"], "headers": [["x-a", "b"]]}}, None),
    ({"calls": [{"expect": {"open": "undecided"}}], "expect_requests": {"open": "undecided"}}, None),
    ({"calls": [{}], "expect_requests": [{}]}, None),
    ({"server": []}, "1 requests came beyond the script"),
    ({"expect_requests": []}, "expected 0 requests, got 1"),
    ({"expect_requests": [{}, {}]}, "expected 2 requests, got 1"),
    ({"expect_requests": [{"method": "GET"}]}, "method: expected 'GET', got 'POST'"),
    ({"expect_requests": [{"path": "/v1/models"}]}, "path: expected '/v1/models'"),
    ({"expect_requests": [{"headers": {"Accept": "text/plain"}}]}, "header Accept: expected once 'text/plain'"),
    ({"expect_requests": [{"headers": {"x-absent": "a"}}]}, "header x-absent: expected once 'a', got ()"),
    ({"expect_requests": [{"absent_headers": ["Accept"]}]}, "header Accept: expected none"),
    ({"expect_requests": [{"body_includes": {"stream": 1}}]}, "body 'stream': expected 1, got True"),
    ({"expect_requests": [{"body_includes": {"seed": 1}}]}, "body: 'seed' is missing"),
    ({"expect_requests": [{"body_excludes": ["stream"]}]}, "body: 'stream' is there"),
    ({"calls": [{"expect": {"completion": {"finish": "stop"}, "within_ms": 0}}]}, "at most 0 ms are allowed"),
    ({"calls": [{"expect": {"cancelled": True}}]}, "expected a cancelled call, got completion stop"),
    ({"calls": [{"expect": {"cancelled": False}}]}, "only true means something"),
    ({"calls": [{"client": ["read_some"]}]}, "one of read_all, cancel"),
    ({"calls": [{"client": [{"read_events": 1}], "expect": {"completion": {"finish": "stop"}}}]}, "got cancelled"),
    ({"calls": []}, "calls or expect_config is expected"),
    ({"expect_config": "accepted"}, "the client is only constructed"),
    ({"expect_config": "rejected", "calls": []}, "and it was accepted"),
    (
        {"config": {"base_url": "http://example.com"}, "expect_config": "accepted", "calls": []},
        "expected the configuration to be accepted",
    ),
    ({"config": {"base_url": []}}, "an empty list runs nothing"),
    ({"config": {"headers": [["x"]]}}, "pairs of name and value"),
    ({"server": [{"status": 200, "body": "a", "body_file": "b"}]}, "exactly one of body, body_file"),
    ({"server": [{"status": 200, "body_file": "absent.body"}]}, "'absent.body' cannot be read"),
    ({"server": [{"status": 200, "body": "a", "then": "reset"}]}, "one of stall"),
    ({"server": [{"stall": "body"}]}, "one of headers"),
    ({"server": [{"stall": "headers"}], "config": {"timeout_ms": 50}}, "expected a completion, got error timeout"),
    ({"calls": [{"list_models": True, "expect": {"models": []}}]}, "expected a list of models"),
]


@pytest.mark.parametrize(("fields", "problem"), CALLS)
def test_a_call_is_compared(fields: dict[str, Any], problem: str | None, tmp_path: Path) -> None:
    found = problems(tmp_path, "transport", transport_case(**fields))
    assert bool(found) is (problem is not None), found
    if problem is not None:
        assert any(problem in one for one in found), found


def test_a_connection_left_open_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_server: MockServer) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr("conformance.run_transport.CLOSED_SECONDS", 0.0)
    monkeypatch.setattr(MockServer, "wait_closed", never)
    found = problems(tmp_path, "transport", transport_case())
    assert "the connection was not closed within 1 s" in found


def test_models_are_compared(tmp_path: Path) -> None:
    reply = {"status": 200, "headers": {"content-type": "application/json"}, "body": '{"data":[{"id":"a"}]}'}
    case = transport_case(
        server=[reply],
        calls=[{"list_models": True, "expect": {"models": [{"id": "a", "name": "A"}]}}],
        expect_requests=[{"method": "GET"}],
    )
    found = problems(tmp_path, "transport", case)
    assert found
    assert found[0].startswith("call 0: models: expected [['a', 'A']], got [['a', None]]")


@pytest.mark.parametrize("shown", ["str", "repr"])
def test_a_secret_that_is_shown_is_found(shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(self: Any) -> str:
        return f"the server said {self.server_message()}"

    monkeypatch.setattr("svir_core.errors.SvirError.__" + shown + "__", tell)
    case = transport_case(
        server=[{"status": 500, "headers": {}, "body": "something secret"}], calls=[{"expect": {"error": "transport"}}]
    )
    assert any("an error shows a key" in problem for problem in problems(tmp_path, "transport", case))


def test_a_key_in_the_configuration_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(_client: AsyncClient) -> str:
        return KEY

    monkeypatch.setattr(AsyncClient, "__repr__", tell)
    found = problems(tmp_path, "transport", transport_case(config={"api_key": KEY}))
    assert any("the configuration shows a key" in problem for problem in found)


def test_a_key_in_a_log_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close = AsyncClient.aclose

    async def aclose(self: AsyncClient) -> None:
        logging.getLogger("any").debug("closing with %s", KEY)
        await close(self)

    monkeypatch.setattr(AsyncClient, "aclose", aclose)
    found = problems(tmp_path, "transport", transport_case(config={"api_key": KEY}))
    assert any("a log record shows a key" in problem for problem in found)


def test_what_was_read_is_compared_not_what_was_buffered(tmp_path: Path) -> None:
    case = transport_case(
        server=STALLED,
        calls=[{"client": [{"read_events": 1}, "cancel"], "expect": {"cancelled": True, "partial": {"text": "Ho"}}}],
    )
    found = problems(tmp_path, "transport", case)
    assert "call 0: partial.text: expected 'Ho', got 'Hi'" in found

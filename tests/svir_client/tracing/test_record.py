"""The JSON form of an event: what is there is named, and what is not is left out."""

from __future__ import annotations

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.tracing import Content, Outcome
from svir_client.tracing.record import timestamp
from svir_core.errors import ErrorKind
from svir_core.response import FinishReason, Usage
from tests.svir_client.tracing.traced import START, end_event


def test_a_start() -> None:
    assert START.document() == {
        "timestamp": "2025-01-01T00:00:00.250Z",
        "level": "info",
        "type": "provider_start",
        "run_id": "run",
        "span_id": "span",
        "name": "m",
        "attributes": {"api": "openai_chat", "model": "m", "message_count": 1, "tool_count": 0},
    }


def test_an_end_with_everything() -> None:
    event = end_event(
        Content(system="s", input=({"role": "user"},), output=({"type": "text"},), server_message="x"),
        round=1,
        outcome=Outcome.FAILED,
        first_token_seconds=0.5,
        tokens_per_second=10.0,
        finish_reason=FinishReason.PAUSE,
        requires_continuation=True,
        tool_call_count=0,
        usage=Usage(0, 1, 2, 3, 4, 5),
        answered_model="m2",
        response_id="c",
        provider_request_id="r",
        anomaly_count=0,
        status=503,
        error_kind=ErrorKind.TRANSPORT,
        error_class="TransportError",
        retryable=True,
    )
    document = attrs.evolve(event, session_id="s1", operation_id="round-1", parent_id="outer").document()
    assert orjson.loads(event.json())["attributes"] == document["attributes"]
    assert list(document["attributes"]) == [field.name for field in attrs.fields(type(event.attributes))]
    assert document["attributes"]["usage"] == {
        "input": 0, "output": 1, "total": 2, "reasoning": 3, "cache_read": 4, "cache_write": 5,
    }  # fmt: skip
    assert (document["session_id"], document["operation_id"]) == ("s1", "round-1")
    assert (document["span_id"], document["parent_id"]) == ("span", "outer")
    assert document["content"] == {
        "system": "s", "input": [{"role": "user"}], "output": [{"type": "text"}], "server_message": "x",
    }  # fmt: skip


def test_absent_is_left_out_and_zero_is_not() -> None:
    attributes = end_event(usage=Usage(input=0)).document()["attributes"]
    assert attributes["usage"] == {"input": 0}
    assert list(attributes) == ["api", "model", "outcome", "seconds", "retries", "usage"]
    assert end_event(Content()).document()["content"] == {}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (1735689600.9996, "2025-01-01T00:00:00.999Z"), (1e9, "2001-09-09T01:46:40.000Z")],
)
def test_moments(seconds: float, text: str) -> None:
    assert timestamp(seconds) == text


def test_an_event_is_frozen_and_shows_no_content() -> None:
    event = end_event(Content(system="canary", server_message="canary", input=({"a": "canary"},)))
    assert "canary" not in repr(event)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(event, "name", "x")  # noqa: B010 - a checker would refuse the assignment


@given(st.text(st.characters(categories=("L", "Cs", "Cc", "Zl", "Zp", "Cf"))))
def test_any_text_is_one_line_of_json(text: str) -> None:
    data = end_event(Content(system=text), name=text).json()
    assert b"\n" not in data
    assert b"\r" not in data
    read = orjson.loads(data)
    sound = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    assert read["name"] == read["content"]["system"]
    assert read["name"].replace("\ufffd", "") == sound.replace("\ufffd", "")

"""An event is one line of visible ASCII, whatever names and content say."""

from __future__ import annotations

import json

import attrs
from hypothesis import given
from hypothesis import strategies as st

from svir_client.tracing import Content
from svir_client.tracing.line import line, value_text
from svir_core.response import FinishReason, Usage
from tests.svir_client.tracing.traced import START, end_event


def test_lines() -> None:
    assert line(START) == (
        "2025-01-01T00:00:00.250Z [info] provider_start name=m run_id=run api=openai_chat message_count=1 tool_count=0"
    )
    end = end_event(
        finish_reason=FinishReason.STOP, usage=Usage(input=0, output=2), answered_model="m 2", tokens_per_second=1 / 3
    )
    assert line(end) == (
        "2025-01-01T00:00:01.750Z [info] provider_end name=m run_id=run api=openai_chat outcome=completed seconds=1.5"
        ' retries=0 tokens_per_second=0.333333 finish_reason=stop usage.input=0 usage.output=2 answered_model="m 2"'
    )


def test_the_session_and_the_step() -> None:
    event = attrs.evolve(START, session_id="s", operation_id="round-1")
    assert " session_id=s run_id=run operation_id=round-1 " in line(event)


def test_content_stands_at_the_end() -> None:
    content = Content(system="be", input=({"role": "user"},), output=({"type": "text"},), server_message="no\nno")
    assert line(end_event(content)).endswith(
        ' system=be input=[{"role":"user"}] output=[{"type":"text"}] server_message="no\\nno"'
    )


@given(st.text(), st.text())
def test_nothing_makes_a_second_line_or_a_name_of_its_own(name: str, said: str) -> None:
    event = end_event(Content(system=said, server_message=said), name=name)
    text = line(event)
    assert text.isascii()
    assert text.isprintable()
    assert text.splitlines() == [text]
    found, end = json.JSONDecoder().raw_decode(text, text.index(" name=") + 6) if '"' in value_text(name) else (name, 0)
    assert found == name
    assert end == 0 or text[end:].startswith(" run_id=run ")


@given(st.text())
def test_a_value_is_bare_or_json(value: str) -> None:
    text = value_text(value)
    assert (json.loads(text) if text.startswith('"') else text) == value

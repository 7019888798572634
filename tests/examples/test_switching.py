from __future__ import annotations

import anyio
import pytest

from examples import switching
from svir_client import Session
from svir_core import ToolCall, ToolResult
from tests.examples.program import Ended, run

SHOWN = [
    "openai: 400 km. 4 messages; thoughts that went back: none",
    "responses: 400 km. 8 messages; thoughts that went back: own-responses-2",
    "anthropic: 400 km. 12 messages; thoughts that went back: own-anthropic-3",
    "gemini: 400 km. 16 messages; thoughts that went back: own-gemini-4",
    "anthropic: 400 km. 20 messages; thoughts that went back: own-anthropic-3, own-anthropic-5",
    "openai: 400 km. 24 messages; thoughts that went back: none",
]


@pytest.mark.anyio
async def test_the_session_has_a_call_and_its_result_of_every_turn() -> None:
    session = Session()
    with anyio.fail_after(20):
        for turn, word in enumerate(switching.ROUTE, 1):
            await switching.visit(session, word, turn)
    parts = [part for message in session.messages for part in message.parts]
    calls = [part.id for part in parts if isinstance(part, ToolCall)]
    assert len(calls) == len(switching.ROUTE)
    results = [part for part in parts if isinstance(part, ToolResult)]
    assert [(result.call_id, result.content) for result in results] == [(id, "400 km") for id in calls]


def test_the_example_runs() -> None:
    assert run("switching") == Ended(0, SHOWN, [])

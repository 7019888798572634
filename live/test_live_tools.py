"""Tools against a real server: a real call reaches a function by its types, and its result goes back."""

from __future__ import annotations

import json
from enum import StrEnum

import anyio
import pytest

from live.conftest import Server
from svir_client import AsyncClient, Tools
from svir_core import Completion, FinishReason, Message, Request, ToolCall, ToolResult

pytestmark = [pytest.mark.anyio, pytest.mark.live]

WAIT = 90.0
"""No wait is longer than this, in seconds: a tiny model on one thread needs about ten."""


class Unit(StrEnum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


def example(city: str, number: int) -> tuple[Message, ...]:
    """An earlier exchange with a call: a model this small calls only what it has seen called."""
    call = ToolCall(f"call_{number}", "get_weather", json.dumps({"city": city, "unit": "c"}))
    return (
        Message.user(f"What is the weather in {city} in celsius?"),
        Message.assistant(call),
        Message.tool(ToolResult(call.id, '{"degrees":20}')),
        Message.assistant("It is 20 degrees."),
    )


async def test_a_real_call_reaches_the_function_and_its_result_goes_back(server: Server) -> None:
    tools = Tools()
    asked: list[tuple[str, Unit]] = []

    @tools.tool
    def get_weather(city: str, unit: Unit) -> dict[str, int]:
        """Get the weather of a city."""
        asked.append((city, unit))
        return {"degrees": 21}

    request = Request(server.model, tools=tools, tool_choice="required", max_tokens=160, temperature=0, seed=42)
    request = request.message(*example("Rome", 10), *example("London", 20))
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            answer: Completion = await client.complete(request.user("What is the weather in Paris in celsius?"))
            assert answer.finish is FinishReason.TOOL_CALLS
            results = await tools.call_all(answer.calls)
            assert [result.call_id for result in results] == [call.id for call in answer.calls]
            assert [(result.content, result.is_error) for result in results] == [('{"degrees":21}', False)] * len(asked)
            assert all(type(unit) is Unit for _, unit in asked)
            request = request.user("What is the weather in Paris in celsius?").assistant(answer).tool_results(results)
            followed = await client.complete(request.replace(tool_choice="none"))
    assert asked
    assert followed.text

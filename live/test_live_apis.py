"""The other wire APIs that llama.cpp's server speaks: Anthropic Messages and OpenAI Responses (``make live``).

It bends both protocols, so the client is lenient: see docs/anthropic-messages.md and docs/openai-responses.md.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from examples.demo import WEATHER, example
from live.conftest import Server
from live.test_live import WAIT, Weather
from svir_client import AsyncClient
from svir_core import Completed, FinishReason, Request, TextDelta, ToolChoice

pytestmark = [pytest.mark.anyio, pytest.mark.live]


def anthropic(server: Server) -> AsyncClient:
    return AsyncClient.anthropic(server.url, mode="lenient")


def responses(server: Server) -> AsyncClient:
    return AsyncClient.responses(server.url, mode="lenient")


Make = Callable[[Server], AsyncClient]


@pytest.fixture(params=[anthropic, responses])
def make(request: pytest.FixtureRequest) -> Make:
    chosen: Make = request.param
    return chosen


def question(server: Server) -> Request:
    return Request(server.model, system="Be brief.", max_tokens=40, temperature=0).user(
        "What is the capital of France?"
    )


async def test_whole_answer(server: Server, make: Make) -> None:
    with anyio.fail_after(WAIT):
        async with make(server) as client:
            answer = await client.complete(question(server))
    assert answer.text
    assert answer.finish in (FinishReason.STOP, FinishReason.LENGTH)
    assert answer.usage is not None
    assert answer.usage.output


async def test_stream(server: Server, make: Make) -> None:
    pieces: list[str] = []
    with anyio.fail_after(WAIT):
        async with make(server) as client, client.stream(question(server)) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    pieces.append(event.text)
                elif isinstance(event, Completed):
                    assert "".join(pieces) == event.completion.text
    assert len(pieces) > 1
    assert stream.completion.text == "".join(pieces)


async def test_conversation(server: Server, make: Make) -> None:
    with anyio.fail_after(WAIT):
        async with make(server) as client:
            request = question(server)
            answer = await client.complete(request)
            again = await client.complete(request.assistant(answer).user("And of Italy?"))
    assert again.usage is not None
    assert answer.usage is not None
    assert (again.usage.input or 0) > (answer.usage.input or 0)


async def test_call(server: Server, make: Make) -> None:
    request = Request(server.model, tools=[WEATHER], tool_choice=ToolChoice.REQUIRED, max_tokens=160, temperature=0)
    request = request.message(*example("Rome", 10), *example("London", 20))
    request = request.user("What is the weather in Paris in celsius?")
    with anyio.fail_after(WAIT):
        async with make(server) as client:
            answer = await client.complete(request)
            (call, *_) = answer.calls
            assert call.complete
            assert call.parse(Weather).unit in ("c", "f")
            request = request.replace(tool_choice=ToolChoice.AUTO).assistant(answer)
            for call in answer.calls:
                request = request.tool_result(call.id, "Sunny, 21 degrees.")
            assert await client.complete(request)


async def test_a_break_stops_the_server(server: Server, make: Make) -> None:
    with anyio.fail_after(WAIT):
        async with make(server) as client:
            async with client.stream(question(server)) as stream:
                async for _ in stream:
                    break
            assert (await client.complete(question(server))).text


async def test_tokens_are_counted(server: Server) -> None:
    with anyio.fail_after(WAIT):
        async with anthropic(server) as client:
            few = await client.count_tokens(question(server))
            assert 0 < few < await client.count_tokens(question(server).user("And of Italy, and of Spain?"))

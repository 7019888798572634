"""Generations against a real server: rounds with a tool, a session that goes on at another API, and one in SQLite."""

from __future__ import annotations

import pathlib

import anyio
import pytest

from live.conftest import Server
from live.test_live_apis import anthropic, responses
from live.test_live_tools import WAIT, example
from svir_client import (
    AsyncClient,
    RoundEvent,
    RoundResults,
    Session,
    SqliteStore,
    Tools,
    generate,
    generate_stream,
    resume,
)
from svir_core import Completed, GenerationOutcome, LoopLimits, MaxRoundsError, Role
from svir_core.wire import anthropic_messages, openai_chat, openai_responses

pytestmark = [pytest.mark.anyio, pytest.mark.live]

QUESTION = "What is the weather in Paris in celsius?"


def weather(asked: list[str]) -> Tools:
    tools = Tools()

    @tools.tool
    def get_weather(city: str, unit: str) -> dict[str, int]:
        """Get the weather of a city."""
        asked.append(city)
        return {"degrees": 21}

    return tools


def conversation() -> Session:
    return Session(system="Be brief.", messages=[*example("Rome", 10), *example("London", 20)])


async def test_a_generation_runs_its_tools_and_the_session_goes_on_at_other_apis(server: Server) -> None:
    asked: list[str] = []
    session, tools = conversation(), weather(asked)
    before = len(session.messages)
    happened: list[object] = []
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            stream = generate_stream(
                client, session, QUESTION, model=server.model, tools=tools, max_tokens=160, temperature=0, seed=42
            )
            async with stream as run:
                happened = [event async for event in run]
        assert run.generation.outcome is GenerationOutcome.ANSWERED
        assert run.generation.tool_calls == len(asked) > 0
        assert run.generation.usage.input
        ends = [event for event in happened if isinstance(event, RoundEvent) and isinstance(event.event, Completed)]
        assert len(ends) == run.generation.rounds >= 2
        assert any(isinstance(event, RoundResults) for event in happened)
        assert [message.role for message in session.messages[before:]][:3] == [Role.USER, Role.ASSISTANT, Role.TOOL]
        for make in (anthropic, responses):
            async with make(server) as other:
                answer = await generate(other, session, "Say it again.", model=server.model, max_tokens=40)
                assert answer.rounds == 1
                assert answer.text
    for api in (openai_chat.API, anthropic_messages.API, openai_responses.API):
        assert session.check_history(api) == ()


async def test_a_generation_is_kept_and_resumed_after_its_limit(server: Server, tmp_path: pathlib.Path) -> None:
    asked: list[str] = []
    tools, store = weather(asked), SqliteStore(tmp_path / "sessions.db")
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            async with store.session("alice") as session:
                session.append(*conversation().messages)
                with pytest.raises(MaxRoundsError) as caught:
                    await generate(
                        client,
                        session,
                        QUESTION,
                        model=server.model,
                        tools=tools,
                        limits=LoopLimits(rounds=1),
                        max_tokens=160,
                        temperature=0,
                        seed=42,
                    )
                assert caught.value.progress is not None
                assert caught.value.progress.rounds == 1
                assert not asked
            async with store.session("alice") as again:
                answer = await resume(client, again, tools=tools, limits=LoopLimits())
                assert again.suspended is None
    assert answer.rounds >= 2
    assert asked

"""What a checker knows of generations: read by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack, assert_never, assert_type

import attrs

from svir_client import (
    AsyncClient,
    Client,
    GenerationEvent,
    GenerationStream,
    ModelDescriptor,
    RoundEvent,
    RoundResults,
    Session,
    Tools,
    generate,
    generate_stream,
    progress_of,
    resume,
    resume_stream,
    sync,
)
from svir_client.generation import Input, ResumeOptions, TurnOptions
from svir_client.sync import SyncGenerationStream
from svir_core import Event, Generation, Image, LoopLimits, Message, Progress, SvirError, ToolCall, ToolResult


@attrs.frozen
class Answer:
    text: str


async def whole(client: AsyncClient, session: Session, model: ModelDescriptor, tools: Tools) -> None:
    answer = await generate(client, session, "hi", model="m", tools=tools, limits=LoopLimits(rounds=2), temperature=0)
    assert_type(answer, Generation)
    assert_type(answer.parse(Answer), Answer)
    assert_type(answer.awaiting, tuple[ToolCall, ...])
    await generate(client, None, ["look", Image.url("https://a.test/b.png")], model=model, rollback=True)
    await generate(client, None, Message.user("hi"), model=model, headers={"x": "y"})
    assert_type(await resume(client, session, tools=tools, approvals={"a": True}, model="other"), Generation)
    await generate(client, session, "hi", model="m", temprature=0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # no such option
    await resume(client, session, temperature=0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # settings are as they were


async def streamed(client: AsyncClient, session: Session) -> None:
    async with generate_stream(client, session, "hi", model="m") as run:
        assert_type(run, GenerationStream)
        async for happened in run:
            match happened:
                case RoundEvent(round=number, event=event):
                    assert_type(number, int)
                    assert_type(event, Event)
                case RoundResults(results=results):
                    assert_type(results, tuple[ToolResult, ...])
                case _:
                    assert_never(happened)
        assert_type(run.generation, Generation)
        assert_type(run.progress, Progress)
    async with resume_stream(client, session) as run:
        assert_type([piece async for piece in run.text()], list[str])


async def passed_on(client: AsyncClient, input: Input, **options: Unpack[TurnOptions]) -> list[GenerationEvent]:
    session, again = Session(), ResumeOptions(rollback=True, model="m")
    async with generate_stream(client, session, input, model="m", **options) as run:
        events = [event async for event in run]
    assert_type(await resume(client, session, **again), Generation)
    return events


def failed(error: SvirError) -> None:
    assert_type(error.progress, Progress | None)
    assert_type(progress_of(ValueError()), Progress | None)


def blocking(client: Client, session: Session) -> None:
    assert_type(sync.generate(client, session, "hi", model="m"), Generation)
    assert_type(sync.resume(client, session), Generation)
    with sync.generate_stream(client, session, "hi", model="m") as run:
        assert_type(run, SyncGenerationStream)
        for happened in run:
            assert_type(happened, RoundEvent | RoundResults)
        pieces: Iterator[str] = run.text()
        assert_type(list(pieces), list[str])

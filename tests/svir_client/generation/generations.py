"""What the tests of generations share: models that follow a script, and what they ask for."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio

from svir_client import (
    AsyncClient,
    Capability,
    FunctionModel,
    GenerationStream,
    ModelDescriptor,
    RoundEvent,
    RoundResults,
    Session,
    Tools,
)
from svir_client.generation import GenerationEvent
from svir_core import (
    Completion,
    FinishReason,
    Image,
    Message,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    check_history,
)
from svir_core.event import Event
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api
from tests.svir_client.chat import SECONDS

Answer = Completion | str | Exception | Callable[[Request], Any]

APIS: dict[str, tuple[Api, Callable[..., AsyncClient]]] = {
    "openai_chat": (openai_chat.API, AsyncClient.openai),
    "openai_responses": (openai_responses.API, AsyncClient.responses),
    "anthropic_messages": (anthropic_messages.API, AsyncClient.anthropic),
    "gemini": (gemini.API, AsyncClient.gemini),
}


PNG = Image.data(b"\x89PNG", "image/png")
BLIND = ModelDescriptor("m", capabilities={Capability.TEXT_INPUT, Capability.TOOLS})
SEEING = ModelDescriptor("m", capabilities={Capability.TEXT_INPUT, Capability.IMAGE_INPUT, Capability.TOOLS})
WITHOUT_TOOLS = ModelDescriptor("m", capabilities={*Capability} - {Capability.TOOLS})


def some_tools() -> Tools:
    """One that works, one that fails, and one that gives an image."""
    registry = Tools()

    @registry.tool
    async def f() -> str:
        return "done"

    @registry.tool
    async def broken() -> str:
        raise ValueError("nobody is told")

    @registry.tool
    async def image() -> Image:
        return PNG

    return registry


def call(id: str, name: str = "f", arguments: str = "{}", **fields: Any) -> ToolCall:
    return ToolCall(id, name, arguments, **fields)


def asks(*calls: ToolCall, text: str = "", usage: Usage | None = None) -> Completion:
    parts = ([Text(text)] if text else []) + list(calls)
    return Completion(FinishReason.TOOL_CALLS, parts, usage=usage)


def says(text: str, usage: Usage | None = None, finish: FinishReason = FinishReason.STOP) -> Completion:
    return Completion(finish, [Text(text)], usage=usage)


class Script:
    """A model's function that gives one answer after the other, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[Request] = []
        self.answers = list(answers)

    async def ask(self, request: Request) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        given = answer(request) if callable(answer) else answer
        return await given if inspect.isawaitable(given) else given


@contextlib.asynccontextmanager
async def scripted_by(*answers: Answer, **options: Any) -> AsyncGenerator[tuple[Script, FunctionModel]]:
    """A client whose model follows a script, within the limit of every wait."""
    script = Script(*answers)
    with anyio.fail_after(SECONDS):
        async with FunctionModel(script.ask, **options) as client:
            yield script, client


def roles(session: Session) -> list[str]:
    """Who said each message, ``user``, ``assistant``, ``tool``, by first letter."""
    return [message.role.value[0] for message in session.messages]


def results(message: Message) -> list[ToolResult]:
    assert message.role is Role.TOOL
    return [part for part in message.parts if isinstance(part, ToolResult)]


def assert_at_rest(session: Session) -> None:
    """Nobody has the session, and no API would refuse what is in it for a call without a result."""
    assert not session.in_use
    for api, _ in APIS.values():
        assert check_history(session.messages, api) == ()


async def read(run: GenerationStream) -> list[tuple[int, str]]:
    """The events of a run, each as its round and its kind."""
    return [told(event) async for event in run]


def told(event: GenerationEvent) -> tuple[int, str]:
    return (event.round, type(event.event if isinstance(event, RoundEvent) else event).__name__)


def of_round(events: list[GenerationEvent], number: int) -> list[Event | RoundResults]:
    """What was told of one round."""
    return [event.event if isinstance(event, RoundEvent) else event for event in events if event.round == number]

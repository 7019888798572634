"""What is left of a generation that failed, and what its error says: 51 section 1.8, as 50 has it."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from svir_client import (
    FunctionModel,
    ModelDescriptor,
    Next,
    Session,
    Stream,
    Tools,
    generate,
    generate_stream,
    progress_of,
    resume,
)
from svir_client.testing import Reply
from svir_core import (
    Image,
    Message,
    Request,
    ServerError,
    SvirError,
    Text,
    UnsupportedError,
    Usage,
    check_history,
)
from svir_core.kept_error import kept_error
from svir_core.wire import openai_chat
from tests.svir_client.generation.generations import (
    PNG,
    Answer,
    asks,
    assert_at_rest,
    call,
    read,
    roles,
    scripted_by,
)
from tests.svir_client.layers.calls import scripted

pytestmark = pytest.mark.anyio


class Sealed(Exception):
    """An exception that takes no attribute."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            raise AttributeError(name)
        super().__setattr__(name, value)


class Download(Exception):
    """An exception whose progress is something else."""

    progress = "40 %"


@pytest.mark.parametrize("error", [ServerError("no", status=500), ValueError("mine"), Sealed("mine"), Download("mine")])
@pytest.mark.parametrize("where", ["model", "layer"])
@pytest.mark.parametrize("round", [1, 2])
async def test_an_error_of_a_round_leaves_what_was_complete_and_says_how_far_it_came(
    tools: Tools, error: Exception, where: str, round: int
) -> None:
    done = asks(call("a"), usage=Usage(1, 1, 2))
    answers: list[Answer] = [done] if round == 2 else []

    async def fails(request: Request, next: Next) -> Stream:
        if len(request.messages) == 2 * round - 1 and where == "layer":
            raise error
        return await next(request)

    session = Session()
    async with scripted_by(*answers, error, layers=[fails]) as (_, client):
        with pytest.raises(type(error)) as caught:
            await generate(client, session, "hi", model="m", tools=tools)
    assert caught.value is error
    assert roles(session) == ["u", "a", "t"][: 2 * round - 1]
    assert_at_rest(session)
    progress = progress_of(error)
    if isinstance(error, Sealed | Download):
        assert (progress, getattr(error, "progress", "40 %")) == (None, "40 %")
    else:
        assert progress is not None
        assert (progress.rounds, progress.tool_calls) == (round - 1, round - 1)
        assert progress.messages == session.messages
        assert progress.usage == (Usage(1, 1, 2) if round == 2 else Usage())
        assert progress.completion == (done if round == 2 else None)
    suspended = session.suspended
    assert suspended is not None
    if isinstance(error, SvirError):
        assert suspended.error == kept_error(error)
        assert isinstance(error, ServerError)
    else:
        assert suspended.error is None


def test_what_is_no_part_of_a_generation_has_no_progress() -> None:
    error: Any = ValueError()
    assert progress_of(error) is None
    error.progress = "something of its own"
    assert progress_of(error) is None


async def test_an_error_in_the_middle_of_an_answer_has_what_came_of_it_and_the_history_has_not() -> None:
    session = Session()
    answers = [Reply.completion(asks(call("a"))), Reply.text("Hel", "lo", cut=450), Reply.text("ok")]
    async with scripted(*answers) as (_, client):
        with pytest.raises(SvirError) as caught:
            await generate(client, session, "hi", model="m")
        assert caught.value.partial is not None
        assert caught.value.partial.parts == (Text("Hel"),)
        assert caught.value.progress is not None
        assert (caught.value.progress.rounds, roles(session)) == (1, ["u", "a", "t"])
        assert caught.value.progress.messages == session.messages
        assert (await resume(client, session)).text == "ok"


async def test_who_asks_again_and_does_not_resume_has_asked_twice() -> None:
    session = Session(messages=[Message.user("a"), Message.assistant("b")])
    async with scripted_by(ServerError("no"), "ok") as (script, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m")
        await generate(client, session, "hi", model="m")
    assert session.messages[2:] == (Message.user("hi"), Message.user("hi"), Message.assistant("ok"))
    assert session.suspended is None
    assert script.requests[1].messages == session.messages[:-1]


@pytest.mark.parametrize("again", [True, False])
async def test_a_result_that_the_api_cannot_carry_poisons_no_history(again: bool) -> None:
    tools, session, shown = Tools(), Session(), [PNG]

    @tools.tool
    def f() -> list[Image] | str:
        return shown if shown else "a cat"

    async with scripted(Reply.completion(asks(call("a"))), Reply.text("ok")) as (transport, client):
        with pytest.raises(UnsupportedError, match="a tool result cannot carry an image"):
            await generate(client, session, "hi", model="m", tools=tools)
        assert roles(session) == ["u"]
        assert check_history(session.messages, openai_chat.API) == ()
        shown.clear()
        if again:
            answer = await resume(client, session, tools=tools)
            assert answer.tool_calls == 1
        else:
            answer = await generate(client, session, "never mind", model="m", tools=tools)
        assert answer.text == "ok"
        assert len(transport.requests) == 2
    assert check_history(session.messages, openai_chat.API) == ()


SECRET = "sk-canary-7f3a9c"


def shown(error: BaseException) -> str:
    """What a traceback with locals would show of svir's frames."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if "/tests/" not in frame.f_code.co_filename]
    assert frames
    return "".join(f"{frame.f_locals!r}" for frame in frames) + repr(error)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tempature": 1},
        {"temperature": -1},
        {"seed": "x"},
        {"limits": 5},
        {"tools": 5},
        {"idle_timeout": 0},
        {"headers": {"x-key": f"{SECRET}\n"}},
        {"model": ModelDescriptor("m", api="gemini")},
    ],
)
async def test_no_traceback_shows_a_header(options: dict[str, Any]) -> None:
    given: dict[str, Any] = {"model": "m", "headers": {"x-key": SECRET}, **options}

    async def streamed(client: FunctionModel, session: Session) -> None:
        async with generate_stream(client, session, "hi", **given) as run:
            await read(run)

    async with scripted_by(ServerError("no"), ServerError("no")) as (_, client):
        ways: list[Callable[[Session], Awaitable[object]]] = [
            lambda session: generate(client, session, "hi", **given),
            lambda session: streamed(client, session),
            lambda session: resume(client, session, **given),
        ]
        for way in ways:
            with pytest.raises(SvirError) as caught:
                await way(Session())
            assert SECRET not in shown(caught.value)

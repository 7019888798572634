"""A generation that did not finish goes on: after each kind of failure, elsewhere, and with other limits."""

from __future__ import annotations

from typing import Any

import pytest

from svir_client import (
    AsyncClient,
    Capability,
    ModelDescriptor,
    Session,
    ToolContext,
    Tools,
    generate,
    resume,
    resume_stream,
)
from svir_client.testing import MockServer, Reply
from svir_core import (
    Completion,
    ConfigError,
    ContextOverflowError,
    Image,
    LoopLimits,
    LoopPhase,
    MaxRoundsError,
    MaxToolCallsError,
    Message,
    Progress,
    ProtocolError,
    ServerError,
    SessionInUseError,
    Tool,
    ToolCall,
    ToolResult,
    UnsupportedError,
    Usage,
)
from tests.svir_client.generation.generations import (
    APIS,
    Answer,
    asks,
    assert_at_rest,
    call,
    read,
    results,
    roles,
    says,
    scripted_by,
)

pytestmark = pytest.mark.anyio

BEFORE = (Message.user("a"), Message.assistant("b"))
ASKED = asks(call("a"), usage=Usage(1, 1, 2))
DONE = says("done", Usage(2, 2, 4))


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("answers", "failed"),
    [
        ([ServerError("no"), ASKED, DONE], 0),
        ([ASKED, ServerError("no"), DONE], 1),
        ([ASKED, LookupError("mine"), DONE], 1),
        ([asks(call(""), usage=Usage(1, 1, 2)), DONE], 0),
    ],
)
async def test_the_step_that_failed_is_done_again_and_what_was_done_is_not(
    answers: list[Answer], failed: int, as_json: bool
) -> None:
    tools, ran = Tools(), list[str]()

    @tools.tool
    async def f() -> str:
        ran.append("f")
        return "done"

    session = Session(messages=BEFORE)
    async with scripted_by(*answers) as (script, client):
        with pytest.raises((ServerError, LookupError, ProtocolError)):
            await generate(client, session, "hi", model="m", tools=tools, temperature=0, extra={"x": {"y": 1}})
        if as_json:
            session = Session.loads(session.dumps())
        suspended = session.suspended
        assert suspended is not None
        assert (suspended.phase, len(ran)) == (LoopPhase.MODEL, failed)
        answer = await resume(client, session, tools=tools)
        first, last = script.requests[0], script.requests[-1]
    assert (answer.text, answer.rounds, answer.usage) == ("done", 2, Usage(3, 3, 6))
    assert answer.tool_calls == len(ran) == answers.count(ASKED)
    assert script.requests[failed] == script.requests[failed + 1]
    assert last.replace(messages=first.messages) == first
    assert session.messages == (*BEFORE, *answer.messages)
    assert session.suspended is None
    assert_at_rest(session)


async def test_larger_limits_judge_the_answer_again_and_the_model_is_not_asked_twice(tools: Tools) -> None:
    for limits, larger, error in (
        (LoopLimits(rounds=1), LoopLimits(rounds=2), MaxRoundsError),
        (LoopLimits(tool_calls=1), LoopLimits(tool_calls=2), MaxToolCallsError),
    ):
        session = Session()
        async with scripted_by(asks(call("a"), call("b")), DONE) as (script, client):
            with pytest.raises(error):
                await generate(client, session, "hi", model="m", tools=tools, limits=limits)
            with pytest.raises(error) as caught:
                await resume(client, session, tools=tools)
            assert caught.value.progress is not None
            assert (caught.value.progress.rounds, roles(session)) == (1, ["u"])
            assert session.suspended is not None
            answer = await resume(client, session, tools=tools, limits=larger)
            assert (answer.text, answer.rounds, answer.tool_calls, len(script.requests)) == ("done", 2, 2, 2)


async def test_tools_are_all_run_again_when_their_results_did_not_come() -> None:
    class Box:
        broken = True
        ran = 0

        def tools(self) -> list[Tool]:
            return [Tool("f")]

        async def call(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
            self.ran += 1
            if self.broken and call.id == "b":
                raise OSError("the box is gone")
            return ToolResult(call.id, "done")

    box, session = Box(), Session()
    async with scripted_by(asks(call("a"), call("b")), "done") as (script, client):
        limits = LoopLimits(parallel=1)
        with pytest.raises(OSError, match="the box is gone"):
            await generate(client, session, "hi", model="m", tools=box, limits=limits)
        assert (roles(session), box.ran) == (["u"], 2)
        box.broken = False
        assert (await resume(client, session, tools=box)).text == "done"
    assert (box.ran, len(script.requests)) == (4, 2)


@pytest.mark.parametrize("name", APIS)
async def test_another_client_of_another_api_goes_on_under_another_name(tools: Tools, name: str) -> None:
    session = Session(system="Be brief.")
    async with scripted_by(ASKED, ServerError("no")) as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m", tools=tools)
    api, connect = APIS[name]
    seen = ModelDescriptor("other", api=name, capabilities={Capability.TEXT_INPUT, Capability.TOOLS})
    for model in (seen, "other", None):
        there = session.fork()
        loop = session.suspended
        assert loop is not None
        with there.lease() as lease:
            lease.suspend(loop)
        async with MockServer(Reply.completion(says("done"), api=api)) as server, connect(server.origin) as client:
            answer = await resume(client, there, tools=tools, model=model)
            sent = server.requests[0]
        assert (answer.text, answer.rounds, answer.tool_calls) == ("done", 2, 1)
        wanted = "m" if model is None else "other"
        assert wanted in (sent.json().get("model"), sent.target.split("/")[-1].split(":")[0])
        assert_at_rest(there)


async def test_what_the_other_model_cannot_do_is_refused_and_it_can_still_go_on(tools: Tools) -> None:
    session = Session()
    async with scripted_by(ServerError("no"), "done") as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, ["Look.", Image.data(b"x", "image/png")], model="m", tools=tools)
        before = session.dumps()
        deaf = ModelDescriptor("n", capabilities={Capability.TEXT_INPUT, Capability.IMAGE_INPUT})
        blind = ModelDescriptor("n", capabilities={Capability.TEXT_INPUT, Capability.TOOLS})
        elsewhere = ModelDescriptor("n", api="gemini")
        refusals: list[tuple[ModelDescriptor, type[Exception], str]] = [
            (deaf, UnsupportedError, "tools"),
            (blind, UnsupportedError, "image_input"),
            (elsewhere, ConfigError, "gemini"),
        ]
        for model, error, words in refusals:
            with pytest.raises(error, match=words):
                await resume(client, session, tools=tools, model=model)
            assert session.dumps() == before
            assert_at_rest(session)
        assert (await resume(client, session, tools=tools)).text == "done"


async def test_what_the_other_api_cannot_carry_is_refused_before_anything_is_sent(tools: Tools) -> None:
    session = Session()

    @tools.tool
    async def photo() -> Image:
        return Image.data(b"x", "image/png")

    async with scripted_by(asks(call("a", "photo")), ServerError("no"), "done") as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m", tools=tools)
        assert roles(session) == ["u", "a", "t"]
        async with AsyncClient.openai("http://127.0.0.1:1") as chat:
            with pytest.raises(UnsupportedError) as caught:
                await resume(chat, session, tools=tools)
        assert caught.value.progress == Progress()
        assert (await resume(client, session, tools=tools)).text == "done"


async def test_nothing_to_resume() -> None:
    session = Session()
    async with scripted_by("ok") as (_, client):
        for _ in range(2):
            with pytest.raises(ConfigError, match="no generation that did not finish") as caught:
                await resume(client, session)
            assert caught.value.progress == Progress()
            if not session.messages:
                await generate(client, session, "hi", model="m")
        nobody: Any = None
        with pytest.raises(ConfigError, match="session must be a Session"):
            await resume(client, nobody)


def appends(session: Session) -> None:
    session.append(Message.user("else"))


async def test_what_a_user_appends_or_clears_forgets_what_was_not_done() -> None:
    for change in (appends, Session.clear):
        session = Session()
        async with scripted_by(ServerError("no")) as (_, client):
            with pytest.raises(ServerError):
                await generate(client, session, "hi", model="m")
            change(session)
            with pytest.raises(ConfigError, match="no generation that did not finish"):
                await resume(client, session)


async def test_one_that_offers_tools_needs_something_to_run_them(tools: Tools) -> None:
    session = Session()
    async with scripted_by(ServerError("no"), ASKED, "done") as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m", tools=tools)
        with pytest.raises(ConfigError, match="offers tools"):
            await resume(client, session)
        assert (await resume(client, session, tools=tools)).tool_calls == 1


async def test_a_session_in_use_is_refused_at_once() -> None:
    session = Session()
    async with scripted_by(ServerError("no"), "done") as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m")
        with session.lease(), pytest.raises(SessionInUseError):
            await resume(client, session)
        assert (await resume(client, session)).text == "done"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0}, "no option named temperature"),
        ({"limits": 5}, "limits must be a LoopLimits"),
        ({"model": 5}, "model must be a str"),
        ({"tools": 5}, "not a Toolbox"),
    ],
)
async def test_wrong_options(options: dict[str, Any], words: str) -> None:
    async with scripted_by() as (_, client):
        with pytest.raises(ConfigError, match=words):
            resume_stream(client, Session(), **options)


async def test_only_what_is_left_is_told(tools: Tools) -> None:
    session = Session()
    async with scripted_by(ASKED, ServerError("no"), "done") as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m", tools=tools)
        async with resume_stream(client, session, tools=tools) as run:
            assert run.progress.rounds == 1
            assert await read(run) == [(2, "TextDelta"), (2, "Completed")]
    assert run.generation.rounds == 2
    assert [result.content for result in results(session.messages[2])] == ["done"]


async def test_a_history_too_long_for_the_other_server_can_still_go_on(tools: Tools) -> None:
    session = Session()
    async with scripted_by(ServerError("no"), "done") as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "long " * 500, model="m")
        async with AsyncClient.openai("http://127.0.0.1:1", context_tokens=64) as small:
            with pytest.raises(ContextOverflowError):
                await resume(small, session)
        answer = await resume(client, session)
    assert isinstance(answer.completion, Completion)
    assert answer.text == "done"


async def test_what_went_before_is_not_held_against_the_model_that_goes_on() -> None:
    session = Session(messages=[Message.user(Image.data(b"x", "image/png")), Message.assistant("A dot.")])
    async with scripted_by(ServerError("no"), "done") as (_, client):
        with pytest.raises(ServerError):
            await generate(client, session, "hi", model="m")
        assert (await resume(client, session, model=ModelDescriptor("n"))).text == "done"

"""A generation as it goes on: every event of every round, inside one block."""

from __future__ import annotations

import pytest

from svir_client import (
    FunctionModel,
    Next,
    RoundResults,
    Session,
    Stream,
    Tools,
    generate,
    generate_stream,
    progress_of,
    resume_stream,
)
from svir_client.generation import GenerationEvent
from svir_core import (
    Completed,
    Completion,
    ConfigError,
    FinishReason,
    Message,
    Progress,
    Request,
    ServerError,
    Text,
    ToolResult,
    Usage,
)
from tests.svir_client.generation.generations import (
    asks,
    assert_at_rest,
    call,
    of_round,
    read,
    roles,
    scripted_by,
)

pytestmark = pytest.mark.anyio


async def test_every_event_of_every_round_is_told_after_what_it_tells_of_is_stored(tools: Tools) -> None:
    session = Session()
    asked = asks(call("a"), text="let me")
    seen: list[tuple[GenerationEvent, int]] = []
    async with (
        scripted_by(asked, "ok") as (_, client),
        generate_stream(client, session, "hi", model="m", tools=tools) as run,
    ):
        assert roles(session) == ["u"]
        async for event in run:
            seen.append((event, len(session.messages)))
        assert not session.in_use
    events = [event for event, _ in seen]
    assert of_round(events, 1)[-2:] == [Completed(asked), RoundResults(1, (ToolResult("a", "done"),))]
    assert of_round(events, 2)[-1] == Completed(run.generation.completion)
    assert [stored for event, stored in seen if isinstance(event, RoundResults)] == [3]
    assert seen[-1][1] == 4


async def test_the_text_alone(tools: Tools) -> None:
    async with scripted_by(asks(call("a"), text="let me"), "o", "") as (_, client):
        async with generate_stream(client, None, "hi", model="m", tools=tools) as run:
            assert [piece async for piece in run.text()] == ["let me", "o"]
        assert run.generation.text == "o"


async def test_a_stream_is_entered_once_and_read_inside_its_block(tools: Tools) -> None:
    async with scripted_by("ok", "ok") as (_, client):
        run = generate_stream(client, None, "hi", model="m")
        assert (repr(run), run.progress) == ("<GenerationStream new>", Progress())
        with pytest.raises(ConfigError, match="before it was entered"):
            await anext(run)
        with pytest.raises(ConfigError, match="came to nothing yet"):
            _ = run.generation
        async with run:
            assert "ToolLoop model" in repr(run)
            with pytest.raises(ConfigError, match="entered once"):
                await run.__aenter__()
            await read(run)
            with pytest.raises(StopAsyncIteration):
                await anext(run)
        assert repr(run) == "<GenerationStream over>"
        assert run.progress.messages == run.generation.messages
        left = generate_stream(client, None, "hi", model="m")
        async with left:
            pass
        with pytest.raises(ConfigError, match="read after it was closed") as caught:
            await anext(left)
        assert caught.value.progress == left.progress != Progress()
        with pytest.raises(ConfigError, match="came to nothing yet"):
            _ = left.generation


async def test_an_error_is_raised_again_to_who_reads_on() -> None:
    async with (
        scripted_by(ServerError("no", status=500)) as (_, client),
        generate_stream(client, None, "hi", model="m") as run,
    ):
        for _ in range(2):
            with pytest.raises(ServerError, match="no"):
                await anext(run)
        with pytest.raises(ServerError):
            _ = run.generation


async def test_one_that_was_refused_is_over() -> None:
    session = Session()
    async with scripted_by() as (_, client):
        run = resume_stream(client, session)
        with pytest.raises(ConfigError, match="no generation that did not finish"):
            await run.__aenter__()
        assert repr(run) == "<GenerationStream over>"
        await run.aclose()
    assert_at_rest(session)


class Unplugged(Tools):
    """Tools that do not know any more which of them need approval."""

    plugged = True

    @property
    def requires_approval(self) -> frozenset[str]:
        if not self.plugged:
            raise KeyError("mine")
        return super().requires_approval


async def test_what_a_function_of_the_callers_raises_on_entering_says_how_far_it_came() -> None:
    session, tools = Session(), Unplugged()
    async with scripted_by() as (_, client):
        run = generate_stream(client, session, "hi", model="m", tools=tools)
        tools.plugged = False
        with pytest.raises(KeyError, match="mine") as caught:
            await run.__aenter__()
    assert progress_of(caught.value) == Progress()
    assert_at_rest(session)


async def test_an_interrupt_between_taking_the_session_and_the_first_step_gives_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    session = Session()
    async with scripted_by() as (_, client):
        monkeypatch.setattr(FunctionModel, "_redactor", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            await generate_stream(client, session, "hi", model="m").__aenter__()
    assert caught.tb is not None  # it holds the frames, and so whatever they have taken
    assert_at_rest(session)


async def test_an_answer_that_a_layer_has_read_to_its_end_is_the_answer(tools: Tools) -> None:
    async def reads(request: Request, next: Next) -> Stream:
        stream = await next(request)
        async for _ in stream:
            pass
        return stream

    session = Session()
    async with (
        scripted_by(asks(call("a")), "ok", layers=[reads]) as (_, client),
        generate_stream(client, session, "hi", model="m", tools=tools) as run,
    ):
        assert await read(run) == [(1, "RoundResults")]
    assert (run.generation.text, roles(session)) == ("ok", ["u", "a", "t", "a"])


async def test_everything_but_the_cumulative_figures_is_of_the_last_round(tools: Tools) -> None:
    usages = Usage(1, 2, 3, 4, 5, 6), Usage(10, 20, None, 0, 50, 60)
    last = Completion(FinishReason.LENGTH, [Text("ok")], usage=usages[1], model="m-2", id="r2")
    session = Session(messages=[Message.user("a"), Message.assistant("b")])
    async with scripted_by(asks(call("a"), call("b"), usage=usages[0]), last) as (_, client):
        answer = await generate(client, session, "hi", model="m", tools=tools)
    assert answer.completion == last
    assert (answer.finish, answer.text) == (FinishReason.LENGTH, "ok")
    assert (answer.usage, answer.rounds, answer.tool_calls) == (Usage(11, 22, None, 4, 55, 66), 2, 2)
    assert answer.messages == session.messages[2:]

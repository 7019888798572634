"""A generation that is cancelled or left, wherever: nothing stays behind, and it can go on."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from svir_client import (
    AsyncClient,
    GenerationStream,
    Next,
    RoundEvent,
    Session,
    Stream,
    Tools,
    Trace,
    generate,
    generate_stream,
    resume,
)
from svir_client.testing import Gate, MockServer, Reply, cancelled_at_every_await
from svir_client.tracing import GenerationEnd, memory
from svir_core import Completed, ConfigError, GenerationOutcome, LoopPhase, Progress, Request, TextDelta
from tests.svir_client.chat import SECONDS, until
from tests.svir_client.generation.generations import Answer, asks, assert_at_rest, call, read, roles, says, scripted_by

pytestmark = pytest.mark.anyio

ASKED = asks(call("a"), call("b"), text="let me")
ANSWERS = (ASKED, says("done"))


class Bench:
    """Tools that count which of their calls run, and hold them back where a test says so."""

    def __init__(self) -> None:
        self.running = 0
        self.began = 0
        self.held = anyio.Event()
        self.tools = Tools()
        self.tools.add(self.f, name="f")
        self.holding = False

    async def f(self) -> str:
        self.began += 1
        self.running += 1
        try:
            await (anyio.sleep_forever() if self.holding else anyio.lowlevel.checkpoint())
        finally:
            self.running -= 1
        return "done"


@contextlib.asynccontextmanager
async def serving(*replies: Reply) -> AsyncGenerator[tuple[MockServer, AsyncClient]]:
    with anyio.fail_after(SECONDS):
        async with MockServer(*replies) as server, AsyncClient.openai(server.origin) as client:
            yield server, client


async def whole(client: AsyncClient, session: Session, bench: Bench) -> None:
    await generate(client, session, "hi", model="m", tools=bench.tools)


async def streamed(client: AsyncClient, session: Session, bench: Bench) -> None:
    async with generate_stream(client, session, "hi", model="m", tools=bench.tools) as run:
        await read(run)


async def goes_on(session: Session, bench: Bench) -> None:
    """What an uncancelled run would have come to, from wherever this one was left."""
    left = session.suspended
    if left is None and session.messages:
        assert roles(session) == ["u", "a", "t", "a"]
        return
    done = 0 if left is None else left.rounds
    over = left is not None and left.phase is LoopPhase.FINISHED
    answers: list[Answer] = [] if over else list(ANSWERS[done:])
    async with scripted_by(*answers) as (_, client):
        if left is None:
            answer = await generate(client, session, "hi", model="m", tools=bench.tools)
        else:
            answer = await resume(client, session, tools=bench.tools)
    assert (answer.text, answer.rounds, answer.tool_calls) == ("done", 2, 2)
    assert roles(session) == ["u", "a", "t", "a"]
    assert session.suspended is None


@pytest.mark.parametrize("way", [whole, streamed])
async def test_cancelled_at_every_await_nothing_stays_behind_and_it_goes_on(
    way: Callable[[AsyncClient, Session, Bench], Coroutine[Any, Any, None]],
) -> None:
    phases: set[str] = set()

    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        bench, session = Bench(), Session()
        replies = [Reply.completion(answer) for answer in ANSWERS]
        async with serving(*replies) as (server, client):
            yield way(client, session, bench)
            assert_at_rest(session)
            assert bench.running == 0
            await client.aclose()
            await server.wait_closed()
            left = session.suspended
            phases.add("none" if left is None else f"{left.phase.value} {left.rounds}")
            await goes_on(session, bench)

    with anyio.fail_after(5 * SECONDS):
        assert await cancelled_at_every_await(attempt) > 10
    assert phases >= {"none", "model 0", "tools 1", "model 1"}


@pytest.mark.parametrize("rollback", [False, True])
async def test_cancelled_with_or_without_rollback_in_memory(rollback: bool) -> None:
    @contextlib.asynccontextmanager
    async def attempt() -> AsyncGenerator[Coroutine[Any, Any, object]]:
        bench, session = Bench(), Session()
        async with scripted_by("before", *ANSWERS) as (script, client):
            await generate(client, session, "first", model="m")
            yield generate(client, session, "hi", model="m", tools=bench.tools, rollback=rollback)
            assert_at_rest(session)
            if rollback:
                assert roles(session) in (["u", "a"], ["u", "a", "u", "a", "t", "a"])
                assert session.suspended is None
            elif session.suspended is not None:
                script.answers[:] = ANSWERS[session.suspended.rounds :]
                assert (await resume(client, session, tools=bench.tools)).rounds == 2

    with anyio.fail_after(5 * SECONDS):
        assert await cancelled_at_every_await(attempt) > 5


# --- left in each phase ------------------------------------------------------------------------------


async def test_cancelled_while_the_connection_opens() -> None:
    bench, session, gate = Bench(), Session(), Gate()
    async with serving(Reply.text("late", before_head=gate)) as (server, client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(whole, client, session, bench)
            await gate.reached()
            tasks.cancel_scope.cancel()
        assert_at_rest(session)
        await server.wait_closed()
        assert roles(session) == ["u"]


async def test_cancelled_in_the_middle_of_an_answer() -> None:
    bench, session, gate = Bench(), Session(), Gate()
    async with serving(Reply.text("Hel", gate, "lo")) as (server, client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(streamed, client, session, bench)
            await gate.reached()
            tasks.cancel_scope.cancel()
        assert_at_rest(session)
        await server.wait_closed()
        assert session.suspended is not None
        assert (session.suspended.phase, session.suspended.error) == (LoopPhase.MODEL, None)


async def test_cancelled_while_tools_run_they_are_cancelled_and_run_again_on_resume() -> None:
    bench, session = Bench(), Session()
    bench.holding = True
    async with scripted_by(*ANSWERS) as (_, client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(whole, client, session, bench)
            await until(lambda: bench.running == 2)
            assert session.in_use
            tasks.cancel_scope.cancel()
        assert bench.running == 0
        assert_at_rest(session)
        assert roles(session) == ["u"]
        bench.holding = False
        assert (await resume(client, session, tools=bench.tools)).text == "done"
    assert bench.began == 4


# --- leaving the block -------------------------------------------------------------------------------


async def leave_by_break(run: GenerationStream) -> None:
    async for event in run:
        if isinstance(event, RoundEvent) and isinstance(event.event, TextDelta):
            break


async def leave_by_exception(run: GenerationStream) -> None:
    await leave_by_break(run)
    raise LookupError("the caller's")


@pytest.mark.parametrize("leave", [leave_by_break, leave_by_exception])
async def test_leaving_the_block_early_closes_the_connection_and_gives_the_session_back(
    leave: Callable[[GenerationStream], Coroutine[Any, Any, None]],
) -> None:
    bench, session, gate = Bench(), Session(), Gate()
    async with serving(Reply.text("Hel", gate, "lo"), Reply.text("Hello")) as (server, client):
        run = generate_stream(client, session, "hi", model="m", tools=bench.tools)
        with contextlib.suppress(LookupError):
            async with run:
                await leave(run)
                assert session.in_use
        assert_at_rest(session)
        await server.wait_closed()
        with pytest.raises(ConfigError, match="closed"):
            await anext(run)
        assert (await resume(client, session, tools=bench.tools)).text == "Hello"


async def test_who_leaves_after_the_last_event_of_an_answer_has_it() -> None:
    bench, session, sink = Bench(), Session(), memory()
    async with scripted_by(*ANSWERS, layers=[Trace(sink)]) as (_, client):
        async with generate_stream(client, session, "hi", model="m", tools=bench.tools) as run:
            async for event in run:
                if event.round == 2 and isinstance(event, RoundEvent) and isinstance(event.event, Completed):
                    break
        assert run.generation.text == "done"
        assert (session.suspended, roles(session)) == (None, ["u", "a", "t", "a"])
        (end,) = [event.attributes for event in sink.events if isinstance(event.attributes, GenerationEnd)]
        assert end.outcome is GenerationOutcome.ANSWERED
        async for _ in run:
            raise AssertionError("there is nothing more")


async def test_who_leaves_before_the_tools_run_has_the_answer_that_calls_them() -> None:
    bench, session = Bench(), Session()
    async with scripted_by(*ANSWERS) as (script, client):
        async with generate_stream(client, session, "hi", model="m", tools=bench.tools) as run:
            async for event in run:
                if isinstance(event, RoundEvent) and isinstance(event.event, Completed):
                    break
        assert (bench.began, roles(session)) == (0, ["u"])
        assert run.progress.completion == ASKED
        answer = await resume(client, session, tools=bench.tools)
        assert (answer.rounds, len(script.requests)) == (2, 2)


# --- other tasks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["opening", "streaming", "tools"])
async def test_closed_by_another_task(phase: str) -> None:
    bench, session, gate = Bench(), Session(), Gate()
    bench.holding = True
    reply = {
        "opening": Reply.text("late", before_head=gate),
        "streaming": Reply.text("Hel", gate, "lo"),
        "tools": Reply.completion(ASKED),
    }[phase]
    raised: list[ConfigError] = []

    async def reads(run: GenerationStream) -> None:
        with pytest.raises(ConfigError, match="closed by another task") as caught:
            await read(run)
        raised.append(caught.value)

    async with serving(reply) as (server, client):
        run = generate_stream(client, session, "hi", model="m", tools=bench.tools)
        async with run, anyio.create_task_group() as tasks:
            tasks.start_soon(reads, run)
            await (until(lambda: bench.running == 2) if phase == "tools" else gate.reached())
            await run.aclose()
            assert bench.running == 0
            assert_at_rest(session)
            await run.aclose()
        assert [error.progress for error in raised] == [run.progress]
        assert [message.role.value for message in run.progress.messages] == ["user"]
        await client.aclose()
        await server.wait_closed()
        assert session.suspended is not None
        assert session.suspended.error is None
        with pytest.raises(ConfigError, match="after it was closed"):
            await anext(run)


async def test_a_closer_that_is_cancelled_leaves_the_closing_to_the_reader() -> None:
    tools, session, running, release = Tools(), Session(), anyio.Event(), anyio.Event()

    @tools.tool
    async def f() -> None:
        running.set()
        with anyio.CancelScope(shield=True):
            await release.wait()

    async with scripted_by(asks(call("a"))) as (_, client):
        run = generate_stream(client, session, "hi", model="m", tools=tools)
        await run.__aenter__()

        async def reads() -> None:
            with pytest.raises(ConfigError, match="closed by another task"):
                await read(run)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reads)
            await running.wait()
            with anyio.move_on_after(0.01) as scope:
                await run.aclose()
            assert scope.cancelled_caught
            release.set()
        assert_at_rest(session)
        assert session.suspended is not None


async def test_closed_by_another_task_while_it_is_entered() -> None:
    session, entered = Session(), anyio.Event()

    async with scripted_by("ok") as (_, client):
        run = generate_stream(client, session, "hi", model="m")
        check = client.check

        async def waits(*given: Any, **options: Any) -> None:
            entered.set()
            await anyio.sleep_forever()
            await check(*given, **options)

        slow: Any = client
        slow.check = waits  # as one does that measures a large file
        async with anyio.create_task_group() as tasks:

            async def enters() -> None:
                with pytest.raises(ConfigError, match="closed by another task") as caught:
                    async with run:
                        raise AssertionError("it was closed")
                assert caught.value.progress == Progress()

            tasks.start_soon(enters)
            await entered.wait()
            await run.aclose()
    assert (session.messages, session.suspended) == ((), None)
    assert_at_rest(session)


async def test_closed_before_it_is_entered_it_is_entered_all_the_same() -> None:
    async with scripted_by("ok") as (_, client):
        run = generate_stream(client, None, "hi", model="m")
        await run.aclose()
        async with run:
            await read(run)
        assert run.generation.text == "ok"


async def test_a_tool_that_closes_its_own_generation_ends_it() -> None:
    tools, session, runs = Tools(), Session(), list[GenerationStream]()

    @tools.tool
    async def f() -> None:
        await runs[0].aclose()

    async with (
        scripted_by(asks(call("a"))) as (_, client),
        generate_stream(client, session, "hi", model="m", tools=tools) as run,
    ):
        runs.append(run)
        with pytest.raises(ConfigError, match="closed"):
            await read(run)
    assert_at_rest(session)


async def test_two_readers_at_once_are_refused_and_the_first_goes_on() -> None:
    bench, session, gate = Bench(), Session(), Gate()
    async with (
        serving(Reply.text("Hel", gate, "lo")) as (_, client),
        generate_stream(client, session, "hi", model="m") as run,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, run)
            await gate.reached()
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(ConfigError, match="two tasks read"):
                await anext(run)
            gate.open()
        assert run.generation.text == "Hello"
    assert bench.running == 0


async def test_a_callback_that_raises_on_closing_does_not_keep_the_session() -> None:
    session = Session()

    def refuse(stream: Stream) -> None:
        raise LookupError("the layer's")

    async def watch(request: Request, next: Next) -> Stream:
        stream = await next(request)
        stream.on_close(refuse)
        return stream

    async with scripted_by("ok", layers=[watch]) as (_, client):
        with pytest.raises(LookupError):
            async with generate_stream(client, session, "hi", model="m", rollback=True) as run:
                await anext(run)
    assert session.messages == ()
    assert_at_rest(session)


async def test_one_that_was_dropped_has_the_session_no_more() -> None:
    session = Session()
    async with scripted_by("ok", "again") as (_, client):
        run = generate_stream(client, session, "hi", model="m")
        await run.__aenter__()
        assert session.in_use
        del run
        assert_at_rest(session)
        assert (await resume(client, session)).text == "ok"


async def test_an_interrupt_of_one_tool_cancels_the_others_and_is_raised_by_itself() -> None:
    tools, session, cancelled = Tools(), Session(), list[str]()

    class Interrupted(BaseException):
        pass

    @tools.tool
    async def stops() -> str:
        raise Interrupted

    @tools.tool
    async def waits() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append("waits")

    async with scripted_by(asks(call("a", "waits"), call("b", "stops"))) as (_, client):
        with pytest.raises(Interrupted):
            await generate(client, session, "hi", model="m", tools=tools)
    assert cancelled == ["waits"]
    assert_at_rest(session)
    assert session.suspended is not None
    assert session.suspended.phase is LoopPhase.TOOLS

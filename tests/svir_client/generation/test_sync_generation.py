"""Generations without an event loop: the same names, results and errors, and what only blocking code can do."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import os
import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import svir_client
import svir_client.sync
from svir_client import (
    AsyncClient,
    Client,
    GenerationStream,
    GenerationTextStream,
    RoundEvent,
    Session,
    Tools,
)
from svir_client.sync import (
    SyncGenerationStream,
    SyncGenerationTextStream,
    generate,
    generate_stream,
    resume,
    resume_stream,
)
from svir_client.testing import Gate, MockServer, Reply
from svir_core import (
    Completed,
    ConfigError,
    GenerationOutcome,
    LoopLimits,
    MaxRoundsError,
    SessionInUseError,
    TextDelta,
    TransportError,
    Usage,
)
from tests.svir_client.blocking import InThread, connected
from tests.svir_client.chat import HELLO, SECONDS
from tests.svir_client.generation.generations import asks, assert_at_rest, call, roles, says, told
from tests.svir_client.test_sync_parity import NAMES, members

ASKED = Reply.completion(asks(call("a"), call("b"), text="let me", usage=Usage(1, 1, 2)))
DONE = Reply.completion(says("done", Usage(2, 2, 4)))
REFUSED = Reply.document({"error": {"message": "no"}}, 500)

TWINS: dict[type, type] = {
    AsyncClient: Client,
    GenerationStream: SyncGenerationStream,
    GenerationTextStream: SyncGenerationTextStream,
}


# --- the same names and signatures -------------------------------------------------------------------


def spelled(signature: object) -> str:
    """A signature, its classes by the twin's names."""
    names = {kind.__name__: twin.__name__ for kind, twin in TWINS.items()} | {"Item": "GenerationEvent"}
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), str(signature))


@pytest.mark.parametrize("name", ["generate", "generate_stream", "resume", "resume_stream"])
def test_the_functions_have_the_same_signatures(name: str) -> None:
    twin, original = getattr(svir_client.sync, name), getattr(svir_client, name)
    assert spelled(inspect.signature(twin)) == spelled(inspect.signature(original))
    assert not inspect.iscoroutinefunction(twin)
    assert f"svir_client.{name}`" in (inspect.getdoc(twin) or "")


@pytest.mark.parametrize("kind", [GenerationStream, GenerationTextStream])
def test_the_classes_have_the_same_names_and_signatures(kind: type) -> None:
    twin = TWINS[kind]
    assert {NAMES.get(name, name) for name in members(kind)} - {"__repr__"} == members(twin) - {"__repr__"}
    for name in members(kind):
        mine, its = (
            inspect.getattr_static(each, there) for each, there in ((kind, name), (twin, NAMES.get(name, name)))
        )
        if isinstance(mine, property):
            assert isinstance(its, property), name
            assert inspect.signature(mine.fget or len) == inspect.signature(its.fget or len), name
        else:
            assert spelled(inspect.signature(mine)) == spelled(inspect.signature(its)), name
            assert not inspect.iscoroutinefunction(its), name


def test_what_is_asked_for_late_is_there_and_nothing_else_is() -> None:
    for name in svir_client.sync.__all__:
        assert getattr(svir_client.sync, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'generation_of_yours'"):
        _ = svir_client.sync.generation_of_yours


# --- the same results --------------------------------------------------------------------------------


def test_a_whole_generation(tools: Tools) -> None:
    session = Session(system="Be brief.")
    with connected(ASKED, DONE) as (server, client):
        answer = generate(client, session, "hi", model="m", tools=tools, temperature=0)
        assert [request.json()["temperature"] for request in server.requests] == [0, 0]
    assert (answer.text, answer.rounds, answer.tool_calls) == ("done", 2, 2)
    assert (answer.usage, answer.outcome) == (Usage(3, 3, 6), GenerationOutcome.ANSWERED)
    assert answer.messages == session.messages
    assert_at_rest(session)


def test_as_it_goes_on(tools: Tools) -> None:
    session = Session()
    with connected(ASKED, DONE) as (_, client), generate_stream(client, session, "hi", model="m", tools=tools) as run:
        with pytest.raises(ConfigError, match="not read to its end"):
            _ = run.generation
        events = list(run)
        assert list(run) == []
        assert run.generation.rounds == run.progress.rounds == 2
        assert len(run.run_id) == 32
    assert [told(event) for event in events] == [
        (1, "TextDelta"),
        *[(1, "ToolCallDelta")] * (len(events) - 5),
        (1, "Completed"),
        (1, "RoundResults"),
        (2, "TextDelta"),
        (2, "Completed"),
    ]
    assert run.generation.text == "done"
    assert_at_rest(session)


def test_events_that_came_in_one_read_are_all_told(tools: Tools) -> None:
    whole = Reply.stream(b"".join(HELLO))
    with connected(whole) as (_, client), generate_stream(client, None, "hi", model="m") as run:
        assert [told(event) for event in run] == [(1, "TextDelta")] * 2 + [(1, "Completed")]


def test_the_text_alone(tools: Tools) -> None:
    with connected(ASKED, DONE) as (_, client), generate_stream(client, None, "hi", model="m", tools=tools) as run:
        assert list(run.text()) == ["let me", "done"]
        assert run.generation.text == "done"


def test_a_failure_and_what_goes_on_after_it(tools: Tools) -> None:
    session = Session()
    with connected(ASKED, REFUSED, REFUSED, DONE) as (server, client):
        with pytest.raises(TransportError) as caught:
            generate(client, session, "hi", model="m", tools=tools)
        assert caught.value.progress is not None
        assert (caught.value.progress.rounds, roles(session)) == (1, ["u", "a", "t"])
        with resume_stream(client, session, tools=tools) as run:
            for _ in range(2):
                with pytest.raises(TransportError):
                    next(run)
            with pytest.raises(TransportError):
                _ = run.generation
        assert resume(client, session, tools=tools).text == "done"
        assert server.request_count == 4
    assert_at_rest(session)


def test_limits_and_approval() -> None:
    tools, ran = Tools(), list[str]()

    @tools.tool(requires_approval=True)
    def f() -> str:
        ran.append(threading.current_thread().name)
        return "done"

    session = Session()
    with connected(ASKED, DONE) as (_, client):
        with pytest.raises(MaxRoundsError):
            generate(client, session, "hi", model="m", tools=tools, limits=LoopLimits(rounds=1))
        answer = resume(client, session, tools=tools, limits=LoopLimits())
        assert [each.id for each in answer.awaiting] == ["a", "b"]
        assert resume(client, session, tools=tools, approvals={"a": True, "b": True}).text == "done"
    assert len(ran) == 2


def test_what_a_function_of_the_callers_raises_is_raised(tools: Tools) -> None:
    async def fails(request: Any, next: Any) -> Any:
        raise LookupError("mine")

    session = Session()
    with connected() as (server, _), Client.openai(server.origin, layers=[fails]) as client:
        with pytest.raises(LookupError):
            generate(client, session, "hi", model="m")
        with resume_stream(client, session) as run:
            with pytest.raises(LookupError):
                next(run)
            with pytest.raises(ConfigError, match="not read to its end"):
                _ = run.generation
    assert_at_rest(session)


# --- mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [generate, generate_stream])
def test_wrong_arguments(function: Callable[..., object]) -> None:
    with connected() as (_, client):
        for client_, options, words in (
            (
                AsyncClient.openai("http://127.0.0.1:1"),
                {},
                "a Client, not an AsyncClient: .* svir_client$",
            ),
            (client, {"tempature": 1}, "no option named tempature"),
            (client, {"session": 5}, "session must be a Session"),
        ):
            with pytest.raises(ConfigError, match=words):
                function(client_, **{"session": None, "input": "hi", "model": "m", **options})


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_on_a_thread_with_an_event_loop_all_of_them_are_refused(backend: str) -> None:
    calls: list[Callable[[Client], object]] = [
        lambda client: generate(client, None, "hi", model="m"),
        lambda client: generate_stream(client, None, "hi", model="m"),
        lambda client: resume(client, Session()),
        lambda client: resume_stream(client, Session()),
    ]

    async def main() -> None:
        for each in calls:
            with pytest.raises(ConfigError, match="runs an event loop"):
                each(client)

    with Client.openai("http://127.0.0.1:1") as client:
        anyio.run(main, backend=backend)


def test_a_session_in_use_is_refused_at_once() -> None:
    session = Session()
    with connected() as (_, client), session.lease():
        with pytest.raises(SessionInUseError):
            generate(client, session, "hi", model="m")
        with pytest.raises(SessionInUseError):
            generate_stream(client, session, "hi", model="m").__enter__()


# --- left, dropped, interrupted ----------------------------------------------------------------------


def test_leaving_the_block_early_gives_the_session_back(tools: Tools) -> None:
    session, gate = Session(), Gate()
    with connected(Reply.text("Hel", gate, "lo"), DONE) as (server, client):
        with generate_stream(client, session, "hi", model="m", tools=tools) as run:
            for event in run:
                assert isinstance(event, RoundEvent)
                assert event.event == TextDelta("Hel")
                break
        assert_at_rest(session)
        server.wait_closed(SECONDS)
        with pytest.raises(ConfigError, match="after it was closed"):
            next(run)
        with pytest.raises(ConfigError, match="not read to its end"):
            _ = run.generation
        assert resume(client, session, tools=tools).text == "done"


def test_an_exception_in_the_block_cancels_the_tools() -> None:
    tools, session, began, cancelled = Tools(), Session(), threading.Event(), threading.Event()

    @tools.tool
    async def f() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with connected(ASKED) as (_, client):
        with contextlib.suppress(LookupError), generate_stream(client, session, "hi", model="m", tools=tools) as run:
            for event in run:
                if isinstance(event, RoundEvent) and isinstance(event.event, Completed):
                    break
            assert began.wait(SECONDS)
            raise LookupError
        assert cancelled.is_set()
        assert_at_rest(session)
        assert roles(session) == ["u"]


def test_closed_by_another_thread(tools: Tools) -> None:
    session, gate = Session(), Gate()
    with connected(Reply.text("Hel", gate, "lo")) as (_, client):
        with generate_stream(client, session, "hi", model="m", tools=tools) as run:
            next(run)
            with InThread(run.close), pytest.raises(ConfigError, match="after it was closed"):
                list(run)
        assert_at_rest(session)


def test_one_that_is_dropped_gives_the_session_back(tools: Tools) -> None:
    session, gate = Session(), Gate()
    with connected(Reply.text("Hel", gate, "lo")) as (server, client):
        run = generate_stream(client, session, "hi", model="m", tools=tools)
        next(run.__enter__())
        del run
        gc.collect()
        server.wait_closed(SECONDS)
        until(lambda: not session.in_use)
        assert session.suspended is not None


@pytest.mark.parametrize("way", ["whole", "stream"])
def test_an_interrupt_of_the_keyboard_cancels_the_tools_and_gives_the_session_back(way: str) -> None:
    tools, session, cancelled = Tools(), Session(), threading.Event()

    @tools.tool
    async def stuck() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    def whole(client: Client) -> None:
        generate(client, session, "hi", model="m", tools=tools)

    def streamed(client: Client) -> None:
        with generate_stream(client, session, "hi", model="m", tools=tools) as run:
            list(run)

    with connected(Reply.completion(asks(call("a", "stuck")))) as (_, client):
        with pytest.raises(KeyboardInterrupt):
            {"whole": whole, "stream": streamed}[way](client)
        assert cancelled.is_set()
        assert_at_rest(session)
        assert roles(session) == ["u"]
        others = Tools()
        others.add(lambda: "done", name="stuck")
        with connected(DONE) as (_, other):
            assert resume(other, session, tools=others).text == "done"


def until(holds: Callable[[], bool]) -> None:
    """Let other threads run until ``holds``, within the limit of every wait."""
    deadline = threading.Event()
    timer = threading.Timer(SECONDS, deadline.set)
    timer.start()
    try:
        while not holds():
            assert not deadline.is_set(), "it never came to hold"
            deadline.wait(0)
    finally:
        timer.cancel()
        timer.join()


def test_threads_share_a_client_and_each_has_its_session(tools: Tools) -> None:
    sessions = [Session() for _ in range(4)]

    def answer(request: Any) -> Reply:
        return DONE if any(message["role"] == "tool" for message in request.json()["messages"]) else ASKED

    def run(session: Session) -> None:
        generate(client, session, "hi", model="m", tools=tools)

    with (
        MockServer(answer=answer).in_thread() as server,
        Client.openai(server.origin) as client,
        contextlib.ExitStack() as stack,
    ):
        for session in sessions:
            stack.enter_context(InThread(functools.partial(run, session)))
    assert [roles(session) for session in sessions] == [["u", "a", "t", "a"]] * 4

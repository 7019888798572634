"""The blocking client and threads: shared by many, closed from another, refused beside an event loop; and its keys."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from svir_client import Client, SyncStream
from svir_client.sync.loop_thread import Job
from svir_client.testing import End, Framing, Gate, MockServer, Reply
from svir_core.errors import ConfigError
from svir_core.event import Event, TextDelta
from tests.svir_client.blocking import InThread, connected, serving
from tests.svir_client.chat import REQUEST, SECONDS, hello, text

OPEN_ENDED = Reply.stream(text("a"), end=End.STALL)

# --- closed from another thread ------------------------------------------------------------------


def test_another_thread_closes_it_and_the_reader_is_told() -> None:
    with connected(OPEN_ENDED) as (peer, client):
        reading = threading.Event()

        def read(stream: SyncStream) -> None:
            next(stream)
            reading.set()
            with pytest.raises(ConfigError, match="after it was closed"):
                next(stream)

        with client.stream(REQUEST) as stream, InThread(lambda: read(stream)):
            assert reading.wait(SECONDS)
            stream.close()
            stream.close()
        peer.wait_closed()


def test_another_thread_closes_it_while_it_is_being_opened() -> None:
    with connected(Reply.silence()) as (peer, client):
        stream = client.stream(REQUEST)

        def enter() -> None:
            with pytest.raises(ConfigError, match="closed while it was being opened"):
                stream.__enter__()

        with InThread(enter):
            peer.wait_requests(1)
            stream.close()
        peer.wait_closed()


def test_no_event_comes_once_close_has_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread closes it in the middle of a read, after the items were taken and before they are there."""
    with connected(Reply.stream(text("a") + text("b") + text("c"), end=End.STALL)) as (peer, client):
        for peeked in (False, True):
            with client.stream(REQUEST) as stream, monkeypatch.context() as patch:

                def closed_meanwhile(self: SyncStream, items: list[Event]) -> None:
                    with InThread(self.close):
                        pass

                patch.setattr(SyncStream, "_came", closed_meanwhile)
                for _ in range(2):
                    with pytest.raises(ConfigError, match="after it was closed"):
                        stream.peek() if peeked else next(stream)
            peer.add(Reply.stream(text("a") + text("b"), end=End.STALL))
        peer.wait_closed()


def test_a_stream_whose_opening_was_interrupted_before_it_began_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(job: Job[object]) -> None:
        raise KeyboardInterrupt

    with connected() as (peer, client):
        stream = client.stream(REQUEST)
        with monkeypatch.context() as patch:
            patch.setattr(Job, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                stream.__enter__()
        with InThread(stream.close):
            pass
        assert peer.connection_count == 0


def test_a_stream_closed_just_before_it_begins_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Job[object].start
    with connected(Reply.silence()) as (peer, client):
        stream = client.stream(REQUEST)

        def closed_first(job: Job[object]) -> None:
            with InThread(stream.close):
                pass
            start(job)

        def enter() -> None:
            with pytest.raises(ConfigError, match="closed while it was being opened"):
                stream.__enter__()

        monkeypatch.setattr(Job, "start", closed_first)
        with InThread(enter):
            pass
        assert peer.connection_count == 0


def test_closing_the_client_ends_a_stream_that_is_read() -> None:
    with connected(OPEN_ENDED) as (peer, client):
        reading = threading.Event()

        def read() -> None:
            with client.stream(REQUEST) as stream:
                next(stream)
                reading.set()
                with pytest.raises(ConfigError, match="closed on this side"):
                    next(stream)

        with InThread(read):
            assert reading.wait(SECONDS)
            client.close()
        peer.wait_closed()


# --- threads and event loops ---------------------------------------------------------------------


def test_two_threads_do_not_read_one_stream() -> None:
    gate = Gate()
    with connected(Reply.stream(gate, text("a"), end=End.STALL)) as (peer, client), client.stream(REQUEST) as stream:
        assert stream._turn.acquire(blocking=False)  # as a thread that waits in a read holds it
        with pytest.raises(ConfigError, match="two threads read one SyncStream"):
            next(stream)
        stream._turn.release()
        peer.call(gate.open)
        assert next(stream) == TextDelta("a")


def test_sixteen_threads_share_a_client() -> None:
    calls, threads = 4, 16
    answers: list[str] = []

    def work(client: Client) -> None:
        for _ in range(calls):
            answers.append(client.complete(REQUEST).text)
            with client.stream(REQUEST) as stream:
                answers.append("".join(stream.text()))

    with connected(*[hello(framing=Framing.CHUNKED) for _ in range(2 * calls * threads)]) as (peer, client):
        workers = [InThread(lambda: work(client)) for _ in range(threads)]
        for worker in workers:
            worker.__enter__()
        for worker in workers:
            worker.__exit__()
        assert (peer.unscripted, peer.unasked) == (0, 0)
    assert answers == ["Hello"] * 2 * calls * threads


@pytest.mark.anyio
async def test_on_a_thread_with_an_event_loop_it_refuses_and_in_its_worker_threads_it_works() -> None:
    with anyio.fail_after(SECONDS):
        async with MockServer(hello(), OPEN_ENDED) as server:
            client = Client.openai(server.origin)
            for call in (
                lambda: client.complete(REQUEST),
                lambda: client.stream(REQUEST),
                lambda: client.send(REQUEST),
                client.list_models,
                client.__enter__,
            ):
                with pytest.raises(ConfigError, match=r"event loop \((asyncio|trio)\): use AsyncClient"):
                    call()
            assert server.connection_count == 0
            assert (await anyio.to_thread.run_sync(client.complete, REQUEST)).text == "Hello"

            stream = await anyio.to_thread.run_sync(client.stream, REQUEST)
            with pytest.raises(ConfigError, match="use AsyncClient"):
                stream.__enter__()
            await anyio.to_thread.run_sync(stream.__enter__)
            with pytest.raises(ConfigError, match="use AsyncClient"):
                next(stream)
            stream.close()  # waits for nothing here: the server is on this very loop
            await server.wait_closed()
            client.close()
    with pytest.raises(ConfigError, match="closed"):
        await anyio.to_thread.run_sync(client.complete, REQUEST)


def test_every_client_runs_on_one_daemon_thread() -> None:
    with serving(hello(), hello()) as peer:
        for _ in range(2):
            Client.openai(peer.origin).complete(REQUEST)
        running = [thread for thread in threading.enumerate() if thread.name == "svir-blocking"]
        assert len(running) == 1
        assert running[0].daemon


# --- keys ----------------------------------------------------------------------------------------


def test_a_key_function_may_be_async() -> None:
    async def key() -> str:
        await anyio.lowlevel.checkpoint()
        return "rotated"

    with serving(hello()) as peer, Client.openai(peer.origin, api_key=key) as client:
        client.complete(REQUEST)
        assert peer.requests[0].header("authorization") == "Bearer rotated"


def test_a_key_function_that_blocks_holds_up_no_other_call() -> None:
    other_done = threading.Event()
    asked = threading.Event()

    def key() -> str:
        if not asked.is_set():
            asked.set()
            assert other_done.wait(SECONDS)
        return "k"

    with (
        serving(hello(), hello()) as peer,
        Client.openai(peer.origin, api_key=key) as client,
        InThread(lambda: client.complete(REQUEST)),
    ):
        assert asked.wait(SECONDS)
        client.complete(REQUEST)
        other_done.set()


class _OfNoKindError(BaseException):
    """Neither an ``Exception`` nor one of Python's own."""


def test_a_key_function_that_raises_stop_iteration() -> None:
    raised = StopIteration("a")

    def key() -> str:
        raise raised

    with pytest.raises(StopIteration) as caught:
        Client.openai("http://127.0.0.1:1", api_key=key).complete(REQUEST)
    assert caught.value is raised


def test_what_a_key_function_raises_reaches_the_caller_and_the_thread_lives_on() -> None:
    raised: list[BaseException] = [
        *(SystemExit(3), KeyError("vault"), KeyboardInterrupt(), GeneratorExit(), _OfNoKindError()),
        *(asyncio.CancelledError(), concurrent.futures.CancelledError()),
    ]
    for error in raised:

        def blocking(error: BaseException = error) -> str:
            raise error

        async def awaited(error: BaseException = error) -> str:
            raise error

        for key in (blocking, awaited):
            client = Client.openai("http://127.0.0.1:1", api_key=key)
            with pytest.raises(type(error)) as caught:
                client.complete(REQUEST)
            assert caught.value is error
            with pytest.raises(type(error)), client.stream(REQUEST):
                pass
    with connected(hello()) as (_, client):
        assert client.complete(REQUEST).text == "Hello"

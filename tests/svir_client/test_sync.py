"""The blocking client over real sockets: what it gives and raises, and when the server sees it go."""

from __future__ import annotations

import gc
import pathlib
import subprocess
import sys
import traceback
from typing import Any

import pytest

from svir_client import Client
from svir_client.sync.feed import Feed
from svir_client.testing import End, Framing, Gate, Reply
from svir_core.errors import (
    AttachmentError,
    AuthenticationError,
    ConfigError,
    ProtocolError,
    ResponseTimeoutError,
    SvirError,
    TransportError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.event import Completed, Event, TextDelta
from svir_core.message import Message, TextFile
from svir_core.request import Request
from svir_core.wire.api import Model
from tests.svir_client.blocking import connected, serving
from tests.svir_client.chat import DONE, FINISH, HELLO, REQUEST, hello, text

LISTING = Reply.document({"object": "list", "data": [{"id": "m", "object": "model"}]})
MODEL = Model("m", "m")


def open_ended(*pieces: bytes) -> Reply:
    """A stream that stays open without an end."""
    return Reply.stream(*(pieces or (text("a"),)), end=End.STALL)


# --- what is given -------------------------------------------------------------------------------


def test_the_whole_answer_and_the_models() -> None:
    with connected(hello(), LISTING) as (_, client):
        assert client.complete(REQUEST).text == "Hello"
        assert [model.id for model in client.list_models()] == [MODEL.id]
        with pytest.raises(UnsupportedError):
            client.count_tokens(REQUEST)  # Chat Completions has no such endpoint


def test_events_then_the_completion() -> None:
    with connected(hello()) as (_, client):
        with client.stream(REQUEST) as stream:
            with pytest.raises(ConfigError, match="not read to its end"):
                _ = stream.completion
            assert [next(stream), next(stream)] == [TextDelta("Hel"), TextDelta("lo")]
            last = next(stream)
            assert isinstance(last, Completed)
            for _ in range(2):
                with pytest.raises(StopIteration):
                    next(stream)
        assert stream.completion == last.completion
        assert stream.completion.text == "Hello"
        assert (stream.status, stream.head.status, stream.error) == (200, 200, None)
        assert (stream.request_id, stream.rate_limit) == (None, None)


def test_the_head_is_there_before_the_first_event() -> None:
    gate = Gate()
    reply = Reply(
        200, {"content-type": "text/event-stream", "x-request-id": "r1", "x-ratelimit-limit-requests": "9"}, (gate,)
    )
    with connected(reply) as (_, client), client.stream(REQUEST) as stream:
        assert stream.request_id == "r1"
        assert stream.rate_limit is not None
        assert stream.rate_limit.limit_requests == 9


def test_text_may_begin_anywhere_and_the_stream_be_read_on() -> None:
    with connected(hello(), hello()) as (_, client):
        with client.stream(REQUEST) as stream:
            assert list(stream.text()) == ["Hel", "lo"]
        assert stream.completion.text == "Hello"
        with client.stream(REQUEST) as stream:
            assert next(stream.text()) == "Hel"
            assert next(stream) == TextDelta("lo")


def test_a_relay_gives_the_bytes() -> None:
    with connected(hello()) as (_, client):
        with client.send(REQUEST) as raw:
            assert b"".join(raw) == b"".join(HELLO)
            with pytest.raises(StopIteration):
                next(raw)
        assert raw.status == 200


def test_events_come_as_the_server_sends_them() -> None:
    gate = Gate()
    with (
        connected(Reply.stream(text("a"), gate, text("b"), FINISH, DONE)) as (peer, client),
        client.stream(REQUEST) as stream,
    ):
        assert next(stream) == TextDelta("a")
        peer.call(gate.open)
        assert next(stream) == TextDelta("b")


def test_a_file_is_sent(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("word " * 100_000)
    request = Request("m").message(Message.user(TextFile.path(path)))
    with connected(hello()) as (peer, client):
        assert client.complete(request).text == "Hello"
        assert b"word word" in peer.requests[0].body


def test_headers_and_idle_timeout_are_of_the_call() -> None:
    with connected(hello(), Reply.silence()) as (peer, client):
        client.complete(REQUEST, headers={"x-a": "1"})
        assert peer.requests[0].header("x-a") == "1"
        with pytest.raises(ResponseTimeoutError):
            client.complete(REQUEST, idle_timeout=0.01)


# --- what is raised ------------------------------------------------------------------------------


def test_a_cut_stream_raises_after_its_events_and_then_again() -> None:
    with connected(Reply.stream(text("a"))) as (_, client):
        events: list[Event] = []
        with client.stream(REQUEST) as stream:
            with pytest.raises(TruncatedStreamError) as first:
                events.extend(iter(lambda: next(stream), None))
            assert stream.error is first.value
            with pytest.raises(TruncatedStreamError) as again:
                next(stream)
        assert again.value is first.value
        with pytest.raises(TruncatedStreamError):
            _ = stream.completion
        assert first.value.partial is not None
        assert first.value.partial.text == "a"


def test_an_error_is_not_told_before_the_reader_has_come_to_it() -> None:
    reply = Reply.stream(text("a") + text("b") + b"data: {}}\n\n")
    with connected(reply) as (peer, client), client.stream(REQUEST) as stream:
        assert next(stream) == TextDelta("a")
        peer.wait_closed()  # the whole was read, and refused
        assert stream.error is None
        assert next(stream) == TextDelta("b")
        with pytest.raises(ProtocolError):
            next(stream)
        assert isinstance(stream.error, ProtocolError)


def test_a_relay_that_is_cut_off_raises_after_its_bytes_and_then_again() -> None:
    with connected(Reply.stream(b"abc", framing=Framing.LENGTH, cut=2)) as (_, client), client.send(REQUEST) as raw:
        assert next(raw) == b"ab"
        with pytest.raises(TransportError) as first:
            next(raw)
        with pytest.raises(TransportError) as again:
            next(raw)
        assert again.value is first.value


def refused(client: Client) -> SvirError:
    with pytest.raises(AuthenticationError) as raised, client.stream(REQUEST):
        pass
    return raised.value


def test_a_refusal_is_raised_where_the_block_is_entered_without_frames_of_the_loop_thread() -> None:
    with connected(Reply.document({"error": {"message": "no"}}, 401)) as (_, client):
        error = refused(client)
    assert error.status == 401
    frames = [
        (pathlib.Path(frame.filename).parent.name, frame.name) for frame in traceback.extract_tb(error.__traceback__)
    ]
    assert {folder for folder, _ in frames} == {"svir_client", "sync"}
    assert [name for folder, name in frames if folder == "sync"] == ["__enter__", "result", "result"]
    assert (error.__cause__, error.__context__) == (None, None)


def shown(error: BaseException) -> str:
    """The traceback with the locals of every frame, as error reporters send it; but for the test's own."""
    report = traceback.TracebackException.from_exception(error, capture_locals=True)
    report.stack[:] = [frame for frame in report.stack if frame.filename != __file__]
    return "".join(report.format())


def test_a_traceback_shows_no_key_and_no_header() -> None:
    refusal = Reply.document({"error": {"message": "no"}}, 401)
    with (
        serving(refusal, refusal) as peer,
        Client.openai(peer.origin, api_key="sk-secret", headers={"x-a": "sk-secret"}) as client,
    ):
        errors: list[BaseException] = [refused(client)]
        with pytest.raises(AuthenticationError) as raised:
            client.complete(REQUEST, headers={"x-b": "sk-secret"})
        errors.append(raised.value)
        for call in (client.stream, client.send):
            with pytest.raises(ConfigError) as mistake:
                call(REQUEST, headers={"x-b": "sk-secret\n"})
            errors.append(mistake.value)
    for error in errors:
        assert type(error).__name__ in shown(error)
        assert "sk-secret" not in shown(error)


def test_a_mistake_among_the_options_shows_no_key_and_no_address() -> None:
    with pytest.raises(ConfigError) as raised:
        Client.openai("http://127.0.0.1:1/secret-path", api_key="sk-secret", idle_timeout=-1)
    assert "idle_timeout" in shown(raised.value)
    assert "secret" not in shown(raised.value)


def test_mistakes_are_raised_before_anything_is_sent() -> None:
    words: Any = "hi"
    with connected() as (peer, client):
        with pytest.raises(ConfigError, match="takes a Request"):
            client.stream(words)
        with pytest.raises(AttachmentError):
            client.complete(Request("m").message(Message.user(TextFile.path("/no/such/file"))))
        assert peer.connections == ()


def test_a_stream_is_entered_once_and_read_inside_its_block() -> None:
    with connected(hello()) as (_, client):
        stream = client.stream(REQUEST)
        assert repr(stream) == "<SyncStream new>"
        with pytest.raises(ConfigError, match="before it was entered"):
            next(stream)
        with pytest.raises(ConfigError, match="no response yet"):
            _ = stream.status
        with stream:
            assert repr(stream) == "<SyncStream open>"
            with pytest.raises(ConfigError, match="entered once"):
                stream.__enter__()
        assert repr(stream) == "<SyncStream closed>"
        with pytest.raises(ConfigError, match="after it was closed"):
            next(stream)
        with pytest.raises(ConfigError, match="entered once"):
            stream.__enter__()


def test_a_closed_client_refuses() -> None:
    with connected() as (_, client):
        client.close()
        client.close()
        assert repr(client) == "<Client openai_chat closed>"
        with pytest.raises(ConfigError, match="closed"):
            client.complete(REQUEST)
        with pytest.raises(ConfigError, match="closed"):
            client.stream(REQUEST)


# --- when the connection is closed ---------------------------------------------------------------


def test_a_break_closes_it_also_between_buffered_events() -> None:
    with connected(open_ended(text("a") + text("b"))) as (peer, client):
        with client.stream(REQUEST) as stream:
            for _ in stream:
                break
        peer.wait_closed()


def test_an_exception_in_the_block_closes_it() -> None:
    with connected(open_ended()) as (peer, client):
        with pytest.raises(ZeroDivisionError), client.stream(REQUEST) as stream:
            _ = len(stream.text().__next__()) // 0
        peer.wait_closed()


def test_a_relay_that_is_left_is_closed() -> None:
    with connected(open_ended()) as (peer, client):
        with client.send(REQUEST) as raw:
            next(raw)
        peer.wait_closed()


def test_a_stream_that_is_dropped_is_closed() -> None:
    with connected(open_ended()) as (peer, client):
        stream = client.stream(REQUEST).__enter__()
        next(stream)
        del stream
        gc.collect()
        peer.wait_closed()


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_read_closes_it_and_the_next_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(open_ended()) as (peer, client), client.stream(REQUEST) as stream:
        next(stream)
        with monkeypatch.context() as patch:
            patch.setattr(Feed, "take", interrupt)
            with pytest.raises(KeyboardInterrupt):
                next(stream)
        peer.wait_closed()
        with pytest.raises(ConfigError, match="after it was closed"):
            next(stream)


def test_a_connection_is_kept_after_a_whole_answer() -> None:
    with connected(*[hello(framing=Framing.CHUNKED) for _ in range(3)]) as (peer, client):
        for _ in range(2):
            with client.stream(REQUEST) as stream:
                for event in stream:
                    if isinstance(event, Completed):
                        break  # its end is waited for all the same
        client.complete(REQUEST)
        assert peer.connection_count == 1


def test_importing_it_loads_neither_asyncio_nor_ssl() -> None:
    program = "import sys, svir_client; print([name for name in ('asyncio', 'ssl', 'trio') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"

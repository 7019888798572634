from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

import orjson
import pytest

from examples import http_client
from svir_core import (
    AttachmentError,
    Completed,
    Endpoint,
    Exchange,
    Image,
    RateLimitedError,
    ReasoningDelta,
    Request,
    TextDelta,
    TransportError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.wire import openai_chat

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKS = (
    b'data: {"choices":[{"index":0,"delta":{"reasoning":"hm"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n'
)
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
HI = Request("m", effort="low").user("hi")


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


def refused(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    assert b"transfer-encoding" not in fields
    while len(body) < int(fields[b"content-length"]):
        body += connection.recv(65536)
    return body


@contextmanager
def server(*replies: bytes | None) -> Generator[tuple[str, list[bytes]]]:
    """One connection a reply: the raw bytes, then the end; ``None`` keeps the connection open and says no more."""
    bodies: list[bytes] = []
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def serve() -> None:
            for reply in replies:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(10)
                    bodies.append(read_request(connection))
                    if reply is None:
                        connection.sendall(b"HTTP/1.1 500 No\r\n\r\nbusy")
                        done.wait(10)
                    else:
                        connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/", bodies
        finally:
            done.set()
            thread.join(20)
    assert not thread.is_alive()


def exchange(url: str, request: Request = HI) -> Exchange:
    return Exchange(openai_chat.API, request, Endpoint.parse(url))


@pytest.mark.parametrize(
    "reply",
    [
        HEAD + b"\r\n" + CHUNKS + END,
        HEAD + b"Content-Length: %d\r\n\r\n" % len(CHUNKS + END) + CHUNKS + END,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(CHUNKS[:50], CHUNKS[50:], END, b""),
    ],
    ids=["to the end", "by length", "chunked"],
)
def test_an_answer(reply: bytes) -> None:
    with server(reply) as (url, bodies):
        call = exchange(url)
        events = list(http_client.ask(call, 10))
    assert events[:2] == [ReasoningDelta("reasoning", "hm"), TextDelta("hello")]
    assert isinstance(events[2], Completed)
    assert events[2].completion is call.completion
    assert len(events) == 3
    assert orjson.loads(bodies[0])["reasoning_effort"] == "low"


def test_a_lean_retry() -> None:
    with server(refused("400 Bad Request", b"no"), HEAD + b"\r\n" + CHUNKS + END) as (url, bodies):
        assert list(http_client.ask(exchange(url), 10))[1] == TextDelta("hello")
    assert ["reasoning_effort" in orjson.loads(body) for body in bodies] == [True, False]


def test_refusals() -> None:
    with server(refused("429 Slow", b'{"error": "later"}')) as (url, _), pytest.raises(RateLimitedError) as caught:
        list(http_client.ask(exchange(url), 10))
    assert caught.value.server_message() == "later"
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>"
    with server(page) as (url, _), pytest.raises(UnsupportedError) as unsupported:
        list(http_client.ask(exchange(url), 10))
    assert unsupported.value.server_message() == "<html>"


def test_an_error_body_that_never_ends_is_not_waited_for() -> None:
    with server(None) as (url, _), pytest.raises(TransportError) as caught:
        list(http_client.ask(exchange(url), 10))
    assert caught.value.status == 500
    assert caught.value.server_message() == "busy"


@pytest.mark.parametrize("framing", [b"\r\n", b"Content-Length: 5000\r\n\r\n"])
def test_a_cut_answer_is_truncated(framing: bytes) -> None:
    with server(HEAD + framing + CHUNKS) as (url, _), pytest.raises(TruncatedStreamError) as caught:
        list(http_client.ask(exchange(url), 10))
    assert caught.value.partial is not None
    assert caught.value.partial.text == "hello"


def test_a_cut_chunked_answer_is_truncated() -> None:
    reply = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(CHUNKS) + b"50\r\ncut"
    with server(reply) as (url, _), pytest.raises(TruncatedStreamError) as caught:
        list(http_client.ask(exchange(url), 10))
    assert caught.value.partial is not None
    assert caught.value.partial.text == "hello"


def test_no_server_and_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(TransportError, match="ConnectionRefusedError") as caught:
        list(http_client.ask(exchange(url), 10))
    assert caught.value.__context__ is None
    with server(b"SMTP\r\n\r\n") as (url, _), pytest.raises(TransportError, match="BadStatusLine"):
        list(http_client.ask(exchange(url), 10))


def test_a_request_that_cannot_be_sent() -> None:
    call = exchange("http://127.0.0.1:9", HI.user(Image.path("a.png")))
    with pytest.raises(AttachmentError):
        list(http_client.ask(call))
    assert call.done


def test_the_program() -> None:
    program = pathlib.Path(http_client.__file__)
    assert len(program.read_text(encoding="utf-8").splitlines()) < 60
    with server(HEAD + b"\r\n" + CHUNKS + END) as (url, bodies):
        output = subprocess.run(
            [sys.executable, str(program), url, "m", "hi"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={"PYTHONPATH": str(program.parents[1])},
        )
    assert output.stdout == "hello\n"
    assert orjson.loads(bodies[0])["messages"] == [{"role": "user", "content": "hi"}]

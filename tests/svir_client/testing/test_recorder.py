"""What went through a transport comes back out of its recording: the pieces, and never a credential."""

from __future__ import annotations

import json
import os
import pathlib
import re
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client import AsyncClient, Transport, TransportResponse
from svir_client.testing import (
    End,
    Framing,
    Gate,
    MockServer,
    Pause,
    RecordedPiece,
    Recorder,
    Recording,
    Reply,
    ScriptedTransport,
    load_recording,
)
from svir_client.testing.recording import parse_recording
from svir_client.testing.withhold import WITHHELD, Mask, shown_target
from svir_core.errors import ConfigError, ErrorKind, ResponseTimeoutError, SvirError, TransportError
from svir_core.http_message import HttpRequest
from svir_core.message import Text
from svir_core.request import Request
from svir_core.response import Completion, Usage
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api
from svir_transport.h11 import H11Transport

pytestmark = pytest.mark.anyio

HI = Request("m").user("hi")
URL = "http://127.0.0.1:1"


def http(target: str = "/v1/x", headers: tuple[tuple[str, str], ...] = ()) -> HttpRequest:
    return HttpRequest("GET", "http", "127.0.0.1", 1, target, (("host", "127.0.0.1"), *headers))


async def read(transport: Transport, request: HttpRequest | None = None, idle: float = 20.0) -> list[bytes]:
    """The pieces of a response, and the error that ended it raised."""
    response = await transport.open(request or http(), None, idle_timeout=idle)
    try:
        return [piece async for piece in response]
    finally:
        await response.aclose()


async def recorded(reply: Reply, request: HttpRequest | None = None, idle: float = 20.0) -> Recording:
    kept: list[Recording] = []
    recorder = Recorder(ScriptedTransport(reply), kept.append)
    failure = None
    with anyio.fail_after(20):
        try:
            await read(recorder, request, idle)
        except SvirError as error:
            failure = error.kind
    assert kept[0].error is failure
    return kept[0]


async def gated_exchange(path: pathlib.Path) -> list[bytes]:
    """Record, over sockets, an answer whose pieces come one by one; what was read."""
    gates = Gate(), Gate()
    reply = Reply.text("Hel", gates[0], "l\N{GREEK SMALL LETTER OMEGA}", gates[1], "o")
    raw: list[bytes] = []
    async with MockServer(reply) as server, Recorder(H11Transport(), path) as recorder:
        client = AsyncClient.openai(server.origin, transport=recorder, api_key="sk-canary-1")
        async with client.send(HI) as response:
            for gate in (*gates, None):
                raw.append(await anext(aiter(response)))
                if gate is not None:
                    gate.open()
            raw += [piece async for piece in response]
    return raw


@pytest.mark.parametrize("speed", [0, 1000])
async def test_a_recorded_stream_is_replayed_piece_by_piece(tmp_path: pathlib.Path, speed: float) -> None:
    path = tmp_path / "hello.jsonl"
    with anyio.fail_after(20):
        raw = await gated_exchange(path)
        (recording,) = load_recording(path)
        assert [piece.data for piece in recording.pieces] == raw
        assert len(raw) >= 3
        assert (recording.status, recording.complete, recording.error) == (200, True, None)
        reply = Reply.recorded(recording, speed)
        assert reply.framing is Framing.CHUNKED
        assert [piece for piece in reply.body or () if isinstance(piece, bytes)] == raw
        assert any(isinstance(piece, Pause) for piece in reply.body or ()) is (speed > 0)
        assert await read(ScriptedTransport(reply)) == raw
        async with MockServer(reply) as server, AsyncClient.openai(server.origin) as client:
            assert (await client.complete(HI)).text == "Hell\N{GREEK SMALL LETTER OMEGA}o"


async def test_times_are_since_the_call_began() -> None:
    now = iter([10.0, 10.5, 11.0, 11.0, 13.0])
    kept: list[Recording] = []
    with anyio.fail_after(20):
        await read(Recorder(ScriptedTransport(Reply.stream(b"a", b"b", b"c")), kept.append, clock=lambda: next(now)))
    (recording,) = kept
    assert recording.head_seconds == 0.5
    assert recording.pieces == (RecordedPiece(1.0, b"a"), RecordedPiece(1.0, b"b"), RecordedPiece(3.0, b"c"))
    reply = Reply.recorded(recording, 2)
    assert reply.before_head == Pause(0.25)
    assert reply.body == (Pause(0.25), b"a", b"b", Pause(1.0), b"c")


@pytest.mark.parametrize(
    "reply",
    [
        Reply.stream(b"abc", b"def", framing=Framing.LENGTH),
        Reply.stream(b"abc", b"def", framing=Framing.CLOSE),
        Reply.stream(b"abc", b"def", framing=Framing.CHUNKED, cut=4),
        Reply.stream(b"abc", b"def", framing=Framing.LENGTH, cut=4),
        Reply.stream(b"abc", framing=Framing.CHUNKED, end=End.STALL),
        Reply.stream(framing=Framing.CHUNKED, cut=0),
        Reply(204, framing=Framing.LENGTH),
        Reply(404, {"X-Mixed": "Case"}, (b"\xff\xfe",), framing=Framing.LENGTH),
        Reply.silence(),
        Reply.drop(),
    ],
)
async def test_what_went_wrong_goes_wrong_again(reply: Reply) -> None:
    first = await recorded(reply, idle=0.02)
    (loaded,) = parse_recording(first.line())
    assert loaded == first
    again = await recorded(Reply.recorded(loaded), idle=0.02)
    assert (again.status, [piece.data for piece in again.pieces], again.complete, again.error) == (
        first.status,
        [piece.data for piece in first.pieces],
        first.complete,
        first.error,
    )


async def test_a_response_that_is_given_up_is_kept_once() -> None:
    kept: list[Recording] = []
    with anyio.fail_after(20):
        recorder = Recorder(ScriptedTransport(Reply.stream(b"a", b"b", framing=Framing.CHUNKED)), kept.append)
        response = await recorder.open(http(), None)
        assert await anext(aiter(response)) == b"a"
        await response.aclose()
        await response.drain()
        await response.aclose()
    assert [(len(recording.pieces), recording.complete, recording.error) for recording in kept] == [(1, False, None)]


CANARY = "canary-5cf0-77a1e"
SECRETS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "authorization": ("/v1/x", (("authorization", f"Bearer {CANARY}"),)),
    "api-key": ("/v1/x", (("api-key", CANARY),)),
    "x-goog-api-key": ("/v1/x", (("x-goog-api-key", CANARY),)),
    "a name of the user's": ("/v1/x", (("x-team", CANARY),)),
    "cookies": ("/v1/x", (("cookie", f"a=b; session={CANARY}"),)),
    "key in the query": (f"/v1/x?api-version=1&key={CANARY}", ()),
    "escaped key in the query": (f"/v1/x?KEY={CANARY.replace('-', '%2d')}", ()),
    "repeated in the path and in what is shown": (
        f"/v1/{CANARY}/x",
        (("api-key", CANARY), ("user-agent", f"mine/{CANARY}")),
    ),
    "query without a name": (f"/v1/x?{CANARY}", ()),
}


@pytest.mark.parametrize(("target", "headers"), SECRETS.values(), ids=SECRETS)
async def test_no_credential_is_in_the_file(
    tmp_path: pathlib.Path, target: str, headers: tuple[tuple[str, str], ...]
) -> None:
    echo = f'"Incorrect API key provided: {CANARY}"'.encode()
    reply = Reply(401, {"set-cookie": "sid=canary-of-the-server", "x-echo": CANARY}, (echo[:34], echo[34:]))
    path = tmp_path / "secret.jsonl"
    request = http(target, headers)
    with anyio.fail_after(20):
        async with Recorder(ScriptedTransport(reply), path) as recorder:
            assert b"".join(await read(recorder, request)) == echo  # the caller's own bytes are as they came
    text = path.read_text(encoding="utf-8")
    assert "canary" not in text
    assert "%2d5cf0" not in text
    (recording,) = load_recording(path)
    assert [len(piece.data) for piece in recording.pieces] == [34, len(echo) - 34]
    assert dict(recording.headers)["set-cookie"] == WITHHELD
    assert [name for name, _ in recording.request_headers] == [name for name, _ in request.headers]


def shown_in(text: str, header: str, value: str) -> str:
    """What a recording keeps of ``text``, when the request had this header."""
    return Mask(((header, value),), "/").text(text)


@pytest.mark.parametrize(
    ("header", "value", "text", "kept"),
    [
        ("x-title", "content", "any content", "any content"),
        ("x-title", "mine-0123456", "mine-0123456", "mine-0123456"),  # no name of a credential, and short
        ("x-title", "mine-0123456789a", "mine-0123456789a", "*" * 16),  # may be a key
        ("x-title", "a title of several words", "a title of several words", "a title of several words"),
        ("x-api-key", "k-0123", "k-0123", "******"),
        ("proxy-authorization", "Basic dXNlcg==", "dXNlcg==", "********"),
        ("authorization", "Bearer k-0123", "a Bearer: k-0123", "a Bearer: ******"),
        ("authorization", "Bearer ollama", "the key ollama", "the key ******"),
        ("authorization", "Bearer ollama", "is 'ollama' right?", "is '******' right?"),
        ("authorization", "Bearer ollama", r"line\nollama it was", r"line\n****** it was"),
        (
            "authorization",
            "Bearer ollama",
            '{"ollama": "ollama", "x": "ollama/m"}',
            '{"ollama": "ollama", "x": "ollama/m"}',
        ),
        ("authorization", "Bearer ollama", "event: ollama\n", "event: ollama\n"),
        ("authorization", "Bearer 123456", '"key 123456, 123456"', '"key ******, 123456"'),
        ("authorization", "Bearer 123456", '{"created": 123456, "a":[123456]}', '{"created": 123456, "a":[123456]}'),
        ("api-key", "k-0123456789", "cut in k-01234", "cut in *******"),
        ("api-key", "k-0123456789", "cut in k-012", "cut in k-012"),  # fewer than count as a credential
    ],
)
def test_what_a_body_keeps_of_a_header(header: str, value: str, text: str, kept: str) -> None:
    assert shown_in(text, header, value) == kept


API_ANSWERS = {
    api: Reply.completion(
        Completion("stop", [Text("Hello there")], Usage(1, 2), model="some-model-1", id="id-1"), api=api
    )
    for api in (openai_chat.API, openai_responses.API, anthropic_messages.API, gemini.API)
}
WORDS = [
    (api, word.decode())
    for api, reply in API_ANSWERS.items()
    for word in sorted(
        {*re.findall(rb"[\w.]{6,}", b"".join(piece for piece in reply.body or () if isinstance(piece, bytes)))}
    )
    if word != b"some"
]


@pytest.mark.parametrize(("api", "word"), WORDS, ids=[f"{api.name}-{word}" for api, word in WORDS])
async def test_a_recording_can_be_replayed_whatever_the_key_was(api: Api, word: str) -> None:
    kept: list[Recording] = []
    answers: list[Completion] = []
    with anyio.fail_after(20):
        transport = ScriptedTransport(API_ANSWERS[api])
        for mover in (Recorder(transport, kept.append), transport):
            client = AsyncClient.of(api, URL, transport=mover, api_key=word, headers={"x-title": word})
            answers.append(await client.complete(HI))
            transport.add(*map(Reply.recorded, kept))
    assert answers[0] == answers[1]
    assert answers[0].text == "Hello there"


async def test_a_prompt_that_repeats_the_key_does_not_give_it_away(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "prompt.jsonl"
    with anyio.fail_after(20):
        transport = Recorder(ScriptedTransport(Reply.text("ok")), path)
        async with AsyncClient.openai(URL, transport=transport, api_key=CANARY) as client:
            await client.complete(Request("m").user(f"is {CANARY} my key?"))
        await transport.aclose()
    assert CANARY not in path.read_text(encoding="utf-8")
    (recording,) = load_recording(path)
    assert json.loads(recording.request_body or b"")["messages"][0]["content"] == f"is {'*' * len(CANARY)} my key?"


def test_what_may_be_shown_is_shown() -> None:
    assert shown_target("/v1/x") == "/v1/x"
    assert shown_target("/v1/x?api-version=2024&b") == f"/v1/x?api-version=2024&{WITHHELD}"
    assert shown_target("/v1beta/m:go?alt=sse&key=1") == f"/v1beta/m:go?alt=sse&key={WITHHELD}"


@given(
    secret=st.text("abcdefghij-_", min_size=5, max_size=12).map("7{}".format),
    texts=st.lists(st.binary(max_size=8), min_size=1, max_size=4),
    cut=st.integers(0, 60),
)
def test_a_credential_across_pieces_is_masked(secret: str, texts: list[bytes], cut: int) -> None:
    whole = secret.encode().join([b"", *texts])
    mask = Mask((("authorization", f"Bearer {secret}"),), "/")
    pieces = [whole[:cut], whole[cut:]]
    masked = mask.pieces(pieces)
    assert [len(piece) for piece in masked] == [len(piece) for piece in pieces]
    assert secret.encode() not in b"".join(masked)


# --- when an exchange ends -----------------------------------------------------------------------


async def recorded_by(reply: Reply, use: Callable[[TransportResponse], Awaitable[object]]) -> Recording:
    """What is kept when the response is used so, over sockets, and closed."""
    kept: list[Recording] = []
    with anyio.fail_after(20):
        async with MockServer(reply) as server, Recorder(H11Transport(), kept.append) as recorder:
            request = HttpRequest("GET", "http", "127.0.0.1", server.port, "/", (("host", "127.0.0.1"),))
            response = await recorder.open(request, None)
            await use(response)
            await response.aclose()
    (recording,) = kept
    return recording


async def first_then_drain(response: TransportResponse) -> None:
    assert await anext(aiter(response)) == b"a"
    await response.drain()


@pytest.mark.parametrize(
    ("reply", "data", "complete", "error"),
    [
        (Reply.stream(b"a", b"bc", framing=Framing.LENGTH), b"abc", True, None),
        (Reply.stream(b"a", b"bc", framing=Framing.CHUNKED, end=End.STALL), b"abc", False, None),
        (Reply.stream(b"a", Pause(0.01), b"bc", cut=2, framing=Framing.LENGTH), b"ab", False, ErrorKind.TRANSPORT),
    ],
)
async def test_what_is_drained_is_kept(reply: Reply, data: bytes, complete: bool, error: ErrorKind | None) -> None:
    recording = await recorded_by(
        attrs.evolve(reply, body=(b"a", Pause(0.01), *(reply.body or ())[1:])), first_then_drain
    )
    assert b"".join(piece.data for piece in recording.pieces) == data
    assert (recording.complete, recording.error) == (complete, error)


async def test_draining_takes_no_more_than_it_may() -> None:
    async def use(response: TransportResponse) -> None:
        await response.drain(0)
        assert not response.complete

    recording = await recorded_by(Reply.stream(b"abc", Pause(30), b"d", framing=Framing.CHUNKED), use)
    assert recording.pieces[0].data == b"abc"
    assert not recording.complete


async def test_a_message_that_was_not_read_is_not_complete_however_much_had_arrived() -> None:
    async def unread(response: TransportResponse) -> None:
        assert response.complete

    whole = Reply(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", end=End.STALL)
    recording = await recorded_by(whole, unread)
    assert (recording.pieces, recording.complete) == ((), False)


async def test_closing_keeps_what_is_under_way(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "open.jsonl"
    gate = Gate()
    with anyio.fail_after(20):
        transport = ScriptedTransport(Reply.stream(b"a", end=End.STALL), Reply.stream(before_head=gate))
        recorder = Recorder(transport, path)
        response = await recorder.open(http(), None)
        assert await anext(aiter(response)) == b"a"

        async def wait_for_a_head() -> None:
            with pytest.raises(SvirError):
                await recorder.open(http("/v1/y"), None)

        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_a_head)
            await gate.reached()
            await recorder.aclose()
        await response.aclose()
    first, second = load_recording(path)
    assert ([piece.data for piece in first.pieces], first.complete, first.status) == ([b"a"], False, 200)
    assert (second.target, second.status, second.complete) == ("/v1/y", None, False)


async def test_a_closed_recorder_refuses_and_closes_the_body() -> None:
    closed: list[bool] = []

    async def blocks() -> AsyncIterator[bytes]:
        try:
            yield b"a"
        finally:
            closed.append(True)

    body = blocks()
    await anext(body)
    kept: list[Recording] = []
    recorder = Recorder(ScriptedTransport(Reply(204)), kept.append)
    await recorder.aclose()
    with anyio.fail_after(20), pytest.raises(ConfigError, match="recorder is closed") as caught:
        await recorder.open(http(), body)
    assert caught.value.unsent
    assert (closed, kept) == ([True], [])


async def test_a_cancelled_call_is_neither_kept_nor_held() -> None:
    kept: list[Recording] = []
    recorder = Recorder(ScriptedTransport(Reply.silence()), kept.append)
    with anyio.move_on_after(0.01):
        await recorder.open(http(), None)
    assert not recorder._under_way
    await recorder.aclose()
    assert kept == []


@pytest.mark.parametrize(
    ("limit", "sent", "received", "left_out"),
    [(10_000, 600, 600, 0), (428, 300, 300, 600), (128, 0, 0, 1200), (0, 0, 0, 1200), (1000, 600, 600, 0)],
)
async def test_a_recording_takes_no_more_memory_than_it_may(
    limit: int, sent: int, received: int, left_out: int
) -> None:
    async def blocks() -> AsyncIterator[bytes]:
        yield b"u" * 600

    kept: list[Recording] = []
    request = HttpRequest("POST", "http", "h", 1, "/", (("host", "h"), ("content-length", "600")))
    with anyio.fail_after(20):
        transport = ScriptedTransport(Reply.stream(b"d" * 500, b"d" * 100, framing=Framing.LENGTH))
        recorder = Recorder(transport, kept.append, limit=limit)
        response = await recorder.open(request, blocks())
        assert sum([len(piece) async for piece in response]) == 600
    (recording,) = kept
    assert recording.request_body == b"u" * sent
    assert recording.length == received
    assert recording.left_out == left_out
    assert recording.complete is (left_out == 0)
    assert parse_recording(recording.line()) == [recording]
    assert Reply.recorded(recording).cut == (received if left_out else None)


@pytest.mark.parametrize("limit", [-1, True, 1.5, "1"])
def test_a_limit_is_a_number(limit: Any) -> None:
    with pytest.raises(ConfigError, match="limit"):
        Recorder(ScriptedTransport(), "never-made", limit=limit)


def test_a_file_that_cannot_be_made_its_owner_s_is_closed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []

    def refused(descriptor: int, mode: int) -> None:
        opened.append(descriptor)
        raise PermissionError

    monkeypatch.setattr(os, "fchmod", refused)
    with pytest.raises(ConfigError, match="PermissionError"):
        Recorder(ScriptedTransport(), tmp_path / "recording.jsonl")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


async def test_the_file_is_its_owner_s_alone_and_is_appended_to(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "two.jsonl"
    path.touch(mode=0o666)
    path.chmod(0o666)
    with anyio.fail_after(20):
        for text in ("one", "two"):
            async with Recorder(ScriptedTransport(Reply.text(text)), path) as recorder:
                await read(recorder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(load_recording(path)) == 2


def link(path: pathlib.Path) -> None:
    path.symlink_to(path.parent / "elsewhere")


def pipe(path: pathlib.Path) -> None:
    os.mkfifo(path)


def read_pipe(path: pathlib.Path) -> None:
    os.mkfifo(path)
    OPENED.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def folder(path: pathlib.Path) -> None:
    path.mkdir()


OPENED: list[int] = []


@pytest.mark.parametrize("make", [link, pipe, read_pipe, folder])
def test_only_a_regular_file_is_written_to(tmp_path: pathlib.Path, make: Callable[[pathlib.Path], object]) -> None:
    path = tmp_path / "recording.jsonl"
    make(path)
    with pytest.raises(ConfigError, match="cannot be opened") as caught:
        Recorder(ScriptedTransport(), path)
    assert caught.value.__context__ is None
    assert not (tmp_path / "elsewhere").exists()
    while OPENED:
        os.close(OPENED.pop())


async def test_what_goes_wrong_in_keeping_is_no_matter_of_the_call() -> None:
    def full(recording: Recording) -> None:
        raise OSError(28, "No space left on device")

    def broken(recording: Recording) -> None:
        raise LookupError("of the caller")

    with anyio.fail_after(20):
        for keep, kind in ((full, ConfigError), (broken, LookupError)):
            recorder = Recorder(ScriptedTransport(Reply.text("a")), keep)
            assert await read(recorder)
            with pytest.raises(kind):
                await recorder.aclose()
            await recorder.aclose()


async def test_a_body_is_closed_and_kept() -> None:
    closed: list[bool] = []

    async def blocks() -> AsyncIterator[bytes]:
        try:
            yield b"ab"
            yield b"c"
        finally:
            closed.append(True)

    kept: list[Recording] = []
    request = HttpRequest("POST", "http", "h", 1, "/", (("host", "h"), ("content-length", "3")))
    with anyio.fail_after(20):
        recorder = Recorder(ScriptedTransport(Reply(204), TransportError("refused", unsent=True)), kept.append)
        await (await recorder.open(request, blocks())).aclose()
        with pytest.raises(TransportError):
            await recorder.open(request, blocks())
    assert closed == [True]  # the second was never begun
    assert [(recording.request_body, recording.status, recording.error) for recording in kept] == [
        (b"abc", 204, None),
        (b"", None, ErrorKind.TRANSPORT),
    ]


class Iterating:
    """A transport that goes through the body by ``async for``, and leaves it open."""

    def __init__(self) -> None:
        self.body = b""

    async def open(self, request: HttpRequest, body: AsyncIterator[bytes] | None, **timeouts: Any) -> TransportResponse:
        async for block in body or Nothing():
            self.body += block
        return await ScriptedTransport(Reply(204)).open(http(), None)

    async def aclose(self) -> None:
        """It holds nothing."""


class Nothing:
    """A body of no blocks, which cannot be closed."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration


async def test_a_transport_takes_the_body_as_it_likes() -> None:
    kept: list[Recording] = []
    with anyio.fail_after(20):
        transport = Iterating()
        response = await Recorder(transport, kept.append).open(http(), Nothing())
        await response.drain()
    assert transport.body == kept[0].request_body == b""


GOOD = Recording(
    "POST", "/", (("accept", "*/*"),), b"{}", 200, (("a", "b"),), 0.5, (RecordedPiece(1.0, b"\xff"),), True
)


def changed(path: str, value: Any) -> bytes:
    """The good line with one value replaced; ``path`` names it."""
    document = json.loads(GOOD.line())
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place = document
    for step in parents:
        place = place[step]
    place[last] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"version": 1}',
        b"[" * 100_000,
        b"9" * 5000,
        changed("version", 2),
        changed("version", True),
        changed("request", []),
        changed("request.method", 5),
        changed("request.target", None),
        changed("request.headers", {}),
        changed("request.headers.0", ["a"]),
        changed("request.headers.0", "ab"),
        changed("request.headers.0", ["a", "b\r\nc: d"]),
        changed("request.headers.0", ["a", "\N{GREEK SMALL LETTER OMEGA}"]),
        changed("request.body", "{}"),
        changed("request.body", {"text": 5}),
        changed("request.body", {"text": "\ud800"}),
        changed("request.body", {"base64": "&"}),
        changed("request.body", {}),
        changed("response", 5),
        changed("response.status", 99),
        changed("response.status", True),
        changed("response.seconds", -1),
        changed("response.seconds", float("nan")),
        changed("response.seconds", 1e300),
        changed("response.pieces", None),
        changed("response.pieces.0", None),
        changed("response.pieces.0", {"text": "a"}),
        changed("response.complete", 1),
        changed("error", "gremlins"),
        changed("error", []),
        changed("left_out", -1),
        changed("left_out", "1"),
    ],
)
def test_a_line_that_is_no_exchange_is_named(line: bytes) -> None:
    with pytest.raises(ConfigError, match="line 3 of the recording") as caught:
        parse_recording(GOOD.line() + b"\n" + line + b"\n" + GOOD.line())
    assert caught.value.__context__ is None


def test_unknown_keys_are_ignored() -> None:
    assert parse_recording(changed("response.later", {"x": 1})) == [GOOD]


@given(st.binary(max_size=200))
def test_any_file_is_read_or_refused(data: bytes) -> None:
    try:
        parse_recording(data)
    except ConfigError as error:
        assert "line " in error.detail  # noqa: PT017 - both outcomes are right, this is of one


PATHS = [
    "version", "request", "request.method", "request.headers", "request.headers.0", "request.body", "response",
    "response.status", "response.headers", "response.seconds", "response.pieces", "response.pieces.0",
    "response.pieces.0.seconds", "response.pieces.0.base64", "response.complete", "error", "left_out",
]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(path=st.sampled_from(PATHS), value=VALUES)
def test_any_value_is_read_or_refused_and_what_is_read_can_be_replayed(path: str, value: Any) -> None:
    try:
        recordings = parse_recording(changed(path, value))
    except ConfigError as error:
        assert error.detail.startswith("line 1 of the recording")  # noqa: PT017 - as above
        return
    for recording in recordings:
        reply = Reply.recorded(recording, 1)
        assert reply.head().count(b"\r\n\r\n") <= 1
        reply.pieces()
        assert parse_recording(recording.line()) == [recording]


EXCHANGES = st.builds(
    Recording,
    method=st.sampled_from(["GET", "POST"]),
    target=st.text(max_size=9),
    request_headers=st.just((("accept", "*/*"),)),
    request_body=st.none() | st.binary(max_size=9),
    status=st.integers(100, 999),
    headers=st.just((("a", "b\xe9"),)),
    head_seconds=st.floats(0, 1e6),
    pieces=st.lists(st.builds(RecordedPiece, st.floats(0, 1e6), st.binary(max_size=9))).map(tuple),
    complete=st.booleans(),
    error=st.none() | st.sampled_from(ErrorKind),
    left_out=st.integers(0, 9),
)


@given(st.lists(EXCHANGES, max_size=3))
def test_what_is_written_is_read(recordings: list[Recording]) -> None:
    assert parse_recording(b"".join(recording.line() for recording in recordings)) == recordings


def test_a_file_that_is_not_there_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: FileNotFoundError"):
        load_recording(tmp_path / "missing.jsonl")


@pytest.mark.parametrize("speed", [-1, float("inf"), float("nan"), "1", True])
def test_a_speed_is_a_number(speed: Any) -> None:
    with pytest.raises(ConfigError, match="speed"):
        Reply.recorded(GOOD, speed)


def test_a_recording_shows_nothing() -> None:
    assert "/" not in repr(GOOD)
    assert "xff" not in repr(GOOD)


async def test_a_timeout_is_kept_as_one() -> None:
    recording = await recorded(Reply.silence(), idle=0.01)
    assert recording.error is ErrorKind.TIMEOUT
    with anyio.fail_after(20), pytest.raises(ResponseTimeoutError):
        await read(ScriptedTransport(Reply.recorded(recording)), idle=0.01)

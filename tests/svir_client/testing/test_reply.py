"""Replies as a test writes them: answers in the words of an API, cut, dripped, held back and broken off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client import AsyncClient
from svir_client.testing import End, Framing, Gate, MockServer, Pause, Reply
from svir_core.errors import ConfigError, ServerError, SvirError, TransportError, TruncatedStreamError
from svir_core.event import Completed, ReasoningDelta, TextDelta
from svir_core.message import Image, Part, Reasoning, Text, ToolCall
from svir_core.request import Request
from svir_core.response import Completion, Usage
from svir_core.wire import openai_chat
from svir_core.wire.api import Model
from tests.svir_client.testing.test_server import REQUEST, connect, read_all

pytestmark = pytest.mark.anyio

HI = Request("m").user("hi")
PARTS: list[tuple[str, list[Part]]] = [
    ("stop", []),
    ("stop", [Text("Hello")]),
    ("length", [Reasoning("reasoning_content", "hm"), Text("Hel")]),
    ("tool_calls", [Text("so"), ToolCall("a", "f", "{}"), ToolCall("b", "g", '{"x": 1}')]),
    ("refusal", [Text("No.")]),
]


async def asked(reply: Reply) -> Completion:
    with anyio.fail_after(20):
        async with MockServer(reply) as server, AsyncClient.openai(server.origin) as client:
            return await client.complete(HI)


@pytest.mark.parametrize(("finish", "parts"), PARTS)
async def test_a_completion_is_read_back(finish: str, parts: list[Part]) -> None:
    completion = Completion(finish, parts, Usage(1, 2, 3), model="m", id="c")
    told = await asked(Reply.completion(completion))
    assert (told.finish, told.parts, told.usage) == (completion.finish, completion.parts, completion.usage)
    assert (told.model, told.id) == ("m", "c")


async def test_text_is_an_event_a_piece() -> None:
    with anyio.fail_after(20):
        gate = Gate()
        reply = Reply.text("Hel", gate, "lo", usage=Usage(1, 2, 3))
        async with (
            MockServer(reply) as server,
            AsyncClient.openai(server.origin) as client,
            client.stream(HI) as stream,
        ):
            events = [await anext(aiter(stream))]
            await gate.reached()
            gate.open()
            events += [event async for event in stream]
    assert events[:2] == [TextDelta("Hel"), TextDelta("lo")]
    assert isinstance(events[2], Completed)
    assert events[2].completion.usage == Usage(1, 2, 3)


async def test_an_error_is_an_event_of_the_stream() -> None:
    with pytest.raises(ServerError) as caught:
        await asked(Reply.events(TextDelta("Hel"), ServerError("out of memory")))
    assert caught.value.server_message() == "out of memory"
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hel"


async def test_events_without_an_end_are_a_stream_that_ends_too_early() -> None:
    with pytest.raises(TruncatedStreamError):
        await asked(Reply.events(ReasoningDelta("reasoning_content", "hm")))


@pytest.mark.parametrize("settings", [{}, {"end": End.RESET}, {"end": End.CLOSE}])
async def test_a_fault_at_byte_100(settings: dict[str, Any]) -> None:
    reply = Reply.text("Hello, ", "world", cut=100, **settings)
    assert sum(len(piece) for piece in reply.body or () if isinstance(piece, bytes)) > 100
    with pytest.raises((TransportError, TruncatedStreamError)) as caught:
        await asked(reply)
    assert caught.value.retryable


@pytest.mark.parametrize("reset", [False, True])
async def test_a_drop_is_no_answer(reset: bool) -> None:
    with pytest.raises(SvirError) as caught:
        await asked(Reply.drop(reset=reset))
    assert isinstance(caught.value, TransportError)
    assert not caught.value.unsent


async def test_models_are_listed() -> None:
    with anyio.fail_after(20):
        reply = Reply.models("a", Model("b", "B"))
        async with MockServer(reply) as server, AsyncClient.openai(server.origin) as client:
            assert [model.id for model in await client.list_models()] == ["a", "b"]


async def test_a_gate_before_the_head_holds_all_of_it() -> None:
    with anyio.fail_after(20):
        gate = Gate()
        async with MockServer(Reply(204, before_head=gate)) as server, await connect(server) as stream:
            await stream.send(REQUEST)
            await gate.reached()
            with anyio.move_on_after(0):
                await stream.receive()
                raise AssertionError("the head did not wait")
            gate.open()
            assert (await read_all(stream)).startswith(b"HTTP/1.1 204")


async def test_a_client_that_leaves_before_the_head_is_seen() -> None:
    with anyio.fail_after(20):
        gate = Gate()
        async with MockServer(Reply(204, before_head=gate)) as server:
            async with await connect(server) as stream:
                await stream.send(REQUEST)
                await gate.reached()
            await server.wait_closed()


async def test_a_drip_is_the_same_answer_later() -> None:
    reply = Reply.text("Hello").drip(50, 0.0001)
    assert reply.body is not None
    assert sum(isinstance(piece, Pause) for piece in reply.body) == sum(
        isinstance(piece, bytes) for piece in reply.body
    )
    assert (await asked(reply)).text == "Hello"


PIECES = st.lists(st.one_of(st.binary(max_size=9), st.just(Pause(1.0))))


@given(body=PIECES, size=st.integers(1, 5))
def test_splitting_changes_no_byte(body: list[bytes | Pause], size: int) -> None:
    whole, split = Reply.stream(*body), Reply.stream(*body).split(size)
    assert split.body is not None
    assert b"".join(piece for piece in split.body if isinstance(piece, bytes)) == b"".join(
        piece for piece in whole.body or () if isinstance(piece, bytes)
    )
    assert all(len(piece) <= size for piece in split.body if isinstance(piece, bytes))
    assert sum(isinstance(piece, Pause) for piece in split.body) == body.count(Pause(1.0))


@given(body=PIECES, cut=st.integers(0, 30))
def test_a_cut_sends_so_many_bytes(body: list[bytes | Pause], cut: int) -> None:
    sent = Reply.stream(*body, cut=cut).pieces()
    whole = b"".join(piece for piece in body if isinstance(piece, bytes))
    assert b"".join(piece for piece in sent if isinstance(piece, bytes)) == whole[:cut]


def test_a_reply_without_a_body_has_nothing_to_cut() -> None:
    assert Reply(204).split(3) == Reply(204).drip(3, 1) == Reply(204)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "1", True])
def test_a_pause_is_positive(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="seconds"):
        Pause(seconds)


@pytest.mark.parametrize("size", [0, True, 1.5])
def test_a_piece_has_a_size(size: Any) -> None:
    with pytest.raises(ConfigError, match="size"):
        Reply.stream(b"abc").split(size)


@pytest.mark.parametrize(
    ("completion", "words"),
    [
        (Completion("other"), "no word"),
        (Completion("stop", [Image.data(b"\x89PNG", "image/png")]), "no part"),
    ],
)
def test_what_cannot_be_said_is_refused(completion: Completion, words: str) -> None:
    with pytest.raises(SvirError, match=words):
        Reply.completion(completion, api=openai_chat.API)


def test_the_framing_can_be_chosen() -> None:
    assert Reply.text("a").framing is Framing.CHUNKED
    assert Reply.text("a", framing=Framing.CLOSE).framing is Framing.CLOSE
    assert Reply.models().framing is Framing.LENGTH


@pytest.mark.parametrize("reply", [Reply.stream(headers={"x-a": "b"}), Reply.text("a", headers=[("x-a", "b")])])
def test_further_headers_come_after_the_content_type(reply: Reply) -> None:
    assert reply.headers == (("content-type", "text/event-stream"), ("x-a", "b"))


@pytest.mark.parametrize("make", [Reply.document, Reply.models])
def test_a_document_has_further_headers_too(make: Callable[..., Reply]) -> None:
    assert make("a", headers={"x-a": "b"}).headers == (("content-type", "application/json"), ("x-a", "b"))

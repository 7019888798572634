"""The main job against a real server: ``make live``. Structure is judged, never wording."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Awaitable, Callable

import anyio
import attrs
import pytest

from examples.demo import WEATHER, example
from live.conftest import Server
from svir_client import AsyncClient
from svir_core import (
    Completed,
    ContextOverflowError,
    FinishReason,
    Message,
    Request,
    Schema,
    TextDelta,
    TextFile,
    UnsupportedError,
)

pytestmark = [pytest.mark.anyio, pytest.mark.live]

WAIT = 90.0
"""No wait is longer than this, in seconds: a tiny model on one thread needs about ten."""


@attrs.frozen
class Weather:
    city: str
    unit: str


def question(server: Server) -> Request:
    return Request(server.model, max_tokens=48, temperature=0, seed=42).user("What is the capital of France?")


async def test_lists_the_model(server: Server) -> None:
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            assert server.model in [model.id for model in await client.list_models()]


async def test_whole_answer(server: Server) -> None:
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            answer = await client.complete(question(server))
    assert answer.text or answer.reasoning
    assert answer.finish in (FinishReason.STOP, FinishReason.LENGTH)
    assert answer.usage is not None
    assert answer.usage.output


async def test_stream(server: Server) -> None:
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client, client.stream(question(server)) as stream:
            events = [event async for event in stream]
    assert isinstance(events[-1], Completed)
    assert stream.completion == events[-1].completion
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text == events[-1].completion.text


async def test_conversation_goes_back_as_it_came(server: Server) -> None:
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            request = question(server)
            first = await client.complete(request)
            second = await client.complete(request.assistant(first).user("And of Spain?"))
    assert first.usage is not None
    assert second.usage is not None
    assert first.usage.input is not None
    assert second.usage.input is not None
    assert second.usage.input > first.usage.input


async def test_text_file_is_read_by_the_server(server: Server, tmp_path: anyio.Path) -> None:
    file = anyio.Path(tmp_path) / "notes.txt"
    await file.write_text('Line one, with "quotes".\nZeile zwei: \u00fc\n', encoding="utf-8")
    request = Request(server.model, max_tokens=8, temperature=0).message(
        Message.user("What is in the file?", TextFile.path(str(file)))
    )
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            with_file = await client.complete(request)
            without = await client.complete(
                Request(server.model, max_tokens=8, temperature=0).user("What is in the file?")
            )
    assert with_file.usage is not None
    assert without.usage is not None
    assert (with_file.usage.input or 0) > (without.usage.input or 0)


async def test_required_tool_call(server: Server) -> None:
    request = (
        Request(server.model, tools=[WEATHER], tool_choice="required", max_tokens=160, temperature=0, seed=42)
        .message(*example("Rome", 10), *example("London", 20))
        .user("What is the weather in Paris in celsius?")
    )
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            answer = await client.complete(request)
            assert answer.finish is FinishReason.TOOL_CALLS
            (call,) = answer.calls
            assert call.complete
            assert call.parse(Weather).unit in ("c", "f")
            after = await client.complete(request.assistant(answer).tool_result(call.id, "21 degrees"))
    assert after.text or after.reasoning or after.calls


async def test_answer_in_a_schema(server: Server) -> None:
    schema = Schema("city", WEATHER.schema)
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            answer = await client.complete(question(server).replace(response_format=schema, max_tokens=96))
    assert isinstance(answer.parse(Weather), Weather)


async def test_output_limit(server: Server) -> None:
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            answer = await client.complete(question(server).replace(max_tokens=2))
    assert answer.finish is FinishReason.LENGTH
    assert answer.usage is not None
    assert answer.usage.output == 2


async def leave_by_break(client: AsyncClient, request: Request) -> None:
    async with client.stream(request) as stream:
        async for _ in stream:
            break


async def leave_by_exception(client: AsyncClient, request: Request) -> None:
    with contextlib.suppress(LookupError):
        async with client.stream(request) as stream:
            await anext(stream)
            raise LookupError


async def leave_by_cancellation(client: AsyncClient, request: Request) -> None:
    with anyio.CancelScope() as scope:
        async with client.stream(request) as stream:
            await anext(stream)
            scope.cancel()
            await anext(stream)


async def cancel_one_read(client: AsyncClient, request: Request) -> None:
    async with client.stream(request) as stream:
        await anext(stream)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(stream)


async def leave_a_relay(client: AsyncClient, request: Request) -> None:
    async with client.send(request) as raw:
        await anext(raw)


async def cancel_complete(client: AsyncClient, request: Request) -> None:
    with anyio.move_on_after(1):
        await client.complete(request)


@pytest.mark.parametrize(
    "leave",
    [leave_by_break, leave_by_exception, leave_by_cancellation, cancel_one_read, leave_a_relay, cancel_complete],
)
async def test_leaving_the_stream_stops_the_server(
    server: Server, leave: Callable[[AsyncClient, Request], Awaitable[None]]
) -> None:
    if not server.local:
        pytest.skip("only the server on this machine tells whether it is generating")
    request = Request(server.model, max_tokens=1900, temperature=1.2, extra={"ignore_eos": True}).user(
        "Tell a long story."
    )
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            await leave(client, request)
            # 1,900 tokens take over a minute: an idle server within the limit was stopped, not finished.
            with anyio.fail_after(20):
                while await anyio.to_thread.run_sync(busy, server.url):
                    pass  # each question is a request of its own: no busy loop


async def test_a_whole_answer_leaves_the_server_idle(server: Server) -> None:
    if not server.local:
        pytest.skip("only the server on this machine tells whether it is generating")
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            for _ in range(3):
                await client.complete(question(server).replace(max_tokens=4))
                assert not await anyio.to_thread.run_sync(busy, server.url)


def busy(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/slots", timeout=10) as response:
        return any(slot["is_processing"] for slot in json.load(response))


async def test_overflow(server: Server) -> None:
    if server.context_tokens is None:
        pytest.skip("SVIR_CONTEXT_TOKENS does not say how large the context is")
    request = Request(server.model, max_tokens=8).user("hello world " * server.context_tokens)
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            with pytest.raises(ContextOverflowError) as caught:
                await client.complete(request)
    assert caught.value.status in (400, 413, 422, None)
    assert "hello" not in str(caught.value)


async def test_a_tool_that_is_not_offered_is_refused_before_anything_is_sent(server: Server) -> None:
    with anyio.fail_after(WAIT):
        async with AsyncClient.openai(server.url) as client:
            with pytest.raises(UnsupportedError):
                await client.complete(question(server).replace(tool_choice="required"))

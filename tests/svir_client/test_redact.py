"""What a server says of the key that it was sent is in no error, and in nothing that stands beside an answer."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import anyio
import httpx2
import pytest

from svir_client import AsyncClient, Client, Retry, Trace
from svir_client.testing import MockServer, Reply, ScriptedTransport
from svir_client.tracing import memory
from svir_client.transport import Transport
from svir_core import serial
from svir_core.errors import AuthenticationError, ServerError, SvirError, TransportError, UnsupportedError
from svir_core.event import Completed, Event, TextDelta
from svir_core.message import Text
from svir_core.quirk import Quirk
from svir_core.redact import REDACTED
from svir_core.request import Effort, Request
from svir_core.response import AnomalyCode, Completion, FinishReason
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api
from svir_transport.h11 import H11Transport
from svir_transport.httpx import HttpxTransport
from tests.svir_client.chat import DONE, FINISH, HELLO, REQUEST, SECONDS, chunk, text
from tests.svir_client.layers.calls import scripted

pytestmark = pytest.mark.anyio

KEY = "sk-canary-7f3a"
TOKEN = "canary-session-token"
MAKERS: dict[str, Callable[..., AsyncClient]] = {
    "openai_chat": AsyncClient.openai,
    "openai_responses": AsyncClient.responses,
    "anthropic_messages": AsyncClient.anthropic,
    "gemini": AsyncClient.gemini,
}
APIS = [openai_chat.API, openai_responses.API, anthropic_messages.API, gemini.API]
SAID = f"the key {KEY} is wrong"
LEFT = f"the key {REDACTED} is wrong"


@pytest.fixture(params=APIS, ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> Api:
    chosen: Api = request.param
    return chosen


@contextlib.asynccontextmanager
async def over_httpx() -> AsyncGenerator[Transport]:
    async with httpx2.AsyncClient() as client, contextlib.aclosing(HttpxTransport(client)) as transport:
        yield transport


@contextlib.asynccontextmanager
async def over_h11() -> AsyncGenerator[Transport]:
    async with contextlib.aclosing(H11Transport()) as transport:
        yield transport


@contextlib.asynccontextmanager
async def asked(api: Api, *replies: Reply, **options: Any) -> AsyncGenerator[AsyncClient]:
    """A client of ``api`` that has the key, in memory."""
    with anyio.fail_after(SECONDS):
        async with (
            contextlib.aclosing(ScriptedTransport(*replies)) as transport,
            MAKERS[api.name]("http://127.0.0.1:1", transport=transport, **{"api_key": KEY, **options}) as client,
        ):
            yield client


async def failing(client: AsyncClient, request: Request = REQUEST, **options: Any) -> tuple[list[Event], SvirError]:
    """What came of an answer, and what it failed with."""
    events: list[Event] = []
    try:
        async with client.stream(request, **options) as stream:
            async for event in stream:
                events.append(event)
    except SvirError as error:
        return events, error
    raise AssertionError("the call did not fail")


def told(error: SvirError) -> str:
    """What the server said, in every form that an error has; none holds the key."""
    forms = [pickle.dumps(error, protocol).decode("latin-1") for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    assert KEY not in "\n".join([*forms, serial.dumps(error).decode("utf-8"), str(error), repr(error)])
    again = cast("SvirError", serial.loads(serial.dumps(error)))
    copied = pickle.loads(pickle.dumps(error))
    assert again.server_message() == copied.server_message() == error.server_message()
    return error.server_message() or ""


def refused(status: int = 401, message: str = SAID) -> Reply:
    return Reply.document({"error": {"message": message}}, status)


# --- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", [over_h11, over_httpx])
async def test_a_refusal(api: Api, over: Callable[[], contextlib.AbstractAsyncContextManager[Transport]]) -> None:
    with anyio.fail_after(SECONDS):
        async with MockServer(refused()) as server, over() as transport:
            client = MAKERS[api.name](server.origin, api_key=KEY, transport=transport)
            _, error = await failing(client)
    assert type(error) is AuthenticationError
    assert told(error) == LEFT


@pytest.mark.parametrize("over", [over_h11, over_httpx])
async def test_a_failure_inside_an_answer(
    api: Api, over: Callable[[], contextlib.AbstractAsyncContextManager[Transport]]
) -> None:
    reply = Reply.events(TextDelta(f"say {KEY}"), ServerError(SAID), api=api)
    with anyio.fail_after(SECONDS):
        async with MockServer(reply) as server, over() as transport:
            client = MAKERS[api.name](server.origin, api_key=KEY, transport=transport)
            events, error = await failing(client)
    assert isinstance(error, ServerError)
    assert error.server_message() == LEFT
    assert error.partial is not None
    assert error.partial.text == f"say {KEY}"
    assert events == [TextDelta(f"say {KEY}")]
    error.partial = None
    assert told(error) == LEFT


async def test_a_listing(api: Api) -> None:
    async with asked(api, refused()) as client:
        with pytest.raises(AuthenticationError) as caught:
            await client.list_models()
    assert told(caught.value) == LEFT


@pytest.mark.parametrize("over", APIS[1:], ids=lambda api: api.name)
async def test_a_count(over: Api) -> None:
    async with asked(over, refused()) as client:
        with pytest.raises(AuthenticationError) as caught:
            await client.count_tokens(REQUEST)
    assert told(caught.value) == LEFT


async def test_a_relay(api: Api) -> None:
    reply = Reply.document({"error": {"message": SAID}}, 401, headers={"x-request-id": f"id-{KEY}"})
    async with asked(api, reply) as client:
        raw = client.send(REQUEST)
        with pytest.raises(AuthenticationError) as caught:
            await raw.__aenter__()
    assert told(caught.value) == LEFT
    assert raw.request_id == f"id-{REDACTED}"
    assert KEY not in str(list(raw.head.headers))


def test_the_blocking_client() -> None:
    with (
        MockServer(refused()).in_thread() as server,
        Client.openai(server.origin, api_key=KEY) as client,
        pytest.raises(AuthenticationError) as caught,
    ):
        client.complete(REQUEST)
    assert told(caught.value) == LEFT


async def test_a_body_that_is_no_answer_cut_inside_the_key() -> None:
    page = b"<html>" + b"." * 184 + KEY.encode()
    async with asked(openai_chat.API, Reply.stream(page)) as client:
        _, error = await failing(client)
    assert told(error) == "<html>" + "." * 184 + REDACTED


async def test_a_message_that_is_cut_inside_the_key() -> None:
    async with asked(openai_chat.API, refused(message="." * 4085 + KEY)) as client:
        _, error = await failing(client)
    said = told(error)
    assert len(said) <= 4096
    assert said.startswith("." * 4085)
    assert "sk-canary" not in said


@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        ([refused(400), refused(401, "later")], UnsupportedError),
        ([refused(400, "no"), Reply.events(TextDelta("a"), ServerError(SAID))], ServerError),
    ],
)
async def test_a_call_that_was_tried_without_its_optional_fields(replies: list[Reply], kind: type[SvirError]) -> None:
    async with asked(openai_chat.API, *replies) as client:
        _, error = await failing(client, REQUEST.replace(effort=Effort.LOW))
    assert type(error) is kind
    assert told(error) == LEFT


async def test_a_call_that_a_layer_repeated() -> None:
    layers = [Retry.transient(1, sleep=_at_once)]
    async with asked(openai_chat.API, refused(503, "first"), refused(503), layers=layers) as client:
        _, error = await failing(client)
    assert type(error) is TransportError
    assert told(error) == LEFT


async def _at_once(seconds: float) -> None:
    assert seconds >= 0


async def test_headers_of_the_client_and_of_the_call() -> None:
    said = refused(400, f"{KEY} {TOKEN} call-canary tenant-canary")
    headers = {"x-session-token": TOKEN, "x-tenant": "tenant-canary"}
    async with asked(openai_chat.API, said, headers=headers) as client:
        _, error = await failing(client, headers={"cookie": "call-canary"})
    assert told(error) == f"{REDACTED} {REDACTED} {REDACTED} tenant-canary"


async def test_the_key_that_a_function_gave_last() -> None:
    keys = iter(["first-canary-key", "later-canary-key"])
    said = "first-canary-key later-canary-key"
    async with asked(
        openai_chat.API, refused(message=said), refused(message=said), api_key=lambda: next(keys)
    ) as client:
        assert (await failing(client))[1].server_message() == f"{REDACTED} later-canary-key"
        assert (await failing(client))[1].server_message() == f"first-canary-key {REDACTED}"


@pytest.mark.parametrize("key", ["s", "key", "1234567"])
async def test_a_short_key_is_left_in_words(api: Api, key: str) -> None:
    said = f"Bearer {key}: this is the short key {key}"
    async with asked(api, refused(message=said), api_key=key) as client:
        _, error = await failing(client)
    assert error.server_message() == said


# --- beside an answer --------------------------------------------------------------------------------


async def test_what_the_server_calls_things(api: Api) -> None:
    answer = Completion(FinishReason.STOP, [Text(f"a {KEY}")], model=f"m-{KEY}", id=f"id-{KEY}")
    reply = Reply.completion(answer, api=api, headers={"request-id": f"r-{KEY}"})
    async with asked(api, reply) as client, client.stream(REQUEST) as stream:
        events = [event async for event in stream]
        completion = stream.completion
    assert completion.text == f"a {KEY}"
    assert KEY not in f"{completion.model} {completion.id} {stream.request_id} {list(stream.head.headers)}"
    assert stream.request_id == f"r-{REDACTED}"
    assert TextDelta(f"a {KEY}") in events
    assert events[-1] == Completed(completion)


async def test_extra_has_its_keys_and_no_secret_in_its_values() -> None:
    said = chunk({"content": "a"}, "stop", service={KEY: [f"<{KEY}>", 1, None]}, model=f"m-{KEY}")
    async with asked(openai_chat.API, Reply.stream(said, DONE), extra=True) as client:
        completion = await client.complete(REQUEST)
    assert completion.extra == {"service": {KEY: [f"<{REDACTED}>", 1, None]}}
    assert completion.model == f"m-{REDACTED}"


async def test_a_finish_in_the_servers_word_and_what_was_forgiven() -> None:
    said = (text("a"), chunk({"x": KEY}), chunk({}, f"done-{KEY}"), DONE)
    async with asked(openai_chat.API, Reply.stream(*said), mode="lenient", quirks=Quirk.FINISH_OPEN) as client:
        completion = await client.complete(REQUEST)
    assert completion.raw_finish == f"done-{REDACTED}"
    assert [each.code for each in completion.anomalies] == [AnomalyCode.UNKNOWN_DELTA_KEY]
    assert KEY.encode() not in pickle.dumps(completion)


async def test_what_was_forgiven_before_a_failure() -> None:
    said = (chunk({"content": "a"}, id=f"id-{KEY}", model=KEY), b"data: 7 " + KEY.encode() + b"\n\n")
    failure = b'data: {"error": "no"}\n\n'
    async with asked(openai_chat.API, Reply.stream(*said, failure), mode="lenient") as client:
        _, error = await failing(client)
    assert error.partial is not None
    assert (error.partial.id, error.partial.model) == (f"id-{REDACTED}", REDACTED)
    assert [each.excerpt for each in error.anomalies] == [f"7 {REDACTED}".encode()]
    assert told(error) == "no"


@pytest.mark.parametrize("layers", [[], [Trace(memory(content=True), capture=True)]])
async def test_an_answer_is_what_the_server_said_though_it_says_the_key(layers: list[Trace]) -> None:
    said = Reply.stream(text(f"a {KEY}"), FINISH, DONE)
    async with scripted(said, api_key=KEY, layers=layers) as (_, client):
        assert (await client.complete(REQUEST)).text == f"a {KEY}"


async def test_a_layer_is_told_the_id_of_a_request_without_the_key() -> None:
    seen: list[str | None] = []

    async def watching(request: Request, next: Any) -> Any:
        stream = await next(request)
        seen.append(next.request_id)
        seen.append(next.redactor.text(f"of {KEY}"))
        return stream

    reply = Reply.stream(*HELLO, headers={"x-request-id": KEY})
    async with scripted(reply, api_key=KEY, layers=[watching]) as (_, client):
        await client.complete(REQUEST)
    assert seen == [REDACTED, f"of {REDACTED}"]

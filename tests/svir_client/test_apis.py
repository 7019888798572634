"""The client over four wire APIs: the same calls, each in the API's own words, on real sockets."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient
from svir_client.testing import Framing, MockServer, RecordedRequest, Reply
from svir_core.errors import (
    AuthenticationError,
    ConfigError,
    ContextOverflowError,
    RateLimitedError,
    SvirError,
    TransportError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.message import Reasoning, Text, ToolCall
from svir_core.quirk import Quirk
from svir_core.request import Effort, Request, Tool
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api, Model

pytestmark = pytest.mark.anyio

SECONDS = 20
KEY = "sk-0123456789abcdef"
TOOL = Tool("f", "Do it.", {"type": "object", "properties": {"a": {"type": "integer"}}})
HI = Request("m").user("hi")

MAKERS: Mapping[str, Callable[..., AsyncClient]] = {
    "openai_chat": AsyncClient.openai,
    "openai_responses": AsyncClient.responses,
    "anthropic_messages": AsyncClient.anthropic,
    "gemini": AsyncClient.gemini,
}
APIS: list[Api] = [openai_chat.API, openai_responses.API, anthropic_messages.API, gemini.API]
PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic_messages": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
KEY_HEADERS = {
    "openai_chat": ("authorization", f"Bearer {KEY}"),
    "openai_responses": ("authorization", f"Bearer {KEY}"),
    "anthropic_messages": ("x-api-key", KEY),
    "gemini": ("x-goog-api-key", KEY),
}


@pytest.fixture(params=APIS, ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> Api:
    chosen: Api = request.param
    return chosen


def make(api: Api, url: str | None, **options: Any) -> AsyncClient:
    return MAKERS[api.name](url, **options)


@contextlib.asynccontextmanager
async def talking(api: Api, *replies: Reply, **options: Any) -> AsyncGenerator[tuple[MockServer, AsyncClient]]:
    with anyio.fail_after(SECONDS):
        async with MockServer(*replies) as server, make(api, server.origin, **options) as client:
            yield server, client


async def test_an_answer_with_text_and_calls(api: Api) -> None:
    told = Completion(
        FinishReason.TOOL_CALLS,
        (Text("Hello"), ToolCall("call_1", "f", '{"a":1}'), ToolCall("call_2", "f", '{"a":2}')),
        usage=Usage(3, 4),
    )
    with anyio.fail_after(SECONDS):
        async with (
            MockServer(Reply.completion(told, api=api)) as server,
            make(api, server.origin, api_key=KEY) as client,
        ):
            answer = await client.complete(HI.replace(tools=[TOOL]))
            (request,) = server.requests
    assert answer.text == "Hello"
    assert [(call.id, call.name, call.arguments) for call in answer.calls] == [
        ("call_1", "f", '{"a":1}'),
        ("call_2", "f", '{"a":2}'),
    ]
    assert answer.finish is FinishReason.TOOL_CALLS
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (3, 4)
    assert (request.method, request.target) == ("POST", PATHS[api.name])
    name, value = KEY_HEADERS[api.name]
    assert request.header(name) == value
    assert sum(header in ("authorization", "x-api-key", "x-goog-api-key") for header, _ in request.headers) == 1
    assert request.header("anthropic-version") == ("2023-06-01" if api is anthropic_messages.API else None)


async def test_a_conversation_goes_on_with_the_answer_as_it_came(api: Api) -> None:
    told = Completion(FinishReason.TOOL_CALLS, (ToolCall("call_1", "f", '{"a":1}'),), usage=Usage(3, 4))
    with anyio.fail_after(SECONDS):
        async with MockServer(Reply.completion(told, api=api), Reply.text("Done", api=api)) as server:
            async with make(api, server.origin) as client:
                request = HI.replace(tools=[TOOL], effort=Effort.LOW)
                answer = await client.complete(request)
                request = request.assistant(answer).tool_result(answer.calls[0].id, "7")
                assert (await client.complete(request)).text == "Done"
            first, second = server.requests
    start = first.body.rstrip(b"}]")
    assert second.body.startswith(start[:-1]), "the longer conversation does not start with the shorter one"


async def test_a_conversation_moves_from_any_api_to_any_other(api: Api) -> None:
    told = Completion(
        FinishReason.TOOL_CALLS,
        (Text("Let me see."), ToolCall("call|1", "f", '{"a":1}')),
        usage=Usage(3, 4),
    )
    for other in APIS:
        async with talking(api, Reply.completion(told, api=api)) as (_, here):
            request = HI.replace(tools=[TOOL])
            answer = await here.complete(request)
        foreign = Completion(answer.finish, (Reasoning("thinking", "hm"), *answer.parts), usage=answer.usage)
        request = request.assistant(foreign).tool_result(answer.calls[0].id, "7")
        async with talking(other, Reply.text("ok", api=other)) as (server, there):
            assert (await there.complete(request)).text == "ok"
            (sent,) = server.requests
        assert sent.complete
        if other is not openai_chat.API:
            assert b"hm" not in sent.body, "reasoning that nobody signed was sent"


async def test_a_cut_answer_is_no_answer(api: Api) -> None:
    whole = Reply.text("Hello, world", api=api)
    length = sum(len(piece) for piece in whole.body or () if isinstance(piece, bytes))
    for cut in range(0, length - 20, 29):
        async with talking(api, Reply.text("Hello, world", api=api, cut=cut)) as (_, client):
            with pytest.raises(TruncatedStreamError):
                await client.complete(HI)


ERRORS: list[tuple[int, dict[str, Any], type[SvirError], bool]] = [
    (401, {"error": {"message": "no"}}, AuthenticationError, False),
    (429, {"error": {"message": "no"}}, RateLimitedError, True),
    (429, {"error": {"message": "no", "code": "insufficient_quota"}}, RateLimitedError, False),
    (529, {"type": "error", "error": {"type": "overloaded_error", "message": "no"}}, RateLimitedError, True),
    (400, {"error": {"message": "prompt is too long: 5 tokens > 4 maximum"}}, ContextOverflowError, False),
    (400, {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}, UnsupportedError, False),
    (503, {"error": {"code": 503, "message": "no", "status": "UNAVAILABLE"}}, TransportError, True),
]


@pytest.mark.parametrize(("status", "body", "kind", "retryable"), ERRORS)
async def test_a_refusal_is_the_same_error(
    api: Api, status: int, body: dict[str, Any], kind: type[SvirError], retryable: bool
) -> None:
    with anyio.fail_after(SECONDS):
        async with MockServer(Reply.document(body, status=status)) as server, make(api, server.origin) as client:
            with pytest.raises(kind) as caught:
                await client.complete(HI)
    assert caught.value.status == status
    assert caught.value.retryable is retryable


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"retry-after-ms": "250"}, {}, 0.25),
        ({}, {"error": {"message": "m", "details": [{"@type": "google.rpc.RetryInfo", "retryDelay": "3.5s"}]}}, 3.5),
    ],
)
async def test_how_long_to_wait(api: Api, headers: dict[str, str], body: dict[str, Any], expected: float) -> None:
    reply = Reply.document(body, status=429, headers=headers)
    with anyio.fail_after(SECONDS):
        async with MockServer(reply) as server, make(api, server.origin) as client:
            with pytest.raises(RateLimitedError) as caught:
                await client.complete(HI)
    assert caught.value.retry_after == expected


async def test_a_listing(api: Api) -> None:
    models = [Model("a", None if api in (openai_chat.API, openai_responses.API) else "A"), Model("b", "B")]
    with anyio.fail_after(SECONDS):
        async with MockServer(Reply.models(*models, api=api)) as server, make(api, server.origin) as client:
            listed = await client.list_models()
    assert [model.id for model in listed] == ["a", "b"]


PAGES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "anthropic_messages": (
        [
            {"data": [{"id": "a", "display_name": "A"}], "has_more": True, "last_id": "a"},
            {"data": [{"id": "b"}], "has_more": False, "last_id": "b"},
        ],
        ["/v1/models?limit=1000", "/v1/models?limit=1000&after_id=a"],
    ),
    "gemini": (
        [
            {"models": [{"name": "models/a", "displayName": "A"}], "nextPageToken": "t/1"},
            {"models": [{"name": "models/b"}]},
        ],
        ["/v1beta/models?pageSize=1000", "/v1beta/models?pageSize=1000&pageToken=t%2F1"],
    ),
}


@pytest.mark.parametrize("name", PAGES)
async def test_a_listing_in_pages(name: str) -> None:
    documents, targets = PAGES[name]
    replies = [Reply.document(document, framing=Framing.LENGTH) for document in documents]
    with anyio.fail_after(SECONDS):
        async with MockServer(*replies) as server, MAKERS[name](server.origin) as client:
            assert await client.list_models() == (Model("a", "A"), Model("b"))
            assert [request.target for request in server.requests] == targets


COUNTS: dict[str, tuple[dict[str, Any], str]] = {
    "openai_responses": ({"object": "response.input_tokens", "input_tokens": 51}, "/v1/responses/input_tokens"),
    "anthropic_messages": ({"input_tokens": 51}, "/v1/messages/count_tokens"),
    "gemini": ({"totalTokens": 51}, "/v1beta/models/m:countTokens"),
}


@pytest.mark.parametrize("name", COUNTS)
async def test_counting_tokens(name: str) -> None:
    document, target = COUNTS[name]
    with anyio.fail_after(SECONDS):
        async with MockServer(Reply.document(document)) as server, MAKERS[name](server.origin) as client:
            assert await client.count_tokens(HI.replace(system="s", max_tokens=5)) == 51
            (request,) = server.requests
    assert request.target == target
    assert b"hi" in request.body
    assert b"stream" not in request.body


async def test_chat_completions_counts_no_tokens() -> None:
    async with AsyncClient.openai("http://127.0.0.1:9") as client:
        with pytest.raises(UnsupportedError, match="counts tokens"):
            await client.count_tokens(HI)


def hosted(client: AsyncClient) -> str:
    return f"{client._endpoint.scheme}://{client._endpoint.host}"


def test_where_an_api_is_hosted_by_default() -> None:
    assert hosted(AsyncClient.responses()) == "https://api.openai.com"
    assert hosted(AsyncClient.anthropic()) == "https://api.anthropic.com"
    assert hosted(AsyncClient.gemini()) == "https://generativelanguage.googleapis.com"


BASES = {
    "openai_responses": ["", "/", "/v1", "/v1/"],
    "anthropic_messages": ["", "/", "/v1", "/v1/"],
    "gemini": ["", "/", "/v1", "/v1beta", "/v1beta/", "/v1beta1", "/v1alpha"],
}


@pytest.mark.parametrize(("name", "base"), [(name, base) for name, bases in BASES.items() for base in bases])
async def test_base_urls(name: str, base: str) -> None:
    api = next(api for api in APIS if api.name == name)
    with anyio.fail_after(SECONDS):
        async with MockServer(Reply.text("x", api=api)) as server, MAKERS[name](server.origin + base) as client:
            await client.complete(HI)
            assert server.requests[0].target == PATHS[name]


async def sent_by(client_of: Callable[[str], AsyncClient], api: Api) -> RecordedRequest:
    with anyio.fail_after(SECONDS):
        async with MockServer(Reply.text("x", api=api)) as server, client_of(server.origin) as client:
            await client.complete(HI)
            return server.requests[0]


async def test_version_and_auth_of_anthropic_are_options() -> None:
    request = await sent_by(
        lambda url: AsyncClient.anthropic(url, version="2026-10-21", auth="bearer", api_key=KEY), anthropic_messages.API
    )
    assert request.header("anthropic-version") == "2026-10-21"
    assert request.header("authorization") == f"Bearer {KEY}"
    assert request.header("x-api-key") is None


async def test_version_parent_and_auth_of_gemini_are_options() -> None:
    parent = "projects/p/locations/l/publishers/google/models"
    request = await sent_by(
        lambda url: AsyncClient.gemini(url, version="v1beta1", parent=parent, auth="bearer", api_key=KEY), gemini.API
    )
    assert request.target == f"/v1beta1/{parent}/m:streamGenerateContent?alt=sse"
    assert request.header("authorization") == f"Bearer {KEY}"
    assert request.header("x-goog-api-key") is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: AsyncClient.anthropic(auth="basic"),
        lambda: AsyncClient.anthropic(version=""),
        lambda: AsyncClient.gemini(auth="basic"),
        lambda: AsyncClient.gemini(version="v1/../x"),
        lambda: AsyncClient.gemini(parent="../x"),
        lambda: AsyncClient.responses(api_key=""),
    ],
)
def test_a_wrong_option_is_refused_at_once(wrong: Callable[[], AsyncClient]) -> None:
    with pytest.raises(ConfigError):
        wrong()


async def test_quirks_belong_to_chat_completions(api: Api) -> None:
    if api is openai_chat.API:
        return
    async with talking(api, Reply.text("x", api=api), quirks=Quirk.DONE_OPTIONAL) as (_, client):
        with pytest.raises(ConfigError, match="quirk"):
            await client.complete(HI)


def test_the_defaults_are_those_of_the_apis() -> None:
    def default(make: Callable[..., AsyncClient], name: str) -> object:
        return inspect.signature(make).parameters[name].default

    for name in ("version", "auth"):
        assert default(AsyncClient.anthropic, name) == getattr(anthropic_messages.API, name)
    for name in ("version", "parent", "auth", "skip_signatures"):
        assert default(AsyncClient.gemini, name) == getattr(gemini.API, name)


@pytest.mark.parametrize(("name", "header"), [("anthropic_messages", "x-api-key"), ("gemini", "X-Goog-Api-Key")])
async def test_a_header_of_the_callers_that_the_key_would_replace_is_refused(name: str, header: str) -> None:
    async with MAKERS[name]("http://127.0.0.1:9", api_key=KEY, headers={header: "mine"}) as client:
        with pytest.raises(ConfigError, match=header.lower()):
            await client.complete(HI)
    async with MAKERS[name]("http://127.0.0.1:9", api_key=KEY) as client:
        with pytest.raises(ConfigError, match=header.lower()):
            await client.complete(HI, headers={header: "mine"})


async def test_a_key_may_be_a_header_of_the_callers_where_there_is_no_other() -> None:
    async with talking(
        anthropic_messages.API, Reply.text("x", api=anthropic_messages.API), headers={"x-api-key": KEY}
    ) as (
        server,
        client,
    ):
        await client.complete(HI)
        assert server.requests[0].header("x-api-key") == KEY

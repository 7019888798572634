"""The client over real sockets: what it sends, what it learns, what it refuses before it sends."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import pathlib
import pickle
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio
import attrs
import pytest

from svir_client import AsyncClient, Client, Compatibility
from svir_client.options import ClientOptions, KeyedOptions
from svir_client.testing import End, Framing, MockServer, Pause, Reply
from svir_core.errors import (
    AttachmentError,
    AuthenticationError,
    ConfigError,
    ContentFilterError,
    ContextOverflowError,
    ProtocolError,
    RateLimitedError,
    ResponseLimitError,
    ResponseTimeoutError,
    ServerError,
    SvirError,
    TransportError,
    UnsupportedError,
)
from svir_core.http_message import HttpRequest
from svir_core.limits import DOCUMENT_BYTES
from svir_core.message import Image, Message, TextFile
from svir_core.request import Effort, Request
from svir_core.response import Reasoning
from svir_core.wire.api import Model
from svir_core.wire.openai_chat import ChatCompletions
from svir_transport.h11 import H11Transport
from tests.svir_client.chat import DONE, FINISH, HELLO, REQUEST, SECONDS, cancelled_everywhere, hello, text

pytestmark = pytest.mark.anyio

KEY = "sk-0123456789abcdef"
REFUSAL = Reply.document({"error": {"message": "no such field"}}, status=400)
URL = "http://127.0.0.1:1"


@attrs.frozen
class HostedHere(ChatCompletions):
    """An API whose maker hosts it on this machine."""

    base_url: str


@contextlib.asynccontextmanager
async def connected(*replies: Reply, **options: Any) -> AsyncGenerator[tuple[MockServer, AsyncClient]]:
    with anyio.fail_after(SECONDS):
        async with MockServer(*replies) as server, AsyncClient.openai(server.origin, **options) as client:
            yield server, client


# --- what is sent --------------------------------------------------------------------------------


async def test_complete_gives_the_answer() -> None:
    async with connected(hello()) as (server, client):
        answer = await client.complete(REQUEST)
        assert answer.text == "Hello"
        await server.wait_closed()
        (request,) = server.requests
        assert (request.method, request.target) == ("POST", "/v1/chat/completions")
        assert request.header("content-type") == "application/json"
        assert request.header("accept") == "text/event-stream"
        assert request.header("content-length") == str(len(request.body))
        assert request.header("authorization") is None
        assert request.header("transfer-encoding") is None
        assert request.json() == {
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
async def test_a_base_url_with_and_without_v1(base: str) -> None:
    async with MockServer(hello()) as server, AsyncClient.openai(server.origin + base) as client:
        await client.complete(REQUEST)
        assert server.requests[0].target == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("client_asks", "request_asks", "asked"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
async def test_usage_is_asked_for_unless_told_otherwise(client_asks: bool, request_asks: bool, asked: bool) -> None:
    async with connected(hello(), include_usage=client_asks) as (server, client):
        await client.complete(REQUEST.replace(include_usage=request_asks))
        assert ("stream_options" in server.requests[0].json()) is asked


async def test_a_key_and_headers_go_with_every_request() -> None:
    models = Reply.document({"data": [{"id": "m"}]})
    async with connected(hello(), models, api_key=KEY, headers={"X-Tenant": "acme"}) as (server, client):
        await client.complete(REQUEST)
        await client.list_models()
        for request in server.requests:
            assert request.header_values("authorization") == (f"Bearer {KEY}",)
            assert request.header_values("x-tenant") == ("acme",)


async def test_a_function_is_asked_for_the_key_of_each_call() -> None:
    keys = iter(["first", "second", "third"])

    async def rotating() -> str:
        await anyio.lowlevel.checkpoint()
        return next(keys)

    replies = (hello(), Reply.document({"data": []}), REFUSAL, hello())
    async with connected(*replies, api_key=rotating) as (server, client):
        await client.complete(REQUEST)
        await client.list_models()
        await client.complete(REQUEST)
        sent = [request.header("authorization") for request in server.requests]
        # the retry belongs to its call
        assert sent == ["Bearer first", "Bearer second", "Bearer third", "Bearer third"]


async def test_headers_of_a_call_replace_the_clients_of_that_name() -> None:
    async with connected(hello(), hello(), headers={"x-a": "1", "x-b": "2"}) as (server, client):
        await client.complete(REQUEST, headers={"X-B": "3", "x-c": "4"})
        await client.complete(REQUEST)
        seen = [[request.header_values(name) for name in ("x-a", "x-b", "x-c")] for request in server.requests]
        assert seen == [[("1",), ("3",), ("4",)], [("1",), ("2",), ()]]


async def test_an_endpoint_replaces_the_url_of_requests_alone() -> None:
    async with MockServer(hello(), Reply.document({"data": []})) as server:
        endpoint = f"{server.origin}/openai/deployments/d/chat/completions?api-version=2024-10-21"
        async with AsyncClient.openai(server.origin, endpoint=endpoint) as client:
            await client.complete(REQUEST)
            await client.list_models()
        assert [request.target for request in server.requests] == [
            "/openai/deployments/d/chat/completions?api-version=2024-10-21",
            "/v1/models",
        ]
        async with AsyncClient.openai(None, endpoint=endpoint) as client:
            with pytest.raises(ConfigError, match="no base URL"):
                await client.list_models()


async def test_attachments_are_read_from_disk(tmp_path: pathlib.Path) -> None:
    image, notes = tmp_path / "a.png", tmp_path / "notes.txt"
    image.write_bytes(b"\x89PNG\r\n" * 1000)
    notes.write_text('say "hi"\n' * 1000)
    async with connected(hello()) as (server, client):
        request = Request("m").message(Message.user("look", Image.path(image), TextFile.path(notes)))
        assert (await client.complete(request)).text == "Hello"
        content = server.requests[0].json()["messages"][0]["content"]
        assert content[1]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0K")
        assert 'say "hi"\n' * 1000 in content[0]["text"]


# --- what is learned -----------------------------------------------------------------------------


async def test_a_refused_optional_field_is_left_out_once_and_then_always() -> None:
    async with connected(REFUSAL, hello(), hello()) as (server, client):
        for _ in range(2):
            assert (await client.complete(REQUEST.replace(effort=Effort.LOW))).text == "Hello"
        optional = {"reasoning_effort", "stream_options"}
        assert [optional & set(request.json()) for request in server.requests] == [optional, set(), set()]


async def test_a_retry_that_fails_too_reports_the_first_error_and_teaches_nothing() -> None:
    compat = Compatibility()
    second = Reply.document({"error": {"message": "second"}}, status=401)
    async with connected(REFUSAL, second, compat=compat) as (server, client):
        with pytest.raises(UnsupportedError) as caught:
            await client.complete(REQUEST)
        assert caught.value.status == 400
        assert caught.value.server_message() == "no such field"
        assert compat == Compatibility()
        assert (len(server.requests), server.unscripted) == (2, 0)


async def test_a_retry_whose_connection_fails_reports_the_first_error() -> None:
    async with connected(REFUSAL, Reply(raw=b"", end=End.RESET)) as (server, client):
        with pytest.raises(UnsupportedError) as caught:
            await client.complete(REQUEST)
        assert caught.value.status == 400
        await server.wait_closed()


async def test_a_memory_is_shared_between_clients() -> None:
    compat = Compatibility()
    async with connected(REFUSAL, hello(), compat=compat) as (_, client):
        await client.complete(REQUEST)
    async with connected(hello(), compat=compat) as (server, client):
        await client.complete(REQUEST)
        assert "stream_options" not in server.requests[0].json()


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "document", "kind"),
    [
        (401, {}, AuthenticationError),
        (403, {}, AuthenticationError),
        (404, {"error": "no model"}, UnsupportedError),
        (408, {}, ResponseTimeoutError),
        (413, {"error": {"message": "the context window is full"}}, ContextOverflowError),
        (422, {"error": {"code": "content_filter", "message": "blocked"}}, ContentFilterError),
        (429, {}, RateLimitedError),
        (500, {"error": {"message": "context length"}}, TransportError),
        (302, {}, UnsupportedError),
    ],
)
@pytest.mark.parametrize("framing", list(Framing))
async def test_a_status_is_its_error(
    status: int, document: dict[str, Any], kind: type[SvirError], framing: Framing
) -> None:
    reply = Reply.document(document, status=status, framing=framing)
    async with connected(reply, include_usage=False) as (server, client):
        with pytest.raises(kind) as caught:
            await client.complete(REQUEST)
        assert type(caught.value) is kind
        assert caught.value.status == status
        if framing is Framing.CLOSE:
            await server.wait_closed()


async def test_retry_after_is_on_the_error() -> None:
    async with connected(Reply(429, {"retry-after": "7"})) as (_, client):
        with pytest.raises(RateLimitedError) as caught:
            await client.complete(REQUEST)
        assert caught.value.retry_after == 7


@pytest.mark.parametrize("end", [End.STALL, End.CLOSE, End.RESET])
async def test_an_error_body_is_waited_for_only_so_long(end: End) -> None:
    reply = Reply(500, {"content-length": "900"}, (b'{"error": "half of',), end=end)
    async with connected(reply) as (server, client):
        with anyio.fail_after(2), pytest.raises(TransportError) as caught:
            await client.complete(REQUEST)
        assert caught.value.status == 500
        await server.wait_closed()


async def test_a_400_that_stalls_is_answered_by_its_status_when_the_idle_clock_runs_out() -> None:
    stalling = Reply(400, {"content-type": "text/plain"}, (b"half of",), end=End.STALL)
    async with connected(stalling, include_usage=False, idle_timeout=0.3) as (server, client):
        with pytest.raises(UnsupportedError) as caught:
            await client.complete(REQUEST)
        assert caught.value.status == 400
        assert caught.value.server_message() == "half of"
        await server.wait_closed()


async def test_an_error_body_is_read_up_to_a_limit() -> None:
    endless = Reply(400, {"content-type": "text/plain"}, (b"x" * 1_000_000,), end=End.STALL)
    async with connected(endless, include_usage=False) as (server, client):
        with pytest.raises(UnsupportedError):
            await client.complete(REQUEST)
        await server.wait_closed()


async def test_a_connection_whose_error_body_was_read_is_kept() -> None:
    refusal = Reply.document({}, status=404, framing=Framing.LENGTH)
    async with connected(refusal, hello()) as (server, client):
        with pytest.raises(UnsupportedError):
            await client.complete(REQUEST)
        await client.complete(REQUEST)
        assert [request.connection for request in server.requests] == [0, 0]


async def test_a_server_that_is_not_there_is_unsent() -> None:
    async with MockServer() as server:
        gone = server.origin
    async with AsyncClient.openai(gone) as client:
        with pytest.raises(TransportError) as caught:
            await client.complete(REQUEST)
    assert caught.value.unsent
    assert caught.value.status is None
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "127.0.0.1" not in f"{caught.value} {caught.value!r}"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 999999 x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000,
    ],
    ids=["nothing", "blank", "ssh", "status", "endless head"],
)
async def test_a_server_that_speaks_no_http(raw: bytes) -> None:
    async with connected(Reply(raw=raw, end=End.CLOSE)) as (server, client):
        with pytest.raises(SvirError):
            await client.complete(REQUEST)
        await server.wait_closed()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>login</html>",
        b"\x1f\x8b\x08",
        b"data: " + b"x" * 300_000,
        b"{" * 100_000,
        b"\n" * 100_000,
        b"\0" * 9,
    ],
    ids=["empty", "html", "gzip", "endless line", "braces", "blank lines", "zeros"],
)
async def test_a_body_that_is_no_answer(body: bytes) -> None:
    async with connected(Reply.stream(body)) as (server, client):
        with pytest.raises(SvirError):
            await client.complete(REQUEST)
        await server.wait_closed()


# --- refused before a byte is sent ---------------------------------------------------------------


async def test_a_callers_mistake_is_raised_before_anything_is_sent(tmp_path: pathlib.Path) -> None:
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff")
    mistakes: list[tuple[Request, dict[str, Any], type[SvirError]]] = [
        (REQUEST.replace(tool_choice="required"), {}, UnsupportedError),
        (Request("m").message(Message.user(TextFile.path(tmp_path / "missing"))), {}, AttachmentError),
        (Request("m").message(Message.user(TextFile.path(binary))), {}, AttachmentError),
        (Request("m").message(Message.user(Image.data(b"", ""))), {}, AttachmentError),
        (Request("m").user("x" * 500), {}, ContextOverflowError),
        (REQUEST, {"headers": {"authorization": "mine"}}, ConfigError),
        (REQUEST, {"headers": {"x-a": "line\nend"}}, ConfigError),
        (REQUEST, {"headers": {"two words": "x"}}, ConfigError),
        (REQUEST, {"idle_timeout": 0}, ConfigError),
    ]
    async with connected(context_tokens=400) as (server, client):
        for request, options, kind in mistakes:
            with pytest.raises(kind) as caught:
                await client.complete(request, **options)
            assert type(caught.value) is kind
        not_a_request: Any = "hi"
        for call in (client.stream, client.send):
            with pytest.raises(ConfigError, match="takes a Request, not a str"):
                call(not_a_request)
        assert server.connections == ()


@pytest.mark.parametrize(
    "options",
    [
        {"connect_timeout": 0},
        {"connect_timeout": -1},
        {"connect_timeout": math.nan},
        {"connect_timeout": None},
        {"connect_timeout": True},
        {"idle_timeout": 0.0},
        {"idle_timeout": -0.5},
        {"idle_timeout": math.nan},
        {"idle_timeout": "300"},
        {"context_tokens": 0},
        {"context_tokens": -1},
        {"image_tokens": -1},
        {"mode": "loose"},
        {"think": "sometimes"},
        {"limits": 7},
        {"quirks": "DONE_OPTIONAL"},
        {"compat": {}},
        {"transport": "h11"},
        {"include_usage": None},
        {"headers": {"host": "elsewhere"}},
        {"headers": {"x-a": "\u00e9"}},
        {"headers": "x-a: 1"},
        {"endpoint": "http://example.com/v1"},
        {"api_key": KEY, "api_key_env": "HOME"},
    ],
    ids=repr,
)
def test_an_option_that_is_wrong_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        AsyncClient.openai(URL, **options)
    assert "elsewhere" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:1", "ftp://127.0.0.1", "http://example.com", "http://u:p@127.0.0.1", "http://127.0.0.1?a", None, 7],
)
def test_a_base_url_that_is_wrong_is_refused_at_once(url: Any) -> None:
    with pytest.raises(ConfigError):
        AsyncClient.openai(url)


def test_plain_http_to_another_machine_needs_the_word() -> None:
    with pytest.raises(ConfigError, match="allow_http"):
        AsyncClient.openai("http://192.0.2.1")
    AsyncClient.openai("http://192.0.2.1", allow_http=True)
    AsyncClient.openai("https://192.0.2.1")


@pytest.mark.parametrize("never", [math.inf, 1e308, 10**400])
async def test_a_timeout_that_never_comes(never: float) -> None:
    async with connected(hello(), idle_timeout=never, connect_timeout=never) as (_, client):
        assert (await client.complete(REQUEST, idle_timeout=never)).text == "Hello"


# --- listing models ------------------------------------------------------------------------------


async def test_models_in_the_servers_order() -> None:
    listing = {"data": [{"id": "z", "name": "Zed"}, {"id": "a"}]}
    async with connected(Reply.document(listing, framing=Framing.CHUNKED), hello()) as (server, client):
        assert await client.list_models() == (Model("z", "Zed"), Model("a"))
        await client.complete(REQUEST)
        first, second = server.requests
        assert (first.method, first.target, first.body) == ("GET", "/v1/models", b"")
        assert first.header("accept") == "application/json"
        assert first.header("content-type") is None
        assert first.header("content-length") is None
        assert second.connection == first.connection


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply.document({"error": {"message": "key"}}, status=401), AuthenticationError),
        (Reply.document({"error": {"message": "busy"}}, status=503), TransportError),
        (Reply.document({"error": {"message": "loading"}}), ServerError),
        (Reply.document([]), ProtocolError),
        (Reply.document({"data": [{"name": "no id"}]}), ProtocolError),
        (Reply(200, {"content-type": "application/json"}, (b'{"data": [',), end=End.STALL), ResponseTimeoutError),
        (
            Reply(200, {"content-type": "application/json"}, (b'{"data": []}',), framing=Framing.LENGTH, cut=5),
            TransportError,
        ),
        (Reply(200, {"content-type": "application/json"}, (b" " * (DOCUMENT_BYTES + 1),)), ResponseLimitError),
        (Reply(500, {"content-type": "text/plain"}, (b"half",), end=End.STALL), TransportError),
        (Reply(302, {"location": "http://127.0.0.1/"}), UnsupportedError),
    ],
)
async def test_a_listing_that_is_none(reply: Reply, kind: type[SvirError]) -> None:
    async with connected(reply, idle_timeout=0.5) as (server, client):
        with pytest.raises(kind) as caught:
            await client.list_models()
        assert type(caught.value) is kind
        with anyio.fail_after(2):
            await server.wait_closed()


async def test_a_listing_cancelled_everywhere_leaves_nothing_open() -> None:
    script = [Reply.document({"data": []})]
    assert await cancelled_everywhere(lambda: script, lambda client: client.list_models()) > 3


# --- the client itself ---------------------------------------------------------------------------


async def test_a_closed_client_refuses_calls() -> None:
    async with connected(hello(framing=Framing.LENGTH)) as (server, client):
        stream = client.stream(REQUEST)
        await client.complete(REQUEST)
        await client.aclose()
        await client.aclose()
        await server.wait_closed()
        assert repr(client) == "<AsyncClient openai_chat closed>"
        for call in (client.complete(REQUEST), client.list_models(), stream.__aenter__()):
            with pytest.raises(ConfigError, match="client is closed"):
                await call
        with pytest.raises(ConfigError, match="client is closed"):
            client.stream(REQUEST)


class OwnTransport(H11Transport):
    """A transport of the caller."""

    closed = False

    async def aclose(self) -> None:
        self.closed = True
        await super().aclose()


async def test_a_given_transport_is_the_callers_to_close() -> None:
    transport = OwnTransport()
    async with connected(hello(), transport=transport) as (_, client):
        await client.complete(REQUEST)
    assert not transport.closed
    await transport.aclose()


class BrokenTransport:
    """A transport that fails as a test wants."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.requests: list[HttpRequest] = []

    async def open(self, request: HttpRequest, body: Any, **options: Any) -> Any:
        self.requests.append(request)
        raise self.error

    async def aclose(self) -> None:
        raise AssertionError("the client does not own this transport")


async def test_what_a_transport_raises_is_what_the_caller_gets() -> None:
    error = TransportError("no route", unsent=True)
    transport = BrokenTransport(error)
    async with AsyncClient.openai(URL, transport=transport, api_key=KEY) as client:
        with pytest.raises(TransportError, match="no route") as caught:
            await client.complete(REQUEST)
    assert caught.value.unsent
    assert len(transport.requests) == 1
    assert KEY not in repr(transport.requests)


async def test_one_client_in_many_tasks() -> None:
    async with connected(*(hello(framing=Framing.LENGTH) for _ in range(20))) as (_, client):
        texts: list[str] = []

        async def ask() -> None:
            texts.append((await client.complete(REQUEST)).text)

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(ask)
        assert texts == ["Hello"] * 20


def test_one_client_under_several_event_loops() -> None:
    transport = H11Transport()
    texts: list[str] = []

    async def ask() -> None:
        with anyio.fail_after(SECONDS):
            async with MockServer(hello(framing=Framing.LENGTH), hello(framing=Framing.LENGTH)) as server:
                client = AsyncClient.openai(server.origin, transport=transport)
                for _ in range(2):
                    texts.append((await client.complete(REQUEST)).text)
                assert [request.connection for request in server.requests] == [0, 0]

    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(ask, backend=backend)
    anyio.run(transport.aclose)
    assert texts == ["Hello"] * 6


async def test_think_and_mode_reach_the_decoder() -> None:
    body = (text("<think>hm</think>so"), b"strange: field\n", FINISH, DONE)
    async with connected(Reply.stream(*body), mode="lenient") as (_, client):
        answer = await client.complete(REQUEST)
        assert answer.reasoning == (Reasoning("think", "hm"),)
        assert answer.anomalies
    async with connected(Reply.stream(*body), Reply.stream(*HELLO[:2], FINISH, DONE), think="keep") as (_, client):
        with pytest.raises(UnsupportedError):
            await client.complete(REQUEST)
        assert (await client.complete(REQUEST)).text == "Hello"


def test_its_repr_shows_neither_address_nor_key() -> None:
    client = AsyncClient.openai("http://127.0.0.1:4321/secret", api_key=KEY, headers={"x-tenant": "acme"})
    assert repr(client) == "<AsyncClient openai_chat open>"


# --- the environment -----------------------------------------------------------------------------


async def test_from_env(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MockServer(hello(), hello()) as server:
        monkeypatch.setenv("SVIR_URL", server.origin)
        monkeypatch.setenv("SVIR_API_KEY", KEY)
        async with AsyncClient.from_env(include_usage=False) as client:
            await client.complete(REQUEST)
        monkeypatch.setenv("SVIR_API_KEY", "")
        async with AsyncClient.from_env() as client:
            await client.complete(REQUEST)
        assert [request.header("authorization") for request in server.requests] == [f"Bearer {KEY}", None]
        assert ["stream_options" in request.json() for request in server.requests] == [False, True]


@pytest.mark.parametrize("value", [None, "", "http://example.com"])
def test_from_env_needs_a_url(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("SVIR_URL", raising=False)
    if value is not None:
        monkeypatch.setenv("SVIR_URL", value)
    with pytest.raises(ConfigError):
        AsyncClient.from_env()


async def test_nothing_else_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SVIR_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with connected(hello()) as (server, client):
        await client.complete(REQUEST)
        assert server.requests[0].header("authorization") is None


def test_the_constructors_take_the_options_of_the_general_one() -> None:
    parameters = set(inspect.signature(AsyncClient.of).parameters) - {"api", "base_url"}
    keys = {"api_key", "api_key_env", "api_key_file"}
    assert set(ClientOptions.__annotations__) == parameters - keys
    assert set(KeyedOptions.__annotations__) == parameters


@pytest.mark.parametrize("options", [{}, {"api_key": "k"}])
def test_no_address_is_no_client(options: Any) -> None:
    with pytest.raises(ConfigError, match="base URL"):
        AsyncClient.openai(None, **options)


@pytest.mark.parametrize("value", ["no", 1, None])
def test_plain_http_is_allowed_by_a_bool(value: Any) -> None:
    with pytest.raises(ConfigError, match="allow_http must be a bool"):
        AsyncClient.openai("http://models.example", allow_http=value)


@pytest.mark.parametrize("nothing", [5, "openai", None])
def test_an_api_is_one(nothing: Any) -> None:
    with pytest.raises(ConfigError, match=r"api must be a wire API, such as openai_chat\.API"):
        AsyncClient.of(nothing, "http://127.0.0.1")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_is_open_is_one_of_a_kind(duplicate: Callable[[Any], Any]) -> None:
    client = AsyncClient.openai(URL)
    blocking = Client.openai(URL)
    stream = client.stream(REQUEST)
    twin = blocking.stream(REQUEST)
    for value in (client, stream, stream.text(), client.send(REQUEST), blocking, twin, twin.text()):
        with pytest.raises(ConfigError, match="neither copied nor pickled"):
            duplicate(value)


@pytest.mark.parametrize("status", [400, 422])
async def test_a_refusal_that_drips_is_waited_for_no_longer_than_the_idle_timeout(status: int) -> None:
    """Each piece comes in time, and the whole of it never would."""
    gates = [Pause(0.05) for _ in range(400)]
    pieces = [piece for gate in gates for piece in (b" ", gate)]
    reply = Reply(status, {"content-type": "application/json"}, tuple(pieces))
    async with connected(reply, idle_timeout=0.2) as (_, client):
        with anyio.fail_after(5), pytest.raises(UnsupportedError):
            await client.complete(REQUEST)


def test_an_option_that_does_not_exist_is_a_type_error() -> None:
    options: Any = {"timeout": 5}
    with pytest.raises(TypeError, match="timeout"):
        AsyncClient.openai("http://127.0.0.1", **options)


async def test_an_api_of_the_callers_own_and_where_it_is_hosted() -> None:
    async with MockServer(Reply.document({"data": []}, framing=Framing.LENGTH)) as server:
        api = HostedHere(server.origin)
        async with AsyncClient.of(api) as client:
            assert await client.list_models() == ()
        async with AsyncClient.of(api, endpoint=f"{server.origin}/x") as client:
            with pytest.raises(ConfigError, match="no base URL"):
                await client.list_models()
